"""Compares runs problem by problem, and determines whether a difference between them may be chance.

The first run is the baseline, and every other run is compared with it. A problem is paired by its id. Where the two
runs have different records of it, its checks decide: other checks make it another problem, which is left out, and
another prompt does not. Completions without a reward are left out, and so are problems that have no other ones in one
of the runs.

Completions are counted by the index of each run (`sandrl.runs.columns`), one run after the other. Memory holds the
counts of the problems of two runs, for any number of runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from sandrl.config.commands import CONFIGS
from sandrl.config.fields import options
from sandrl.errors import InputError
from sandrl.runs.columns import NO_STEP, RunColumns, row_key
from sandrl.runs.config import RunConfig
from sandrl.runs.overview import RunState, state_of
from sandrl.runs.reader import RunReader
from sandrl.runs.rows import ProblemRow
from sandrl.runs.statistics import Estimate, PairedDifference, adjusted_for_several, mean, paired_difference
from sandrl.runs.summary import pass_at_document, pass_at_of

OWN_OPTIONS = frozenset(
    {"run_name", "runs_dir", "out", "notify", "job_id", "resume", "log_level", "report_to", "log_completions", "tags"}
)
"""Options that say where a run is and who hears of it; they are in no comparison."""


class Part(StrEnum):
    """Which completions of a run are compared."""

    ALL = "all"
    """Those of a run without steps."""
    HELD_OUT = "held_out"
    """Those of one evaluation of a training run: sampled, on its held-out problems."""
    TRAINING = "training"
    """Those of training: of one step, or of the latest step of each problem."""
    LATEST = "latest"
    """Those of the latest step of each problem, evaluations included: what a profile is made of."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The completions of a run that are compared.

    Attributes:
        step: Of which step; None for all, or for the latest of each problem.
    """

    part: Part
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the completions of a problem in a run.

    Attributes:
        digest: Names the problem with its prompt; None where the run does not keep it.
        example: The key of a completion that did not pass, if there is any; else of the first one.
    """

    task_id: str
    digest: str | None
    n: int
    scored: int
    passed: int
    reward: float | None
    example: str
    status: str

    @property
    def share(self) -> float | None:
        """Passed by scored; None if none was scored."""
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        unscorable: How many could not be scored, by status.
    """

    name: str
    path: Path
    config: RunConfig
    state: RunState
    selection: Selection
    problems: int
    completions: int
    scored: int
    passed: int
    unscorable: Mapping[str, int]
    pass_at: Mapping[int, Estimate]
    reward: float | None
    damaged: int = 0

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.config.run_id


@dataclass(frozen=True, slots=True)
class Change:
    """A problem that one of two runs solves more often: of each run, how many completions passed and were scored."""

    task_id: str
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pairing:
    """A run, by its position among all, compared with the first one on the problems that both have.

    Attributes:
        first_share: The share of passed completions of the first run on these, as the mean over problems.
        passed: The difference of these shares; None without common problems.
        adjusted_p_value: The probability of `passed`, adjusted for the number of runs that are compared with the first.
        gained: The problems that the other run solves more often, those with the largest change first.
        unscorable: Those that both have, but with no scored completion in one of them.
        changed: Those with the same id and other checks.
        other_prompt: How many compared problems have another prompt.
    """

    run: int
    common: int
    first_share: float | None
    second_share: float | None
    passed: PairedDifference | None
    reward: PairedDifference | None
    adjusted_p_value: float | None = None
    gained: tuple[Change, ...] = ()
    lost: tuple[Change, ...] = ()
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    unscorable: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    other_prompt: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """An option, or a version (`versions.NAME`), that is not the same in all runs.

    Attributes:
        values: Its value in each run; None where a run has none.
    """

    name: str
    values: tuple[JsonValue, ...]
    is_default: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs that were compared; the first one is the baseline."""

    runs: tuple[ComparedRun, ...]
    pairings: tuple[Pairing, ...]
    settings: tuple[Setting, ...]
    same_settings: int


@dataclass(frozen=True, slots=True)
class Source:
    """A run to compare.

    Attributes:
        columns: Its index. What is indexed is compared: `columns.refresh(math.inf)` indexes all.
    """

    name: str
    columns: RunColumns
    step: int | None = None


def compare(sources: Sequence[Source]) -> Comparison:
    """Compares runs with the first of them.

    Raises:
        InputError: If a run cannot be read, has no such step, or has no completions.
    """
    baseline: dict[str, Tally] = {}
    runs: list[ComparedRun] = []
    pairings: list[Pairing] = []
    for at, source in enumerate(sources):
        reader = RunReader(source.columns.run)
        with source.columns.opened() as database:
            selection = selection_of(database, source.step)
            if selection is None:
                raise _nothing_to_compare(source, database)
            own = {tally.task_id: tally for tally in tallies(database, selection)}
            runs.append(_compared_run(source, reader, database, selection, own.values()))
        if at:
            pairings.append(_pairing(at, (sources[0].columns, baseline), (source.columns, own)))
        else:
            baseline = own
    adjusted = _adjusted(pairings)
    settings, same = settings_of([run.config for run in runs])
    return Comparison(tuple(runs), adjusted, settings, same)


_PARTS = """
SELECT max(iif(held_out = 1 AND greedy = 0, step, NULL)), max(iif(held_out = 0, step, NULL)) FROM rows
"""
_KINDS_OF_STEP = "SELECT max(held_out) FROM rows WHERE step = ? AND greedy = 0"
_TALLIES = """
SELECT tasks.name, problems.name, c.n, c.scored, c.passed, c.reward, e.step, e.place, e.rank, e.held_out, e.greedy,
    e.repeat, statuses.name
FROM (
    SELECT count(*) AS n, count(reward) AS scored, sum(is_pass AND reward IS NOT NULL) AS passed, avg(reward) AS reward,
        coalesce(min(iif(is_pass, NULL, number)), min(number)) AS example
    FROM rows {where} GROUP BY task) c
JOIN rows e ON e.number = c.example
JOIN names tasks ON tasks.number = e.task JOIN names statuses ON statuses.number = e.status
LEFT JOIN names problems ON problems.number = e.problem
"""
_LATEST_STEPS = """
JOIN (SELECT task AS last_task, max(step) AS last_step FROM rows WHERE {which} GROUP BY task)
    ON task = last_task AND step = last_step WHERE {which}
"""
_UNSCORABLE = """
SELECT names.name, count(*) FROM rows JOIN names ON names.number = status
{where} AND reward IS NULL AND names.name != 'abstained' GROUP BY status
"""


def unscorable_by_status(database: sqlite3.Connection, selection: Selection) -> dict[str, int]:
    """How many of the selected completions could not be scored, by status; those that abstained are left out."""
    where, values = _where(selection)
    return dict(database.execute(_UNSCORABLE.format(where=where), values))


def selection_of(database: sqlite3.Connection, step: int | None = None) -> Selection | None:
    """Which completions of a run say most about its policy: those of its latest evaluation, if it has any.

    The evaluation of a step is preferred to its training. None if there are none.
    """
    held_out, trained = database.execute(_PARTS).fetchone()
    if step is not None:
        (is_held_out,) = database.execute(_KINDS_OF_STEP, (step,)).fetchone()
        return None if is_held_out is None else Selection(Part.HELD_OUT if is_held_out else Part.TRAINING, step)
    if held_out is not None:
        return Selection(Part.HELD_OUT, held_out)
    if trained is None:
        return None
    return Selection(Part.ALL if trained == NO_STEP else Part.TRAINING)


def tallies(database: sqlite3.Connection, selection: Selection) -> Iterator[Tally]:
    """What became of the completions of each problem, in the order of the problems' ids: `mbpp/9` before `mbpp/10`.

    A run has no order of problems that it would have again: its rows are in the order in which verdicts came.
    """
    where, values = _where(selection)
    rows = database.execute(_TALLIES.format(where=where), values)
    for row in sorted(rows, key=lambda row: re.sub(r"\d+", lambda number: number[0].zfill(20), row[0])):
        task_id, digest, n, scored, passed, reward, step, place, rank, held_out, greedy, repeat, status = row
        key = row_key(step, place, rank, held_out, greedy, repeat)
        yield Tally(task_id, digest, n, scored, passed, reward, key, status)


def settings_of(configs: Sequence[RunConfig]) -> tuple[tuple[Setting, ...], int]:
    """What differs in the configurations of runs.

    An option that a run does not have, because an earlier version of sandrl wrote it, has the default of its command.

    Returns:
        The options and versions that differ, in the order in which help shows options; and how many options do not.
    """
    defaults = [_defaults(config.command) for config in configs]
    chosen = [{**known, **config.options} for config, known in zip(configs, defaults, strict=True)]
    found, same = [], 0
    for name in dict.fromkeys(name for each in chosen for name in each if name not in OWN_OPTIONS):
        values = tuple(each.get(name) for each in chosen)
        own = tuple(name in each and each[name] == value for each, value in zip(defaults, values, strict=True))
        # What another command cannot set has not been changed by its default.
        is_set = any(name in each and not is_default for each, is_default in zip(chosen, own, strict=True))
        if all(value == values[0] for value in values) or not (is_set or all(name in each for each in chosen)):
            same += 1
        else:
            found.append(Setting(name, values, own))
    facts: list[dict[str, JsonValue]] = [_facts(config) for config in configs]
    for name in dict.fromkeys(name for each in facts for name in each):
        values = tuple(each.get(name) for each in facts)
        if any(value != values[0] for value in values):
            found.append(Setting(name, values, (False,) * len(values)))
    return tuple(found), same


def all_options(config: RunConfig) -> dict[str, tuple[JsonValue, bool]]:
    """All that may tell a run from others: its options, and its versions; each with whether it is a default."""
    defaults = _defaults(config.command)
    chosen = {**defaults, **config.options}
    own = {
        name: (value, name in defaults and defaults[name] == value)
        for name, value in chosen.items()
        if name not in OWN_OPTIONS
    }
    return {**own, **{name: (value, False) for name, value in _facts(config).items()}}


def _facts(config: RunConfig) -> dict[str, JsonValue]:
    versions = config.jobs[-1].versions if config.jobs else {}
    return {"command": config.command, **{f"versions.{name}": version for name, version in versions.items()}}


def _defaults(command: str) -> dict[str, JsonValue]:
    model = CONFIGS.get(command)
    if model is None:
        return {}
    fields = {name: model.model_fields[name] for name, _ in options(model)}
    known = {
        name: each.get_default(call_default_factory=True) for name, each in fields.items() if not each.is_required()
    }
    return model.model_construct(**known).model_dump(mode="json", include=set(known), warnings=False)


def _where(selection: Selection) -> tuple[str, tuple[int, ...]]:
    match selection:
        case Selection(Part.HELD_OUT, step):
            return "WHERE held_out = 1 AND greedy = 0 AND step = ?", (NO_STEP if step is None else step,)
        case Selection(Part.TRAINING, int() as step):
            return "WHERE held_out = 0 AND step = ?", (step,)
        case Selection(Part.TRAINING):
            return _LATEST_STEPS.format(which="held_out = 0"), ()
        case Selection(Part.LATEST):
            return _LATEST_STEPS.format(which="greedy = 0"), ()
    return "WHERE held_out = 0", ()


def _compared_run(
    source: Source, reader: RunReader, database: sqlite3.Connection, selection: Selection, own: Iterable[Tally]
) -> ComparedRun:
    where, values = _where(selection)
    counts = [(tally.n, tally.scored, tally.passed) for tally in own]
    (reward,) = database.execute(f"SELECT avg(reward) FROM rows {where}", values).fetchone()
    (damaged,) = database.execute("SELECT coalesce(sum(damaged), 0) FROM files").fetchone()
    return ComparedRun(
        name=source.name,
        path=reader.path,
        config=reader.config,
        state=state_of(reader.config, is_running=reader.is_running),
        selection=selection,
        problems=len(counts),
        completions=sum(n for n, _, _ in counts),
        scored=sum(scored for _, scored, _ in counts),
        passed=sum(passed for _, _, passed in counts),
        unscorable=unscorable_by_status(database, selection),
        pass_at=pass_at_of([(scored, passed) for _, scored, passed in counts if scored]),
        reward=reward,
        damaged=damaged,
    )


def _pairing(
    at: int, first: tuple[RunColumns, Mapping[str, Tally]], second: tuple[RunColumns, Mapping[str, Tally]]
) -> Pairing:
    both = [(tally, second[1][task_id]) for task_id, tally in first[1].items() if task_id in second[1]]
    suspects = [(a, b) for a, b in both if a.digest and b.digest and a.digest != b.digest]
    changed = _with_other_checks(first[0], second[0], suspects)
    same = [(a, b) for a, b in both if a.task_id not in changed]
    compared = [(a, b) for a, b in same if a.scored and b.scored]
    shares = [(a.passed / a.scored, b.passed / b.scored) for a, b in compared]
    gained, lost = _turned(compared)
    return Pairing(
        run=at,
        common=len(compared),
        first_share=mean([x for x, _ in shares]),
        second_share=mean([y for _, y in shares]),
        passed=paired_difference(
            [y - x for x, y in shares], is_single=all(a.scored == b.scored == 1 for a, b in compared)
        ),
        reward=paired_difference(
            [(b.reward or 0.0) - (a.reward or 0.0) for a, b in compared],
            is_share=all(0.0 <= (tally.reward or 0.0) <= 1.0 for pair in compared for tally in pair),
        ),
        gained=gained,
        lost=lost,
        only_first=tuple(task_id for task_id in first[1] if task_id not in second[1]),
        only_second=tuple(task_id for task_id in second[1] if task_id not in first[1]),
        unscorable=tuple(a.task_id for a, b in same if not (a.scored and b.scored)),
        changed=tuple(a.task_id for a, _ in suspects if a.task_id in changed),
        other_prompt=sum(a.task_id not in changed and a.scored > 0 and b.scored > 0 for a, b in suspects),
    )


def _turned(compared: Iterable[tuple[Tally, Tally]]) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    changes: dict[bool, list[tuple[float, Change]]] = {True: [], False: []}
    for a, b in compared:
        change = b.passed / b.scored - a.passed / a.scored
        if change:
            changes[change > 0.0].append((abs(change), Change(a.task_id, (a.passed, a.scored), (b.passed, b.scored))))
    gained, lost = (
        tuple(turned for _, turned in sorted(found, key=lambda each: -each[0])) for found in changes.values()
    )
    return gained, lost


def _with_other_checks(first: RunColumns, second: RunColumns, suspects: Sequence[tuple[Tally, Tally]]) -> set[str]:
    if not suspects:
        return set()
    with first.opened() as one, second.opened() as other:
        return {
            a.task_id
            for a, b in suspects
            if checks_of(first.problem(one, a.digest)) != checks_of(second.problem(other, b.digest))
        }


def checks_of(problem: ProblemRow | None) -> object:
    """What decides whether a completion is right; which of it the prompt shows makes no difference."""
    if problem is None:
        return None
    checks = [check.model_copy(update={"is_hidden": True}) for check in problem.checks]
    return problem.language, problem.kind, problem.setup, problem.check_count, checks


def _adjusted(pairings: Sequence[Pairing]) -> tuple[Pairing, ...]:
    tested = [each for each in pairings if each.passed is not None]
    p_values = adjusted_for_several([each.passed.p_value for each in tested if each.passed is not None])
    by_run = {each.run: p_value for each, p_value in zip(tested, p_values, strict=True)}
    return tuple(replace(each, adjusted_p_value=by_run.get(each.run)) for each in pairings)


def _nothing_to_compare(source: Source, database: sqlite3.Connection) -> InputError:
    if source.step is None:
        return InputError("the run has no completions, so it cannot be compared", path=source.columns.run)
    rows = database.execute("SELECT DISTINCT step FROM rows WHERE held_out = 1 AND greedy = 0 ORDER BY step").fetchall()
    steps = ", ".join(str(step) for (step,) in rows)
    return InputError(
        f"the run has no completions of step {source.step}",
        path=source.columns.run,
        hint=f"its evaluations are those of the steps {steps}" if steps else "leave out the step to compare all",
    )


def comparison_document(found: Comparison) -> dict[str, Any]:
    """A comparison as `sandrl runs compare --json` prints it, complete."""
    return {
        "baseline": found.runs[0].name,
        "runs": [_run_document(run) for run in found.runs],
        "configuration": [asdict(setting) for setting in found.settings],
        "same_options": found.same_settings,
        "comparisons": [
            {
                "run": found.runs[each.run].name,
                "common": each.common,
                "baseline_pass_at_1": each.first_share,
                "pass_at_1": each.second_share,
                "difference": None if each.passed is None else asdict(each.passed),
                "adjusted_p_value": each.adjusted_p_value,
                "reward_difference": None if each.reward is None else asdict(each.reward),
                "gained": [_turned_document(turned) for turned in each.gained],
                "lost": [_turned_document(turned) for turned in each.lost],
                "only_in_baseline": list(each.only_first),
                "only_in_run": list(each.only_second),
                "unscorable": list(each.unscorable),
                "other_checks": list(each.changed),
                "other_prompt": each.other_prompt,
            }
            for each in found.pairings
        ],
    }


def _run_document(run: ComparedRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "run_id": run.run_id,
        "path": str(run.path),
        "command": run.config.command,
        "state": run.state.value,
        "part": run.selection.part.value,
        "step": run.selection.step,
        "model": run.config.subject,
        "source": run.config.source,
        "problems": run.problems,
        "completions": run.completions,
        "scored": run.scored,
        "passed": run.passed,
        "unscorable": sum(run.unscorable.values()),
        "unscorable_by_status": dict(run.unscorable),
        **pass_at_document(run.pass_at),
        "reward_mean": run.reward,
        "damaged_rows": run.damaged,
    }


def _turned_document(turned: Change) -> dict[str, Any]:
    (before, first), (after, second) = turned.first, turned.second
    return {
        "task_id": turned.task_id,
        "baseline": {"passed": before, "scored": first},
        "run": {"passed": after, "scored": second},
    }
