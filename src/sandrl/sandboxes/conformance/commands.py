"""Commands: input, output, ends, limits."""

from __future__ import annotations

import signal
import threading

from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.conformance.check import DoesNotApply, applied, check, expect, expect_soon, expect_that
from sandrl.sandboxes.conformance.trial import SLEEP, Trial, answer, python
from sandrl.sandboxes.providers.protocol import Result
from sandrl.sandboxes.shape import Shape

BYTES = bytes(range(256)) * 40

# A namespace of users and one of mounts; as root in it, with a file system of its own in place of `/srv`.
_NAMESPACES = """\
import ctypes
call = ctypes.CDLL(None)
print(call.unshare(0x10020000), call.mount(b'none', b'/srv', b'tmpfs', 0, None))
"""


@check
def streams(trial: Trial) -> None:
    """A command reads its input, and its output, its errors and its exit code stay apart."""
    program = "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('beside'); sys.exit(7)"
    expect("the command", trial.run(*python(program), stdin=b"input"), Result(7, b"tupni", b"beside"))


@check
def exact_bytes(trial: Trial) -> None:
    """Bytes pass unchanged in both directions, and no input is the end of the input."""
    expect("the output of `cat`", trial.run("cat", stdin=BYTES).stdout, BYTES)
    expect("`cat` without input", trial.run("cat"), Result(0))


@check
def large_output(trial: Trial) -> None:
    """Megabytes of output arrive whole."""
    result = trial.run(*python("import sys; sys.stdout.write('0123456789' * 400_000)"))
    expect("exit code and length of the output", (result.exit_code, len(result.stdout)), (0, 4_000_000))
    expect_that(result.stdout == b"0123456789" * 400_000, "the output", "the bytes that were written", result.stdout)


@check
def unread_input(trial: Trial) -> None:
    """Input that a program does not read hinders nothing."""
    expect("exit code of `true`", trial.run("true", stdin=b"x" * 1_000_000).exit_code, 0)


@check
def missing_program(trial: Trial) -> None:
    """A program that does not exist is an outcome and no error: exit code 127 and its name."""
    result = trial.run("no-such-program")
    expect("exit code", result.exit_code, 127)
    expect_that(b"no-such-program" in result.stderr, "the errors", "the name of the program", result.stderr)


@check
def signals(trial: Trial) -> None:
    """The signal that ended a program shows in its exit code: 128 and its number."""
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        result = trial.run(*python(f"import os; os.kill(os.getpid(), {number:d})"))
        expect(f"exit code after {number.name}", result.exit_code, 128 + number)


@check
def time_limit(trial: Trial) -> None:
    """A command that exceeds its time limit has no exit code, and is killed with all that it started."""
    result = trial.run("sh", "-c", "sleep 1000 & sleep 1000", timeout_seconds=1.0)
    expect("a command of 1 s", result, Result(None))
    trial.expect_sleepers(0)


@check
def time_from_start(trial: Trial) -> None:
    """The time of a command counts from its own start, not from that of its sandbox."""
    fresh = [trial.client.create(()).run(Command(("true",), timeout_seconds=5.0)) for _ in range(6)]
    expect("exit codes of 6 sandboxes that start at once", [answer(each).exit_code for each in fresh], [0] * 6)


@check
def cancelling(trial: Trial) -> None:
    """A command whose future is cancelled is killed with all that it started, and its sandbox continues."""
    running = trial.sandbox.run(Command(("sh", "-c", "sleep 1000 & sleep 1000"), timeout_seconds=60.0))
    trial.expect_sleepers(2)
    running.cancel()
    trial.expect_sleepers(0)


@check
def separation(trial: Trial) -> None:
    """Commands of one sandbox share its files and processes, and those of two sandboxes share nothing."""
    expect("a command that writes a file", trial.run("sh", "-c", "echo mine > ~/note").exit_code, 0)
    expect("what a later command reads", trial.run("sh", "-c", "cat ~/note").stdout, b"mine\n")
    trial.sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    trial.expect_sleepers(1)
    other = trial.client.create(())
    result = answer(other.run(Command(("sh", "-c", "cat ~/note"))))
    expect_that(result.exit_code != 0, "what another sandbox reads", "no such file", result)
    expect("what runs in another sandbox", trial.sleepers(other), 0)


@check
def many_at_once(trial: Trial) -> None:
    """Twelve sandboxes run at once, and none has the input of another."""
    results = [trial.client.create(()).run(Command(("cat",), str(number).encode())) for number in range(12)]
    expect("what they print", [answer(each).stdout for each in results], [b"%d" % number for number in range(12)])


@check
def output_limit(trial: Trial) -> None:
    """A command that writes more than it may is killed and ends with 141; one with less output is not affected."""
    endless = trial.sandbox.run(Command(("yes", "x" * 1000), timeout_seconds=60.0, most_output_bytes=1 << 20))
    expect("exit code of `yes`", answer(endless).exit_code, 141)
    few = answer(trial.sandbox.run(Command(("echo", "few"), most_output_bytes=1 << 20)))
    expect("`echo`", few, Result(0, b"few\n"))


@check
def threads(trial: Trial) -> None:
    """Futures are completed on a thread of the provider, not on the one that waits."""
    ended: list[str] = []
    running = trial.sandbox.run(Command(("sleep", "0.2")))
    running.add_done_callback(lambda _: ended.append(threading.current_thread().name))
    answer(running)
    expect_soon("callbacks that were called", lambda: len(ended), 1)
    waiting = threading.current_thread().name
    expect_that(ended != [waiting], "the thread of a callback", f"another than {waiting}", ended)


@check
def shape(trial: Trial) -> None:
    """A sandbox may have variables, memory and a lifetime of its own, and its description has them."""
    asked = Shape(variables=(("GREETING", "it's me"),), memory_bytes=1 << 30, lifetime_seconds=100)
    sandbox = applied(lambda: trial.client.create((), shape=asked))
    result = answer(sandbox.run(Command(("sh", "-c", 'echo "$GREETING"'))))
    expect("a variable", result.stdout, b"it's me\n")
    info = answer(trial.client.get(sandbox.id or "")).info
    expect("its lifetime", info.max_lifetime_seconds, 100)
    expect("its memory", dict(info.resources).get("memory"), str(1 << 30))


@check
def memory(trial: Trial) -> None:
    """A program cannot take more memory than its sandbox has, and a sandbox beside it continues."""
    limit = trial.connection.memory_bytes
    if limit is None:
        raise DoesNotApply("the runtime decides how much memory a sandbox has, and does not report it")
    neighbour = trial.client.create(())
    answer(neighbour.start())
    result = trial.run(*python(f"blocks = [b'x' * (1 << 20) for _ in range({2 * limit >> 20})]; print('took all')"))
    expect_that(result.exit_code != 0, "a program that takes twice the memory", "a failure", result)
    expect("the sandbox beside it", answer(neighbour.run(Command(("echo", "well")))), Result(0, b"well\n"))


@check
def workers(trial: Trial) -> None:
    """A worker sandbox runs commands as any other; on this machine it may make namespaces, and others may not."""
    command = Command(("python3", "-c", _NAMESPACES))
    worker, other = (answer(trial.client.create((), cells=cells).run(command)) for cells in (2, 0))
    expect("exit codes of a worker and of another sandbox", (worker.exit_code, other.exit_code), (0, 0))
    if trial.connection.isolation == "native":
        expect("namespaces of a worker", worker.stdout, b"0 0\n")
    if trial.connection.is_local:
        expect("namespaces of another sandbox", other.stdout, b"-1 -1\n")
