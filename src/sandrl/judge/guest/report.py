"""The frame around every judge: reads the request, runs the judge, writes a verdict that no completion can write."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import marshal
import posix
from collections.abc import Callable
from typing import NoReturn

from sandrl.judge.guest.child import PR_SET_DUMPABLE, Room, to_hex
from sandrl.judge.guest.clock import STOPPED, Clock, listen
from sandrl.judge.guest.declarations import Libc, Request
from sandrl.judge.guest.descriptors import head, load_libc, read_exactly, write_all
from sandrl.judge.guest.excerpts import ExcerptRoom
from sandrl.judge.guest.supervisor import CHECKER_FAILED, PASSED, TIMED_OUT, Ends, Judgment

KEY_BYTES = 32


def report(request: Request, judged: Judgment, key: str, outputs: tuple[int, int] = (1, 2)) -> int:
    """Writes output and verdict to the host; returns the exit status: 0 on a pass, else `STOPPED` or 1."""
    _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)  # what outlived its completion may still send it
    printed, stdout_size = head(judged.stdout, request["max_output_bytes"])
    complained, stderr_size = head(judged.stderr, request["max_output_bytes"])
    status, detail = judged.status, judged.detail
    if status != "passed" and max(stdout_size, stderr_size) >= request["max_file_bytes"]:
        status, detail = "resource_limit", f"it printed more than {request['max_file_bytes']} bytes"
    has_passed = {letter for letter, _ in judged.checks} == {PASSED}
    if status == "passed" and not has_passed:
        status, detail = "crashed", "its report is inconsistent"
    times = judged.times
    fields: list[object] = [key, status, "".join([letter for letter, _ in judged.checks]) or "-"]
    fields += [f"{seconds:.6f}" for seconds in (times.wall, times.cpu, times.starved)]
    fields += [stdout_size, stderr_size, to_hex(detail) or "-", details_of(judged) or "-"]
    fields += [f"{judged.compile_seconds:.6f}", excerpts_of(judged) or "-", int(judged.rests)]
    verdict = " ".join(map(str, fields)) + "\n"
    if judged.returned is not None:
        verdict = f"{key} returned {judged.returned}\n{verdict}"
    write_all(outputs[1], complained)
    write_all(outputs[0], printed + b"\n" + verdict.encode())
    if status == "passed":
        return 0
    is_late = status in ("timeout", CHECKER_FAILED) or TIMED_OUT in [letter for letter, _ in judged.checks]
    return STOPPED if Clock.stood_still or (Clock.saw_stop and is_late) else 1


def details_of(judged: Judgment) -> str:
    """What there is to say about single checks, by their numbers from 0, as far as there is room."""
    room = Room()
    told = [(number, room.take(detail)) for number, (_, detail) in enumerate(judged.checks) if detail]
    scores = {number: f":{score!r}" for number, score in judged.scores.items()}
    return ",".join([f"{number}:{to_hex(detail)}{scores.get(number, '')}" for number, detail in told if detail])


def excerpts_of(judged: Judgment) -> str:
    room = ExcerptRoom()
    told = []
    for number, (got, expected, line, begin) in judged.excerpts.items():
        if number < len(judged.checks) and judged.checks[number][0] != PASSED:
            sides = ["" if side is None else "=" + to_hex(side) for side in (room.take(got), room.take(expected))]
            told.append(f"{number}:{sides[0]}:{sides[1]}:{line}:{begin[0]}:{begin[1]}")
    return ",".join(told)


def main(request_size: int, judge: Callable[[Request, Libc | None], Judgment]) -> NoReturn:
    """Reads the request, judges, reports, and leaves without the interpreter's own (slow) shutdown."""
    # What is there by now stays: no collection looks at it again, in none of the processes.
    gc.freeze()
    gc.enable()
    request = marshal.loads(read_exactly(request_size))
    call = load_libc()
    if call is not None:
        # Same user, same sandbox: without this the child could open the supervisor's descriptors through /proc.
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    listen()
    Ends.listen()
    judged = judge(request, call)
    posix._exit(report(request, judged, read_exactly(KEY_BYTES).decode()))
