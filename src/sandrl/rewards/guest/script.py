"""Judges a completion that is a program: it runs to its end, and its exit status says how that was."""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001

import posix
import sys

MYPY = False
if MYPY:
    from sandrl.rewards.guest.child import Request, Say
    from sandrl.rewards.guest.descriptors import Libc
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.child import blame, describe, finish, judge_top_level, set_up
    from sandrl.rewards.guest.supervisor import Judged, judge_child, letter_of, run_child


def run_script(request: "Request", say: "Say") -> None:
    """Runs setup and code as a script, to the end that the interpreter would give it."""
    namespace = set_up(request, say)
    exit_code, status, detail = 0, "passed", ""
    try:
        exec(request["code"], namespace)
    except SystemExit as error:
        if isinstance(error.code, int):
            exit_code = error.code
        elif error.code is not None:
            sys.stderr.write(f"{error.code}\n")
            exit_code = 1
    except BaseException as error:
        exit_code = 1
        status, detail = judge_top_level(error)
        sys.__excepthook__(type(error), error, error.__traceback__)
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()
    except BaseException as error:
        exit_code, status, detail = 1, blame(error), describe(error)
    if exit_code & 0xFF and status == "passed":
        status, detail = "failed", f"it exited with status {exit_code & 0xFF}"
    finish(say, status, detail)


def judge_script(request: "Request", call: "Libc | None") -> Judged:
    """Judges a completion that is a check itself: it exits with 0."""
    stdin = posix.open("/dev/null", posix.O_RDONLY)
    ended = run_child(run_script, request, stdin, request["timeout_seconds"], call)
    status, detail = judge_child(ended, request["timeout_seconds"])
    return Judged(status, detail, [(letter_of(status), detail)], ended.times, ended.stdout, ended.stderr)
