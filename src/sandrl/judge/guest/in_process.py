"""Judges a completion whose checks run in its own process.

The child can report only which checks passed, and its report must be consistent.
"""

from __future__ import annotations

import posix
from collections.abc import Callable
from typing import Any

from sandrl.judge.guest.child import (
    Room,
    blame,
    completion_lines,
    describe,
    finish,
    fresh_module,
    run_top_level,
    to_hex,
)
from sandrl.judge.guest.clock import Clock, is_running, listen, too_long
from sandrl.judge.guest.declarations import Checked, Excerpt, Libc, Request, Say
from sandrl.judge.guest.descriptors import DeadlineReached
from sandrl.judge.guest.sides import forget_sides, sides_of
from sandrl.judge.guest.supervisor import (
    ChildExit,
    Judgment,
    filled,
    from_hex,
    judge_child,
    letter_of,
    run_child,
    uncounted,
)


def run_tests(request: Request, say: Say, execute: Callable[..., None] = exec) -> None:
    """Runs setup, code and each check in one namespace; says `c`, then `p`, or `f` or `t` and why, for every check.

    A setup that lacks a name before the code has run gets a second try after it: it may use what that defines.
    `execute` is `exec`, as it was before any completion could put something else in its place.
    """
    namespace, is_set_up = fresh_module(), True
    try:
        exec(request["setup"], namespace)
    except NameError:
        is_set_up = False
    except BaseException as error:
        finish(say, "invalid_problem", "the problem's setup fails: " + describe(error))
    run_top_level(request, say, namespace)
    if not is_set_up:
        try:
            execute(request["setup"], namespace)
        except BaseException as error:
            finish(say, blame(error), "the problem's setup fails with this completion: " + describe(error))
    status, detail, room = "passed", "", Room()
    checks = request["tests"]
    seconds = request["check_timeout_seconds"]
    clock = None
    if seconds is not None:
        listen()
        # All of the time is for the supervisor to limit.
        clock = Clock(float("inf"), posix.getpid())
    say(b"c\n")
    for number, check in enumerate(checks, 1):
        try:
            if clock is None:
                execute(check, namespace)
            else:
                execute_within(seconds, clock, execute, check, namespace)
        except BaseException as error:
            if isinstance(error, DeadlineReached):
                ended, why = "timeout", too_long(seconds)
                say(b"t %s\n" % to_hex(room.take(why)).encode())
            else:
                # The outermost frame is the check; what is left are the completion's own.
                inside = completion_lines(error)[1:]
                ended, why = blame(error), describe(error, inside[-1] if inside else None)
                got, expected, line = sides_of(error, namespace)
                sides = ["-" if side is None else "=" + to_hex(side) for side in (got, expected)]
                say(" ".join(["f", to_hex(room.take(why)), *sides, f"{line}\n"]).encode())
            if status == "passed":
                status, detail = ended, f"check {number} of {len(checks)}: {why}"
        else:
            say(b"p\n")
        forget_sides(check, namespace)
    finish(say, status, detail)


def execute_within(
    seconds: float,
    clock: Clock,
    execute: Callable[..., None],
    check: str,
    namespace: dict[str, Any],
) -> None:
    """Runs a check; `DeadlineReached` if it takes longer than it may, whether or not it passes in the end."""
    try:
        clock.start(seconds)
        execute(check, namespace)
        if not is_running():
            raise DeadlineReached
    finally:
        clock.stop()


def judge_tests(request: Request, call: Libc | None) -> Judgment:
    stdin = posix.open("/dev/null", posix.O_RDONLY)
    ended = run_child(run_tests, request, stdin, request["timeout_seconds"], call)
    status, detail = judge_child(ended, request["timeout_seconds"])
    total = len(request["tests"])
    try:
        checks = checks_said(ended, total, (letter_of(status), detail))
    except ValueError:
        checks, status, detail = [], "crashed", "its report is inconsistent"
    if ended.wait_status is None or ended.excess:
        checks = uncounted(checks)  # what took all of its time, or too much memory, has passed nothing
    judged = Judgment(status, detail, filled(checks, total), ended.times, ended.stdout, ended.stderr)
    judged.excerpts = excerpts_said(ended)
    return judged


def checks_said(ended: ChildExit, total: int, at_its_end: Checked) -> list[Checked]:
    """How the checks went that the child has reached, as it says; ValueError if it says what it cannot have to say.

    The check during which it ended, if it did not get to the end of all, went as `at_its_end`.
    """
    if len(ended.words) > total + 3:
        raise ValueError
    words = [word.split(b" ") for word in ended.words]
    checks = [(word[0].decode(), from_hex(b"".join(word[1:2]))) for word in words if word[0] in (b"p", b"f", b"t")]
    if len(checks) > total:
        raise ValueError
    said = [word[0] for word in words]
    if b"c" in said and b"end" not in said and len(checks) < total:
        checks.append(at_its_end)
    return checks


def excerpts_said(ended: ChildExit) -> dict[int, Excerpt]:
    """What failed checks got and expected, as the child says: whatever that is, it decides nothing."""
    found: dict[int, Excerpt] = {}
    words = [word.split(b" ") for word in ended.words]
    for number, word in enumerate([word for word in words if word[0] in (b"p", b"f", b"t")]):
        if len(word) == 5 and word[4].isdigit() and len(word[4]) < 7:
            try:
                got, expected = [from_hex(side[1:]) if side[:1] == b"=" else None for side in word[2:4]]
            except ValueError:
                continue
            found[number] = got, expected, int(word[4]), (0, 0)
    return found
