"""Judges a completion whose checks run in its own process.

The design decision: the child can say one thing only, which checks passed, and what it says must add up.
"""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001

import _signal  # type: ignore[import-not-found]
import posix

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any

    from sandrl.rewards.guest.child import Request, Say
    from sandrl.rewards.guest.descriptors import Libc
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.child import (
        blame,
        blame_setup,
        completion_lines,
        describe,
        finish,
        fresh_main,
        judge_top_level,
    )
    from sandrl.rewards.guest.clock import Clock, Interruption, is_running, too_long
    from sandrl.rewards.guest.descriptors import DeadlineReached
    from sandrl.rewards.guest.supervisor import Judged, judge_child, run_child


def run_tests(request: "Request", say: "Say", execute: "Callable[..., None]" = exec) -> None:
    """Runs setup, code and each check in one namespace; says `p` or `f` for every check.

    A setup that lacks a name before the code has run gets a second try after it: it may use what that defines.

    Args:
        request: What to run.
        say: Tells the supervisor.
        execute: `exec`, as it was before any completion could put something else in its place.
    """
    namespace, is_set_up = fresh_main(), True
    try:
        exec(request["setup"], namespace)
    except NameError:
        is_set_up = False
    except BaseException as error:
        blame_setup(say, error)
    try:
        exec(request["code"], namespace)
    except SystemExit:
        finish(say, "failed", "it exited before its checks ran")
    except BaseException as error:
        finish(say, *judge_top_level(error))
    if not is_set_up:
        try:
            execute(request["setup"], namespace)
        except BaseException as error:
            finish(say, blame(error), "the problem's setup fails with this completion: " + describe(error))
    status, detail = "passed", ""
    checks = request["tests"]
    seconds = request["check_timeout_seconds"]
    limit = None if seconds is None else (Interruption(_signal.SIGALRM), Clock(request["timeout_seconds"]))
    for number, check in enumerate(checks, 1):
        try:
            if limit is None:
                execute(check, namespace)
            else:
                execute_within(seconds, limit, execute, check, namespace)
        except BaseException as error:
            say(b"f\n")
            if status == "passed" and isinstance(error, DeadlineReached):
                status, detail = "timeout", f"check {number} of {len(checks)}: {too_long(seconds)}"
            elif status == "passed":
                # The outermost frame is the check; what is left are the completion's own.
                inside = completion_lines(error)[1:]
                status = blame(error)
                where = inside[-1] if inside else None
                detail = f"check {number} of {len(checks)}: {describe(error, where)}"
        else:
            say(b"p\n")
    finish(say, status, detail)


def execute_within(
    seconds: float,
    limit: "tuple[Interruption, Clock]",
    execute: "Callable[..., None]",
    check: str,
    namespace: "dict[str, Any]",
) -> None:
    """Runs a check.

    Raises:
        DeadlineReached: If it takes longer than it may, whether or not it passes in the end.
    """
    interruption, clock = limit
    interruption.is_open = True
    clock.start(seconds)
    try:
        execute(check, namespace)
        if not is_running():
            raise DeadlineReached
    finally:
        interruption.is_open = False
        clock.stop()


def judge_tests(request: "Request", call: "Libc | None") -> Judged:
    """Judges a completion whose checks run in its own process."""
    stdin = posix.open("/dev/null", posix.O_RDONLY)
    ended = run_child(run_tests, request, stdin, request["timeout_seconds"], call)
    status, detail = judge_child(ended, request["timeout_seconds"])
    total, passed = len(request["tests"]), ended.words.count(b"p")
    if status == "passed" and passed != total:
        status, detail = "crashed", "its report does not add up"
    if ended.wait_status is None:
        passed = 0  # what took all of its time has passed nothing
    return Judged(status, detail, passed, total, ended.times, ended.stdout, ended.stderr)
