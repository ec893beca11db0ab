"""`sandrl doctor`: checks whether completions can be scored on this machine, and which features are available."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli import signals
from sandrl.cli.completion import values
from sandrl.cli.flags import spelled
from sandrl.cli.output import Json, print_json
from sandrl.cli.tables import print_wrapped, terminal_width
from sandrl.errors import SandrlError
from sandrl.settings import RUNTIME_WORDS, RuntimeKind, load_settings

if TYPE_CHECKING:
    from sandrl.doctor import Check, Report

_INLINE = ("versions",)
_NAME_CHARACTERS = 24
_INDENT = " " * 9
_WIDE = 80


def doctor(
    online: Annotated[
        bool,
        typer.Option("--online", help="Also contact the sandbox service and the Hugging Face Hub (a few seconds)."),
    ] = False,
    runtime: Annotated[
        str,
        typer.Option(
            metavar=RUNTIME_WORDS,
            help="The runtime that determines the exit code. All runtimes except Ray clusters are always checked.",
            autocompletion=values.runtimes,
        ),
    ] = RuntimeKind.AUTO.value,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Also examine this model, without its weights: a directory or OWNER/NAME."),
    ] = None,
    json_: Json = False,
) -> None:
    """Check this machine: isolation, languages, extras, services. Exits with 1 if completions cannot be scored."""
    from sandrl.doctor import State, examine
    from sandrl.sandboxes import Interrupt

    # There is nothing to finish, but the check's own directory to remove.
    with signals.passed_to(Interrupt()):
        report = _with_flags(examine(load_settings(), os.environ, runtime=runtime, online=online, model=model))
    if json_:
        print_json(_document(report))
    else:
        _print_report(report)
    if report.problem is not None:
        raise SandrlError(report.problem.message, hint=report.problem.hint)
    if not json_:
        failed = [check.name for check in report.sections["extras"] if check.state is State.FAILED]
        but = f", but these extras are broken: {', '.join(failed)}" if failed else ""
        typer.echo(f"Completions can be scored here{but}.")


def _with_flags(report: Report) -> Report:
    def with_flags(text: str | None) -> str | None:
        return text and spelled(text, ("runtime", "problems"), {"runtime": "--runtime", "problems": "--problems"})

    sections = {
        title: [replace(check, detail=with_flags(check.detail) or "", hint=with_flags(check.hint)) for check in checks]
        for title, checks in report.sections.items()
    }
    problem = report.problem and replace(report.problem, hint=with_flags(report.problem.hint))
    return replace(report, sections=sections, problem=problem)


def _document(report: Report) -> dict[str, Any]:
    sections = {title: [asdict(check) for check in checks] for title, checks in report.sections.items()}
    return {"ok": report.problem is None, "problem": report.problem and asdict(report.problem), **sections}


def _print_report(report: Report) -> None:
    for title, checks in report.sections.items():
        if title in _INLINE and all(check.state == "ok" for check in checks):
            print_wrapped(f"{title}: " + ", ".join(f"{check.name} {check.detail}" for check in checks), indent=_INDENT)
            continue
        typer.echo(f"{title}:")
        for check in checks:
            _print_check(check)


def _print_check(check: Check) -> None:
    mark = {"ok": "ok", "failed": "FAILED", "absent": "none", "skipped": "-"}[check.state]
    hint = f" → {check.hint}" if check.hint else ""
    # Columns where there is room for two; otherwise running text.
    is_wide = (terminal_width() or _WIDE) >= _WIDE
    name = f"{check.name:<{_NAME_CHARACTERS}}" if is_wide else f"{check.name}:"
    print_wrapped(f"  {mark:<6} {name} {check.detail}{hint}", indent=_INDENT)
