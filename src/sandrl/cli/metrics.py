"""`sandrl metrics`: shows the metrics of a run, their latest values and their values per step."""

from __future__ import annotations

import csv
import math
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.output import Json
from sandrl.cli.runs import LATEST, RunArgument, RunsDirOption, open_run, tell_damage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

    from sandrl.config.budget import Money
    from sandrl.runs import MetricsRow, RunReader
    from sandrl.runs.series import Series

_SPARKLINE_WIDTH = 24
_NARROW_SPARKLINE = 10
_GAP = 2
_CONSTANT = "constant"
_WATCH_SECONDS = 1.0
# A run so large that reading it takes long must not keep a core busy.
_WATCH_SHARE = 0.2


def metrics(
    run: RunArgument = LATEST,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", metavar="NAME", help="Show only this metric or pattern (`aviato/*`); repeatable."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update the view while the job runs.")] = False,
    plot: Annotated[
        list[str] | None, typer.Option("--plot", metavar="NAME", help="Plot this metric over the steps; repeatable.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare", metavar="RUN RUN", help="Compare the metrics of two runs.", autocompletion=values.run_names
        ),
    ] = None,
    json_: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="Print every step as a row of CSV.")] = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Show the metrics of a run over its steps, and warnings about common training problems."""
    from sandrl.errors import UsageError

    if sum((watch, bool(plot), compare is not None, json_, csv_)) > 1:
        raise UsageError("use only one of --watch, --plot, --compare, --json and --csv")
    patterns = metric or []
    if compare is not None:
        _print_comparison(compare, patterns, runs_dir)
        return
    reader, _ = open_run(run, runs_dir)
    if watch:
        _watch(reader, patterns)
        return
    rows = _rows(reader)
    if json_:
        _print_json(reader, rows, patterns)
    elif csv_:
        _print_csv(rows, patterns)
    elif plot:
        _print_plots(rows, plot)
    else:
        from rich.console import Console

        console = Console(highlight=False)
        _print_view(view(reader, rows, patterns, console.width), console)


def _rows(reader: RunReader) -> tuple[MetricsRow, ...]:
    from sandrl.runs import step_rows

    tell_damage(reader.metrics())
    return step_rows(reader)


def _chosen(rows: tuple[MetricsRow, ...], patterns: list[str]) -> dict[str, Series]:
    from sandrl.runs.series import choose_series, series_of

    found = series_of(rows)
    return choose_series(found, patterns) if found else {}


def view(reader: RunReader, rows: tuple[MetricsRow, ...], patterns: list[str], width: int) -> list[Text]:
    """What the command shows of a run: its flags, then its metrics by group, the reward first."""
    from rich.text import Text

    from sandrl.cli.health import flag_lines
    from sandrl.cli.tables import wrapped
    from sandrl.cli.text import visible
    from sandrl.runs import state_of
    from sandrl.runs.flags import flags_of
    from sandrl.runs.held import price_in
    from sandrl.runs.overview import count_steps
    from sandrl.runs.series import series_of

    state = state_of(reader.config, is_running=reader.is_running)
    count = count_steps(rows)
    steps = f"{count} step{'s' * (count != 1)}"
    heading = f"Run {visible(reader.config.run_id)}: {visible(reader.config.command)}, {state}, {steps}"
    lines = [Text(line) for line in wrapped(heading, width, indent="  ").split("\n")]
    if not rows:
        return [*lines, Text("There are no metrics yet.")]
    for flag in flag_lines(flags_of(series_of(rows))):
        lines += [Text(line, style="yellow") for line in wrapped(flag, width, indent="  ").split("\n")]
    chosen, price = _chosen(rows, patterns), price_in(reader.config.options)
    return [*lines, *_table_lines(chosen, price, has_course=len(rows) > 1, width=width)]


def _table_lines(chosen: Mapping[str, Series], price: Money | None, *, has_course: bool, width: int) -> list[Text]:
    from itertools import groupby

    from rich.text import Text

    from sandrl.cli.sparkline import sparkline
    from sandrl.cli.tables import Cell, Column, Table
    from sandrl.cli.text import visible
    from sandrl.runs.metrics import Group, group_of
    from sandrl.runs.series import is_bound

    places = {group: place for place, group in enumerate(Group)}
    groups = {name: group_of(name) for name in chosen if not is_bound(name, chosen)}
    # The sort is stable: within a group, the order of the registry stays.
    names = sorted(groups, key=lambda name: places[groups[name]])
    now = {name: shown_value(chosen[name], price) + _shown_interval(chosen[name], chosen) for name in names}
    spans = {name: "" if chosen[name].is_constant else _span(chosen[name]) for name in names}
    # The course takes the room that names and numbers leave: a coarse one beside all of them is better than none.
    taken = sum(max(map(len, texts), default=0) for texts in (names, now.values(), spans.values()))
    room = min(max(width - taken - 3 * _GAP, _NARROW_SPARKLINE), _SPARKLINE_WIDTH)
    table = Table(
        [
            Column("metric"),
            Column("now", is_number=True),
            *([Column("over steps", rank=1), Column("from – to", rank=2)] if has_course else []),
        ]
    )
    for name in names:
        series = chosen[name]
        if not has_course:
            course = []
        elif series.is_constant:
            course = [Cell(_CONSTANT if len(series.values) > 1 else "", "dim"), Cell("")]
        else:
            course = [Cell(sparkline(series.values, room), "cyan"), Cell(spans[name], "dim")]
        table.add(visible(name), now[name], *course)
    laid_out = table.lay_out(width)
    lines = [laid_out.header.styled("bold")]
    rows = dict(zip(names, laid_out.rows, strict=True))
    for group, members in groupby(names, key=groups.__getitem__):
        lines.append(Text(group.value, style="bold cyan"))
        lines += [rows[name].styled() for name in members]
    return lines


def _print_view(lines: Sequence[Text], console: Console) -> None:
    from sandrl.cli.pager import print_paged

    def pieces() -> Iterator[str]:
        for line in lines:
            with console.capture() as capture:
                console.print(line, soft_wrap=True)
            yield capture.get()

    print_paged(pieces())


def _span(series: Series) -> str:
    low, high = (min(series.finite), max(series.finite)) if series.finite else (math.nan, math.nan)
    return f"{low:.4g} – {high:.4g}"


def _shown_interval(series: Series, found: Mapping[str, Series]) -> str:
    from sandrl.runs.series import BOUNDS

    low, high = (found.get(series.name + end) for end in BOUNDS)
    if low is None or high is None or not low.steps[-1] == high.steps[-1] == series.steps[-1]:
        return ""
    return f" [{shown_value(low)}, {shown_value(high)}]"


def shown_value(series: Series, price: Money | None = None) -> str:
    """The latest value, as its unit is read; costs have the currency of the price of a sandbox-hour."""
    value, unit = series.last, "" if series.metric is None else series.metric.unit.value
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞"
    if unit == "share":
        return f"{value:.1%}"
    if unit == "money" and price is not None:
        return replace(price, amount=value).shown
    if unit == "seconds":
        return f"{value:.3f} s"
    return f"{value:.0f}" if unit == "count" else f"{value:.4g}"


def _watch(reader: RunReader, patterns: list[str]) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from sandrl.runs import RunReader, step_rows

    console = Console(highlight=False)
    # Ctrl-C is the way out of a view that would go on for hours; nothing was interrupted that had to be finished.
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            # Before the rows are read: what a job writes last is read once more after it has ended.
            is_running = reader.is_running
            reader = RunReader(reader.path)
            live.update(Group(*view(reader, step_rows(reader), patterns, console.width)), refresh=True)
            if not is_running:
                return
            time.sleep(max(_WATCH_SECONDS, (time.monotonic() - began) / _WATCH_SHARE))


def _print_json(reader: RunReader, rows: tuple[MetricsRow, ...], patterns: list[str]) -> None:
    from dataclasses import asdict

    from sandrl.cli.output import print_json
    from sandrl.runs import state_of
    from sandrl.runs.flags import flags_of
    from sandrl.runs.overview import count_steps
    from sandrl.runs.series import series_of

    document = {
        "run_id": reader.config.run_id,
        "path": str(reader.path),
        "state": state_of(reader.config, is_running=reader.is_running).value,
        "steps": count_steps(rows),
        "metrics": {
            name: {
                "unit": None if series.metric is None else series.metric.unit.value,
                "last": _number(series.last),
                "steps": list(series.steps),
                "values": [_number(value) for value in series.values],
            }
            for name, series in _chosen(rows, patterns).items()
        },
        "flags": [asdict(flag) for flag in flags_of(series_of(rows))],
    }
    print_json(document)


def _number(value: float) -> float | str:
    # JSON has no number for these, and the files of a run have the same strings for them.
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def _print_csv(rows: tuple[MetricsRow, ...], patterns: list[str]) -> None:
    names = list(_chosen(rows, patterns))
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["step", "attempt", *names])
    for row in rows:
        cells = (row.metrics.get(name) for name in names)
        table.writerow([row.step, row.attempt, *("" if cell is None else cell for cell in cells)])


def _print_plots(rows: tuple[MetricsRow, ...], patterns: list[str]) -> None:
    import shutil

    from sandrl.cli.sparkline import plot
    from sandrl.cli.text import visible

    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    for name, series in _chosen(rows, patterns).items():
        typer.echo(f"{visible(name)}: {shown_value(series)} at step {series.steps[-1]}")
        for line in plot(series.values, first=series.steps[0], last=series.steps[-1], width=width):
            typer.echo(line)


def _print_comparison(names: tuple[str, str], patterns: list[str], runs_dir: str | None) -> None:
    from sandrl.cli.tables import Column, Table, terminal_width
    from sandrl.cli.text import visible
    from sandrl.runs.series import choose_series, series_of

    readers = [open_run(name, runs_dir)[0] for name in names]
    found = [series_of(_rows(reader)) for reader in readers]
    both: Mapping[str, Series] = {**found[1], **found[0]}
    titles = [visible(reader.config.run_id) for reader in readers]
    rows: list[tuple[str, ...]] = []
    for name in choose_series(both, patterns):
        first, second = found[0].get(name), found[1].get(name)
        cells = ["-" if series is None else shown_value(series) for series in (first, second)]
        rows.append((visible(name), *cells, _difference(first, second)))
    width = terminal_width()
    longest = max((len(row[0]) for row in rows), default=0)
    if width is not None and longest + sum(map(len, titles)) + len("difference") + 3 * _GAP > width:
        # Numbers that stand side by side are worth more than ids above them.
        for number, title in enumerate(titles, 1):
            typer.echo(f"run {number}: {title}")
        titles = ["run 1", "run 2"]
    columns = [Column("metric"), *(Column(title) for title in titles), Column("difference", rank=1)]
    Table(columns, list(rows)).print()


def _difference(first: Series | None, second: Series | None) -> str:
    if first is None or second is None:
        return ""
    return f"{second.last - first.last:+.4g}"
