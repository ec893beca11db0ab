"""Judges a program by its output: one process per case, and one process that compares (`comparison.py`)."""

from __future__ import annotations

import posix
from collections.abc import Callable

from sandrl.rewards.guest.baseline import Baseline
from sandrl.rewards.guest.comparison import Comparison
from sandrl.rewards.guest.declarations import Checked, Libc, Request, RunCase
from sandrl.rewards.guest.descriptors import scratch_file, write_all
from sandrl.rewards.guest.script import judge_program, run_script
from sandrl.rewards.guest.supervisor import (
    CHECKER_FAILED,
    NOT_REACHED,
    NOT_RUN,
    Ended,
    Judged,
    Times,
    filled,
    letter_of,
    run_child,
    uncounted,
)


def stdin_of_case(request: Request, position: int) -> int:
    stdin = scratch_file()
    write_all(stdin, request["inputs"][position])
    posix.lseek(stdin, 0, 0)
    return stdin


def run_case(
    request: Request, position: int, seconds: float, limit: float, baseline: Baseline
) -> tuple[Ended, str, str]:
    """Runs the completion as a script with a case on standard input, and perhaps in files of its own.

    `limit` is the limit that is named where it takes longer than `seconds`.

    Raises:
        OSError: If there is no room for it, or the state cannot be restored.
    """
    baseline.prepare()
    stdin = stdin_of_case(request, position)
    if "input_file" not in request:
        ended = run_child(run_script, request, stdin, seconds, baseline.call)
        return (ended, *judge_program(ended, limit))
    # The directory is the child's: made by it.
    folder = "/tmp/case-" + posix.urandom(12).hex()
    own = {"folder": folder, "files": files_of_case(request, position)}
    ended = run_child(run_script, {**request, **own}, stdin, seconds, baseline.call)
    if request["output_file"]:
        take_output(ended, f"{folder}/{request['output_file']}")
    return (ended, *judge_program(ended, limit))


def files_of_case(request: Request, position: int) -> list[tuple[str, bytes]]:
    name = request.get("input_file")
    return [*request.get("files", ()), *([(name, request["inputs"][position])] if name else ())]


def take_output(ended: Ended, path: str) -> None:
    """Takes a file that a program has written for what it printed; one that is no plain file is none."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return
    if posix.fstat(descriptor).st_mode & 0o170000 != 0o100000:
        posix.close(descriptor)
        return
    posix.close(ended.stdout)
    ended.stdout = descriptor


class Budget:
    """The time of all cases together, at most `most_seconds`; of one that passes, up to `free_seconds` do not count."""

    def __init__(self, request: Request) -> None:
        self.seconds = request["timeout_seconds"]
        self.free = request["free_seconds"]
        self.most = request["most_seconds"]
        self.used = 0.0

    def spend(self, seconds: float, *, has_passed: bool) -> None:
        self.used += seconds
        if has_passed:
            self.seconds = max(self.seconds, min(self.seconds + min(seconds, self.free), self.most))


def judge_cases(
    request: Request,
    call: Libc | None,
    run: RunCase = run_case,
    compared: Callable[[Request], Comparison] = Comparison,
    baseline: Baseline | None = None,
) -> Judged:
    """Judges a completion that reads standard input and prints: a fresh process per case, one clock for all.

    What a case should print is known to the process alone that compares. Where nothing is hidden, the exit status
    alone decides.
    """
    budget, check_seconds = Budget(request), request["check_timeout_seconds"]
    total = len(request["inputs"])
    baseline = baseline or Baseline(call, is_needed=total > 1)
    comparison = compared(request) if request["hidden_size"] else None
    if comparison is not None:
        baseline.spared.add(comparison.pid)
    times = Times(0.0, 0.0, 0.0)
    verdict, rest, is_over = ("passed", ""), NOT_REACHED, False
    shown: Ended | None = None
    checks: list[Checked] = []
    for position in range(total):
        prefix = f"{request['unit']} {position + 1} of {total}: " if request["unit"] else ""
        left = budget.seconds - budget.used
        given_seconds = left if check_seconds is None else min(check_seconds, left)
        is_whole = given_seconds == left
        try:
            limit = budget.seconds if is_whole else given_seconds
            ended, status, detail = run(request, position, given_seconds, limit, baseline)
        except OSError as error:
            if shown is None:
                raise  # not the completion's doing: it has not run yet
            detail = f"the next case cannot start from the same state as this one ({error})"
            checks.append((letter_of("resource_limit"), detail))
            if verdict[0] == "passed":
                verdict = "resource_limit", prefix + detail
            break
        times = times.plus(ended.times)
        if status == "passed" and comparison is not None:
            status, detail = comparison.outcome(position, ended)
        budget.spend(ended.times.wall - ended.times.starved, has_passed=status == "passed")
        checks.append((letter_of(status), detail))
        # The output reported is that of the first case that fails; what others printed takes no room.
        if verdict[0] == "passed":
            shown, ended = ended, shown
        if ended is not None:
            posix.close(ended.stdout)
            posix.close(ended.stderr)
        if status == CHECKER_FAILED or status != "passed" == verdict[0]:
            verdict = status, prefix + detail
        is_over = is_whole and status == "timeout"
        if is_over or status in ("syntax_error", "invalid_problem", CHECKER_FAILED):
            break
        if status != "passed" and request["stops_at_failure"]:
            rest = NOT_RUN
            break
    checks = filled(uncounted(checks) if is_over else checks, total, rest)
    assert shown is not None, "a problem has cases"
    scores = {} if is_over or comparison is None else comparison.scores
    judged = Judged(verdict[0], verdict[1], checks, times, shown.stdout, shown.stderr, scores=scores)
    judged.excerpts.update(comparison.excerpts if comparison is not None else {})
    return judged
