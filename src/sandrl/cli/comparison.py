"""Shows a comparison of runs: a line for each run, what is configured differently, and each difference in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli.runs import name_of, open_run
from sandrl.cli.tables import Cell, Column, Table, print_wrapped
from sandrl.cli.text import counted, share_text, visible
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.runs.comparison import Change, Comparison, Pairing, Setting, Source
    from sandrl.runs.statistics import PairedDifference

_INDEX_SECONDS = 1.0
_LONGEST_VALUE = 60
_PROBABLY_CHANCE = 0.05
_TESTS = {
    "mcnemar": "exact McNemar test",
    "paired_t": "paired t test by problem",
    "sign": "sign test by problem",
}


def sources(names: Sequence[str], runs_dir: str | None) -> list[Source]:
    """The runs that a user has named, each perhaps with a step (`RUN@STEP`), with their completions indexed.

    Raises:
        InputError: If there is no such run, or it cannot be read.
    """
    from sandrl.runs.columns import RunColumns
    from sandrl.runs.comparison import Source

    cache_dir = load_settings().cache_dir
    found = []
    for at, word in enumerate(names):
        name, at_sign, step = word.rpartition("@")
        is_step = bool(name and at_sign and step.isdecimal()) and not Path(word, "config.json").is_file()
        reader, _ = open_run(name if is_step else word, runs_dir)
        columns = RunColumns(reader.path, cache_dir)
        is_told = False
        while not columns.refresh(_INDEX_SECONDS).is_complete:
            if not is_told:
                typer.echo(f"Indexing {reader.config.run_id} ({at + 1} of {len(names)}), once …", err=True)
            is_told = True
        found.append((reader, columns, int(step) if is_step else None, word))
    ids = [reader.config.run_id for reader, *_ in found]
    is_unique = len(set(ids)) == len({reader.path for reader, *_ in found})
    return [
        Source((run_id if is_unique else word) if step is None else f"{run_id}@{step}", columns, step)
        for run_id, (_, columns, step, word) in zip(ids, found, strict=True)
    ]


def print_comparison(found: Comparison, limit: int) -> None:
    """Prints a comparison; at most so many problems of each list are named."""
    _print_runs(found)
    typer.echo()
    _print_settings(found)
    for pairing in found.pairings:
        typer.echo()
        _print_pairing(found, pairing, limit)


def print_warnings(found: Comparison) -> None:
    """Says on standard error what makes the comparison less than it seems."""
    for run in found.runs:
        if run.state == "running":
            print_wrapped(f"note: {run.name} is running: the completions that it has so far are compared", err=True)
        if run.unscorable:
            why = ", ".join(f"{status}: {count}" for status, count in sorted(run.unscorable.items()))
            lost = counted(sum(run.unscorable.values()), "completion")
            resume = f"; score them: sandrl eval --resume {run.run_id}" if run.config.command == "eval" else ""
            print_wrapped(f"warning: {run.name}: {lost} without a reward left out ({why}){resume}", err=True)
        if run.damaged:
            print_wrapped(f"warning: {run.name}: {counted(run.damaged, 'row')} cannot be read", err=True)
    for pairing in found.pairings:
        if not pairing.common:
            print_wrapped(f"warning: {why_not(found, pairing)}", err=True)


def why_not(found: Comparison, pairing: Pairing | None = None) -> str:
    """Why a run (the first unless given) cannot be compared with the baseline: no scored problem in common."""
    pairing = pairing or found.pairings[0]
    first, second = found.runs[0], found.runs[pairing.run]
    names = f"{visible(first.name)} and {visible(second.name)}"
    if pairing.changed:
        return f"{names} cannot be compared: their problems have the same ids, but other checks"
    if pairing.unscorable:
        return f"{names} cannot be compared: no problem has a scored completion in both"
    sets = " and ".join(
        f"{visible(run.config.source or 'its problems')} ({', '.join(map(visible, own[:2]))}, …)"
        for run, own in ((first, pairing.only_first), (second, pairing.only_second))
    )
    return f"{names} cannot be compared: they have no problem in common: {sets}"


def _print_runs(found: Comparison) -> None:
    table = Table(
        [
            Column("run"),
            Column("model", least=10, keeps_end=True),
            Column("problems", least=9, keeps_end=True),
            Column("pass@1"),
            Column("unscorable", is_number=True),
            Column("reward", rank=1, is_number=True),
            Column("n", rank=2, is_number=True),
            Column("completions", rank=3),
        ]
    )
    for run in found.runs:
        first = run.pass_at.get(1)
        lost = sum(run.unscorable.values())
        table.add(
            visible(run.name),
            name_of(run.config.subject),
            name_of(run.config.source),
            "-" if first is None else share_text(first.value, first.low, first.high),
            Cell(str(lost), "yellow" if lost else ""),
            "-" if run.reward is None else f"{run.reward:.3f}",
            str(run.completions),
            _part_text(run.selection.part.value, run.selection.step),
        )
    table.print()


def _part_text(part: str, step: int | None) -> str:
    if part == "all":
        return "all"
    if part == "held_out":
        return f"evaluation at step {step}"
    return "training, latest step of each problem" if step is None else f"training, step {step}"


def _print_settings(found: Comparison) -> None:
    if not found.settings:
        print_wrapped(f"Configuration: all {found.same_settings} options are the same")
        return
    differing = sum(not setting.name.startswith("versions.") for setting in found.settings)
    print_wrapped(f"Configuration: {differing} of {differing + found.same_settings} options differ")
    if len(found.runs) == 2:
        table = Table([Column("option"), *(Column(visible(run.name), least=12) for run in found.runs)])
        for setting in found.settings:
            table.add(setting.name, *(_value_text(setting, at) for at in range(len(found.runs))))
        table.print()
        return
    for setting in found.settings:
        runs: dict[str, list[str]] = {}
        for at, run in enumerate(found.runs):
            runs.setdefault(_value_text(setting, at), []).append(visible(run.name))
        typer.echo(setting.name)
        for value, names in runs.items():
            print_wrapped(f"  {value}: {', '.join(names)}", indent="    ")


def _value_text(setting: Setting, at: int) -> str:
    value: Any = setting.values[at]
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
    return visible(text, _LONGEST_VALUE) + (" (default)" if setting.is_default[at] else "")


def _print_pairing(found: Comparison, pairing: Pairing, limit: int) -> None:
    first, second = (visible(found.runs[at].name) for at in (0, pairing.run))
    difference = pairing.passed
    if difference is None or pairing.first_share is None or pairing.second_share is None:
        print_wrapped(f"{second} and {first}: no problem in common")
        return
    print_wrapped(f"{second} compared with {first}, on {counted(pairing.common, 'common problem')}:")
    shares = f"{pairing.first_share:.1%} to {pairing.second_share:.1%}"
    print_wrapped(f"  pass@1: {shares}, difference {_points(difference)}", indent="    ")
    if pairing.gained or pairing.lost:
        print_wrapped(f"  {_probability(difference, pairing, len(found.pairings))}", indent="    ")
    else:
        print_wrapped("  no problem turned")
    reward = pairing.reward
    if reward is not None and abs(reward.value - difference.value) > 1e-9:
        bounds = "" if reward.low is None or reward.high is None else f" [{reward.low:+.3f}, {reward.high:+.3f}]"
        print_wrapped(
            f"  reward: difference {reward.value:+.3f}{bounds}, {_p_text(reward.p_value)} ({_TESTS[reward.test]})",
            indent="    ",
        )
    for word, turned in (("gained", pairing.gained), ("lost", pairing.lost)):
        _print_names(f"{len(turned)} {word}", turned, limit)
    _print_names(f"{len(pairing.only_first)} only in {first}", pairing.only_first, limit)
    _print_names(f"{len(pairing.only_second)} only in {second}", pairing.only_second, limit)
    left_out = f"{len(pairing.unscorable)} left out, without a scored completion in one of the runs"
    _print_names(left_out, pairing.unscorable, limit)
    _print_names(f"{len(pairing.changed)} left out, with other checks in the two runs", pairing.changed, limit)
    if pairing.other_prompt:
        print_wrapped(f"  {counted(pairing.other_prompt, 'problem')} had another prompt in the two runs")


def _points(difference: PairedDifference) -> str:
    if difference.low is None or difference.high is None:
        return f"{100 * difference.value:+.1f} points"
    return f"{100 * difference.value:+.1f} points [{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]"


def _probability(difference: PairedDifference, pairing: Pairing, comparisons: int) -> str:
    adjusted = pairing.adjusted_p_value
    text = f"{_p_text(difference.p_value)} ({_TESTS[difference.test]})"
    if comparisons > 1 and adjusted is not None:
        text += f", {_p_text(adjusted)} adjusted for {comparisons} comparisons (Holm)"
    decisive = difference.p_value if adjusted is None else adjusted
    return f"{text}: the difference may be chance" if decisive >= _PROBABLY_CHANCE else text


def _p_text(p_value: float) -> str:
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}" if p_value < 0.1 else f"p = {p_value:.2f}"


def _turned_text(turned: Change) -> str:
    (before, first), (after, second) = turned.first, turned.second
    return turned.task_id if first == second == 1 else f"{turned.task_id} ({before}/{first} to {after}/{second})"


def _print_names(what: str, problems: Sequence[str | Change], limit: int) -> None:
    if problems:
        names = [each if isinstance(each, str) else _turned_text(each) for each in problems[:limit]]
        more = f" and {len(problems) - limit} more (--limit, --json)" if len(problems) > limit else ""
        print_wrapped(f"  {what}: {', '.join(names)}{more}", indent="    ")
