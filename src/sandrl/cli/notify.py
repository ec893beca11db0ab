"""`--notify`: runs a command of the user when a run ends, with any outcome.

The outcome is passed in environment variables, never in the command itself, so no message can become part of a shell's
input. The keys of sandrl are removed from this environment. The command has a time limit, and its result does not
change the exit code of sandrl.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import typer

from sandrl import events
from sandrl.cli.text import visible
from sandrl.errors import Ending, SandrlError, ending_of
from sandrl.settings import load_settings

LIMIT_SECONDS = 30.0
_LONGEST_MESSAGE = 2_000


@dataclass(slots=True)
class Notice:
    """What is known of the run of a command, for whom it notifies."""

    command: str | None = None
    opened: events.RunOpened | None = None


_notice = Notice()


def ask_for(command: str | None) -> None:
    """Says what to run when this command's run ends."""
    _notice.command = command


def watched(show: events.Emit) -> events.Emit:
    """The same `Emit`, which also learns what run there is."""

    def emit(event: events.Event) -> None:
        told = event.event if isinstance(event, events.MemberTold) else event
        if isinstance(told, events.RunOpened):
            _notice.opened = told
        show(event)

    return emit


@contextmanager
def notifying() -> Iterator[None]:
    """Runs what was asked for at the end of a `with` block, if a run was opened in it."""
    _notice.command = _notice.opened = None
    try:
        yield
    except BaseException as error:
        _run(error)
        raise
    _run(None)


def _run(error: BaseException | None) -> None:
    command, opened = _notice.command, _notice.opened
    if command is None or opened is None:
        return
    facts = _facts(opened, error)
    try:
        _carry_out(command, {**_without_keys(os.environ), **facts})
    except KeyboardInterrupt:
        _warn("was interrupted")
    except subprocess.TimeoutExpired:
        _warn(f"did not end in {LIMIT_SECONDS:g} s and was killed")
    except OSError as failure:
        _warn(f"could not be run: {failure.strerror}")


def _facts(opened: events.RunOpened, error: BaseException | None) -> dict[str, str]:
    exit_code, message = 0, ""
    if isinstance(error, typer.Exit):
        exit_code = error.exit_code
    elif error is not None:
        ending = _ending(error)
        exit_code, message = ending.exit_code, ending.message
    return {
        "SANDRL_RUN_ID": opened.run_id,
        "SANDRL_RUN_DIR": opened.path,
        "SANDRL_OUTCOME": _outcome(opened, error),
        "SANDRL_EXIT_CODE": str(exit_code),
        "SANDRL_MESSAGE": visible(message, _LONGEST_MESSAGE),
    }


def _outcome(opened: events.RunOpened, error: BaseException | None) -> str:
    # What the run itself says; a pass rate that is too low ends the command with an error, and the run finished.
    from sandrl.runs import RunReader

    with suppress(SandrlError):
        outcome = RunReader(Path(opened.path)).config.jobs[-1].outcome
        if outcome is not None:
            return outcome.value
    return "finished" if error is None else _ending(error).outcome.value


def _ending(error: BaseException) -> Ending:
    from sandrl.extras import broken_library

    return ending_of(broken_library(error) or error)


def _without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    secrets = set(load_settings().secrets)
    return {
        name: value
        for name, value in environment.items()
        if value not in secrets and not name.endswith(("_API_KEY", "_TOKEN"))
    }


def _carry_out(command: str, environment: Mapping[str, str]) -> None:
    # What it prints must not stand among results.
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        code = process.wait(LIMIT_SECONDS)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if code:
        _warn(f"ended with exit code {code}")


def _warn(what: str) -> None:
    with suppress(OSError):
        typer.echo(f"warning: the command of --notify {what}", err=True)
