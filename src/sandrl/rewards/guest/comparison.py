"""Compares what a program printed with the expected output, in a process of its own.

Each case is compared after it ran, and every process of the completion is forked from the supervisor. So the expected
output must never be in the supervisor's memory. It is read by a process that is forked from the supervisor before the
first case, and that answers one question for each case. The output of a case is dropped after the comparison, so 2,000
cases take no more memory than one.
"""

from __future__ import annotations

import marshal
import posix
from typing import NoReturn

from sandrl.rewards.guest.clock import Clock
from sandrl.rewards.guest.declarations import Compare, Excerpt, Outcome, Request
from sandrl.rewards.guest.descriptors import head, read_exactly, write_all
from sandrl.rewards.guest.excerpts import begin_of, excerpt_at, first_difference
from sandrl.rewards.guest.supervisor import Ended, Ends, read_hidden
from sandrl.rewards.guest.tolerance import same_lines, same_numbers

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

    def outcome(self, position: int, ended: Ended) -> tuple[str, str]:
        """Returns (status, detail) of a case, by its number from 0, that ran to its end."""
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
