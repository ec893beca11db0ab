"""Programs with their streams attached, and programs at a terminal."""

from __future__ import annotations

from sandrl.errors import InfrastructureError, NotRunningError
from sandrl.sandboxes.conformance.check import applied, check, expect, expect_error, expect_soon, expect_that
from sandrl.sandboxes.conformance.commands import BYTES
from sandrl.sandboxes.conformance.trial import SLEEP, Trial, answer, end_of, ended_with, python
from sandrl.sandboxes.providers.protocol import Output


@check
def attaching(trial: Trial) -> None:
    """Output comes while the program runs, input reaches it, and its exit code is returned."""
    program = "print('name?', flush=True); print('hello', input()); raise SystemExit(3)"
    attached = trial.attach(*python(program))
    expect_soon("the first output", lambda: bytes(attached.out), b"name?\n", seconds=20.0)
    expect("whether a program that waits for input has ended", attached.program.ended.done(), False)
    attached.program.write(b"you\n")
    attached.program.close_input()
    expect("exit code", attached.end(), 3)
    expect("output and errors", (bytes(attached.out), bytes(attached.err)), (b"name?\nhello you\n", b""))


@check
def closing_input_late(trial: Trial) -> None:
    """The input of a program that has ended can be closed."""
    attached = trial.attach(*python("raise SystemExit(3)"))
    answer(attached.program.ended)
    attached.program.close_input()
    expect("exit code", attached.end(), 3)


@check
def attached_bytes(trial: Trial) -> None:
    """Bytes pass unchanged through an attached program."""
    attached = trial.attach("cat")
    attached.program.write(BYTES)
    attached.program.close_input()
    expect("exit code", attached.end(), 0)
    expect("the output", bytes(attached.out), BYTES)


@check
def ends_of_attached(trial: Trial) -> None:
    """An attached program ends without an exit code when its time is over, and with an error when it is cancelled."""
    expect("exit code after the time limit", trial.attach(*SLEEP, timeout_seconds=1.0).end(), None)
    cancelled = trial.attach(*SLEEP)
    cancelled.program.cancel()
    expect_error("a cancelled program", InfrastructureError, cancelled.end)
    trial.expect_sleepers(0)


@check
def unread_output(trial: Trial) -> None:
    """A program is killed if the reader of its output has ended."""

    def refuse(_: bytes) -> None:
        raise BrokenPipeError

    program = trial.found().attach(
        ("sh", "-c", "echo something; sleep 1000"),
        stdin=False,
        stdout=Output(refuse),
        stderr=Output(refuse),
        timeout_seconds=60.0,
    )
    expect_error("its end", BrokenPipeError, ended_with(program))
    trial.expect_sleepers(0)


@check
def attaching_late(trial: Trial) -> None:
    """Nothing is attached to a sandbox that has ended."""
    answer(trial.started().stop())
    out, err = Output(bytearray().extend), Output(bytearray().extend)
    program = trial.sandbox.attach(("true",), stdin=False, stdout=out, stderr=err, timeout_seconds=5.0)
    expect_error("its end", NotRunningError, ended_with(program))


@check
def terminal(trial: Trial) -> None:
    """A program may have a terminal, which shows what it prints; cancelling kills it."""
    shown: list[bytes] = []
    argv = ("sh", "-c", "test -t 0 && read line && echo got $line; exit 3")
    program = applied(lambda: trial.sandbox.open_terminal(argv, columns=80, rows=24, output=shown.append))
    program.write(b"words\r")
    expect("exit code", end_of(program), 3)
    expect_that(b"got words\r\n" in b"".join(shown), "the terminal", "b'got words\\r\\n'", b"".join(shown))
    left = trial.sandbox.open_terminal(SLEEP, columns=80, rows=24, output=shown.append)
    left.cancel()
    expect_error("a cancelled program", InfrastructureError, ended_with(left))
    trial.expect_sleepers(0)
