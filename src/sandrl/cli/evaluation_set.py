"""`sandrl eval --set FILE`: shows how the evaluations of a set go, and its leaderboard as text, Markdown or LaTeX."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from sandrl import events
from sandrl.cli.progress import Remarks, remark
from sandrl.cli.tables import Cell, Column, Table, print_wrapped
from sandrl.cli.text import counted, share_text, visible

if TYPE_CHECKING:
    from pathlib import Path

    from sandrl.cli.configured import CommandInput
    from sandrl.config.eval import EvalConfig
    from sandrl.evaluation.leaderboard import Leaderboard, Standing
    from sandrl.evaluation.sets import EvalSet
    from sandrl.runs.statistics import Estimate

_SECONDS_BETWEEN_LINES = 10.0
# The same for every evaluation, or told of single completions.
_NOT_TOLD = (
    *(events.RuntimeChosen, events.RuntimeStarting, events.JobStarted, events.ServiceAsked, events.PolicyAsked),
    *(events.RetryScheduled, events.CanaryFinished, events.OpinionsAwaited),
)


class TableFormat(StrEnum):
    """How a leaderboard is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"


class SetProgress(Remarks):
    """A line for each evaluation of a set that begins or ends, and one every some seconds for how far each is."""

    def __init__(self) -> None:
        super().__init__()
        # Evaluations run on threads of their own.
        self._mutex = threading.Lock()
        self._next: dict[str, float] = {}

    def __call__(self, event: events.Event) -> None:
        """Shows the event as a line on standard error."""
        with self._mutex:
            super().__call__(event)

    def words(self, event: events.Event) -> str | None:
        """The line."""
        match event:
            case events.MemberStarted(member, run_id, resumes):
                return f"{member}: {'resumed' if resumes else 'started'} (run {run_id})"
            case events.MemberFinished(member, finished, of, error, hint, was_complete):
                how = f"failed: {error}" if error else "complete already" if was_complete else "complete"
                return f"[{finished}/{of}] {member}: {how}" + (f"\n  hint: {hint}" if error and hint else "")
            case events.MemberTold(member, events.CompletionFinished(_, finished, of)):
                return f"{member}: {finished} of {of} completions" if finished < of and self._is_due(member) else None
            case events.MemberTold(member, told) if not isinstance(told, _NOT_TOLD):
                text = remark(told)
                return None if text is None else f"{member}: {text}"
        return None

    def is_urgent(self, event: events.Event) -> bool:
        """Also a failure of an evaluation."""
        match event:
            case events.MemberTold(_, told):
                return super().is_urgent(told)
            case events.MemberFinished(error=error):
                return bool(error)
        return super().is_urgent(event)

    def _is_due(self, member: str) -> bool:
        now = time.monotonic()
        is_due = now >= self._next.setdefault(member, now + _SECONDS_BETWEEN_LINES)
        if is_due:
            self._next[member] = now + _SECONDS_BETWEEN_LINES
        return is_due


def evaluate_set(
    file: Path,
    given: CommandInput[EvalConfig],
    asked: Mapping[str, Any],
    table: TableFormat,
    *,
    dry_run: bool,
    json_: bool,
) -> None:
    """Evaluates a set, and prints its leaderboard."""
    from sandrl.cli import notify
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.errors import UsageError
    from sandrl.evaluation.leaderboard import leaderboard, leaderboard_document, members_document
    from sandrl.evaluation.sets import read_set, run_set
    from sandrl.settings import load_settings

    if given.wants_text:
        raise UsageError("--print-config shows one evaluation, so it cannot be used with --set")
    settings = load_settings()
    request = read_set(file, settings, asked, below=given.file)
    if dry_run:
        _print_members(request, json_=json_)
        return
    notify.ask_for(request.members[0].config.notify)
    finished = carry_out(run_set, request, SetProgress())
    found = leaderboard(finished, settings.cache_dir)
    if json_:
        members = members_document(request, finished)
        print_json({"set": request.name, "leaderboard": leaderboard_document(found), "members": members})
    elif table is TableFormat.TEXT:
        _print_text(found)
    else:
        typer.echo(_markdown(found) if table is TableFormat.MARKDOWN else _latex(found), nl=False)
    finished.raise_for_outcome()


def _print_members(request: EvalSet, *, json_: bool) -> None:
    from sandrl.cli.output import print_json
    from sandrl.runs.config import CONFIG_FILE

    rows = [(each, "resumes" if (each.path / CONFIG_FILE).is_file() else "new") for each in request.members]
    if json_:
        members = [
            {"model": each.model, "problem_set": each.problem_set, "seed": each.seed, "run_id": each.path.name,
             "path": str(each.path), "state": state}
            for each, state in rows
        ]  # fmt: skip
        print_json({"set": request.name, "members": members})
        return
    table = Table(
        [
            Column("run"),
            Column("model", least=10, keeps_end=True),
            Column("problems", least=9, keeps_end=True),
            Column("seed", is_number=True),
            Column("samples", rank=2, is_number=True),
            Column("state", rank=1),
        ]
    )
    for each, state in rows:
        samples = str(each.config.answers)
        table.add(each.path.name, visible(each.model), visible(each.problem_set), str(each.seed), samples, state)
    table.print()


def _headers(found: Leaderboard) -> list[str]:
    several = ["mean"] if len(found.problem_sets) > 1 else []
    return ["rank", "model", *found.problem_sets, *several]


def _rows(found: Leaderboard, percent: Callable[[Estimate | None], str]) -> list[list[str]]:
    rows = []
    for each in found.standings:
        cells = []
        for name in found.problem_sets:
            cell = each.cells[name]
            cells.append(percent(cell.value) + (" *" if cell.unscorable or cell.incomplete else ""))
        several = [percent(each.mean)] if len(found.problem_sets) > 1 else []
        rows.append([_rank_text(each), each.model, *cells, *several])
    return rows


def _rank_text(standing: Standing) -> str:
    return "-" if standing.rank is None else f"{standing.rank}{'=' * standing.is_tied}"


def _share(found: Estimate | None) -> str:
    return "-" if found is None else share_text(found.value, found.low, found.high)


def _notes(found: Leaderboard) -> list[str]:
    notes = []
    for each in found.standings:
        for name, cell in each.cells.items():
            parts = [f"{counted(cell.unscorable, 'completion')} unscorable"] if cell.unscorable else []
            if cell.incomplete:
                parts.append(f"{counted(len(cell.incomplete), 'seed')} of {len(cell.by_seed)} incomplete")
            if parts:
                notes.append(f"* {each.model} on {name}: {', '.join(parts)}")
    return notes


def _caption(found: Leaderboard) -> str:
    seeds = f", mean of {found.seeds} seeds" if found.seeds > 1 else ""
    return f"pass@1 with 95% intervals{seeds}; = marks ranks of models whose intervals overlap"


def _print_text(found: Leaderboard) -> None:
    first, second, *others = _headers(found)
    table = Table([Column(second), Column(first), *(Column(visible(name)) for name in others)])
    for rank, model, *cells in _rows(found, _share):
        table.add(visible(model), rank, *(Cell(cell, "yellow" if cell.endswith("*") else "") for cell in cells))
    table.print()
    print_wrapped(_caption(found))
    for note in _notes(found):
        print_wrapped(note)


def _markdown(found: Leaderboard) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    headers = [_in_markdown(each) for each in _headers(found)]
    rule = ["---:" if at == 0 else ":---" if at == 1 else "---:" for at in range(len(headers))]
    rows = [[_in_markdown(cell) for cell in row] for row in _rows(found, _share)]
    notes = [_in_markdown(note) for note in _notes(found)]
    return "\n".join(
        [*map(line, (headers, rule, *rows)), "", _in_markdown(_caption(found)), *(f"\n{note}" for note in notes), ""]
    )


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", r"\\\1", visible(text))


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}  # fmt: skip


def _latex(found: Leaderboard) -> str:
    headers = _headers(found)
    lines = [
        f"\\begin{{tabular}}{{rl{'r' * (len(headers) - 2)}}}",
        "\\hline",
        " & ".join(map(_in_latex, headers)) + r" \\",
        "\\hline",
        *(" & ".join(map(_in_latex, row)) + r" \\" for row in _rows(found, _share)),
        "\\hline",
        "\\end{tabular}",
        *(f"% {visible(note)}" for note in (_caption(found), *_notes(found))),
    ]
    return "\n".join(lines) + "\n"


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(each, each) for each in visible(text))
