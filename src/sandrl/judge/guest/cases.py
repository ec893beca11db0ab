"""Judges a program by its output: one process per case, and one process that compares.

Each case is compared after it ran, and every process of the completion is forked from the supervisor. So the expected
output must never be in the supervisor's memory. It is read by a process that is forked from the supervisor before the
first case, and that answers one question for each case. The output of a case is dropped after the comparison, so 2,000
cases take no more memory than one.
"""

from __future__ import annotations

import marshal
import posix
from collections.abc import Callable
from typing import NoReturn

from sandrl.judge.guest.baseline import Baseline
from sandrl.judge.guest.clock import Clock
from sandrl.judge.guest.declarations import Checked, Compare, Excerpt, Libc, Outcome, Request, RunCase
from sandrl.judge.guest.descriptors import head, read_exactly, scratch_file, write_all
from sandrl.judge.guest.excerpts import begin_of, excerpt_at, first_difference
from sandrl.judge.guest.script import judge_program, run_script
from sandrl.judge.guest.supervisor import (
    CHECKER_FAILED,
    NOT_REACHED,
    NOT_RUN,
    ChildExit,
    Ends,
    Judgment,
    Times,
    filled,
    letter_of,
    read_hidden,
    run_child,
    uncounted,
)
from sandrl.judge.guest.tolerance import same_lines, same_numbers

READY = b"+"


class Comparison:
    """The process that compares, from the supervisor's side; EOFError if it ended before it was ready.

    By the numbers of cases, from 0: `scores` of those that have not passed and are worth something, and `excerpts` of
    what those that failed have printed, with nothing of what is expected.
    """

    def __init__(self, request: Request, compare: Compare | None = None) -> None:
        self.scores: dict[int, float] = {}
        self.excerpts: dict[int, Excerpt] = {}
        self.most_bytes = request["max_file_bytes"]
        self.from_it, its_write = posix.pipe()
        its_read, self.to_it = posix.pipe()
        self.pid = posix.fork()
        if self.pid == 0:
            posix.close(self.from_it)
            posix.close(self.to_it)
            compare_all(request, its_read, its_write, compare or compare_texts)
        posix.close(its_read)
        posix.close(its_write)
        # The rest of standard input is the supervisor's own.
        read_exactly(1, self.from_it)

    def outcome(self, position: int, ended: ChildExit) -> tuple[str, str]:
        printed, _ = head(ended.stdout, self.most_bytes)
        try:
            write_all(self.to_it, b"%16d%16d" % (position, len(printed)) + printed)
            answer: tuple[Outcome, int, int, bool, bool] = marshal.loads(
                read_exactly(int(read_exactly(16, self.from_it)), self.from_it)
            )
        except (OSError, EOFError):
            return "crashed", "it killed its judge"
        (status, detail, score), line, column, saw_stop, stood_still = answer
        Clock.saw_stop |= saw_stop
        Clock.stood_still |= stood_still
        if status == "failed":
            begin = begin_of(line, column)
            self.excerpts[position] = excerpt_at(printed.decode("utf-8", "replace"), *begin), None, line, begin
        if score is not None:
            self.scores[position] = score
        return status, detail


def compare_all(request: Request, questions: int, answers: int, compare: Compare) -> NoReturn:
    try:
        Ends.listen()  # it is no process 1
        hidden = read_hidden(request)
        posix.close(0)
        write_all(answers, READY)
        while True:
            position, size = int(read_exactly(16, questions)), int(read_exactly(16, questions))
            printed = read_exactly(size, questions)
            outcome, place = compare(printed, position, hidden), (0, 0)
            if outcome[0] == "failed" and "tolerance" in hidden:
                place = first_difference(printed.decode("utf-8", "replace"), hidden["expected"][position])
            answer = marshal.dumps((outcome, *place, Clock.saw_stop, Clock.stood_still), 2)
            write_all(answers, b"%16d" % len(answer) + answer)
    except SystemExit:
        raise  # of a process that was forked here: its interpreter ends as any does
    except BaseException:
        posix._exit(0)


def compare_texts(printed: bytes, position: int, hidden: Request) -> Outcome:
    """Returns the outcome of one case, line by line; `tolerance` is by how much numbers may differ."""
    text, expected, tolerance = printed.decode("utf-8", "replace"), hidden["expected"][position], hidden["tolerance"]
    if same_lines(text, expected) if tolerance is None else same_numbers(text, expected, *tolerance):
        return "passed", "", None
    return "failed", "the output differs from the expected output", None


def stdin_of_case(request: Request, position: int) -> int:
    stdin = scratch_file()
    write_all(stdin, request["inputs"][position])
    posix.lseek(stdin, 0, 0)
    return stdin


def run_case(
    request: Request, position: int, seconds: float, limit: float, baseline: Baseline
) -> tuple[ChildExit, str, str]:
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


def take_output(ended: ChildExit, path: str) -> None:
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
) -> Judgment:
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
    shown: ChildExit | None = None
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
    judged = Judgment(verdict[0], verdict[1], checks, times, shown.stdout, shown.stderr, scores=scores)
    judged.excerpts.update(comparison.excerpts if comparison is not None else {})
    return judged
