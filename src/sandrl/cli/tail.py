"""`sandrl runs tail`: prints the log of a run while it is written."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.runs import LATEST, RunArgument, RunsDirOption, open_run

if TYPE_CHECKING:
    from sandrl.runs.rows import LogRow

_STYLES = {"debug": "dim", "warning": "yellow", "error": "red"}
_LONGEST_VALUE = 200


def tail(
    run: RunArgument = LATEST,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="Start with the last N lines.")] = 10,
    json_: Annotated[bool, typer.Option("--json", help="Print the log rows as JSON, one document per line.")] = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Print the last lines of a run's log, then new lines until its job ends or Ctrl-C."""
    from sandrl.cli.text import visible
    from sandrl.runs import RunReader, state_of
    from sandrl.runs.log import follow_log
    from sandrl.runs.overview import RunState

    reader, _ = open_run(run, runs_dir)
    # Ctrl-C is the way out; nothing was interrupted that had to be finished.
    with suppress(KeyboardInterrupt):
        for row in follow_log(reader.path, lines=lines):
            if json_:
                sys.stdout.write(row.to_json().decode("utf-8", "backslashreplace") + "\n")
            else:
                _print(row)
            sys.stdout.flush()
        reader = RunReader(reader.path)
        state = state_of(reader.config, is_running=reader.is_running)
        error = reader.config.jobs[-1].error if reader.config.jobs else None
        why = f": {visible(error)}" if error else ""
        if state is RunState.KILLED:
            why = ": its last job ended without writing an outcome"
        typer.echo(f"The run {visible(reader.config.run_id)} is {state}{why}", err=True)


def _print(row: LogRow) -> None:
    from sandrl.cli.text import visible

    step = "" if row.step is None else f" step {row.step + 1}"
    rank = f" rank {row.rank}" if row.rank else ""
    facts = " ".join(f"{name}={_shown(value)}" for name, value in row.fields.items() if value not in (None, [], {}, ""))
    line = f"{row.time:%H:%M:%S} {row.level}{rank}{step} {row.event} {facts}"
    typer.echo(typer.style(visible(line), **_colour(row.level)) if sys.stdout.isatty() else visible(line))


def _colour(level: str) -> dict[str, Any]:
    style = _STYLES.get(level)
    return {} if style is None else {"dim": True} if style == "dim" else {"fg": style}


def _shown(value: object) -> str:
    import json

    from sandrl.cli.text import visible

    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False, default=str)
    return visible(text, _LONGEST_VALUE)
