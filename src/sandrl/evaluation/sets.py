"""Evaluation sets: models × problem sets × seeds in one file, each combination an ordinary evaluation with its own run.

The runs are the only state. A member whose run is complete is skipped, a run that has begun is resumed, and the others
are started. So the same command continues a set after a failure, an interrupt or `kill -9`. Members of one
endpoint, and those with a model in this process, follow one another; different endpoints are requested in parallel. A
member that fails does not end the others.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.config.eval import EvalConfig
from sandrl.config.layers import resolve
from sandrl.config.toml import check_keys, load_toml
from sandrl.errors import (
    GateError,
    InputError,
    InterruptedRunError,
    RunOutcome,
    SandrlError,
    UsageError,
    ending_of,
)
from sandrl.evaluation.request import EvalRequest
from sandrl.evaluation.resume import resumed_config
from sandrl.evaluation.run import problems_digest, run_eval
from sandrl.events import Emit, MemberFinished, MemberStarted, MemberTold, ignore
from sandrl.runs import RunReader, step_rows
from sandrl.runs.config import CONFIG_FILE
from sandrl.runs.directory import checked_run_name
from sandrl.runs.resumption import check_unchanged
from sandrl.sandboxes import Interrupt
from sandrl.settings import ReportTo, Settings
from sandrl.suggestions import near

NAME, SEEDS, MODELS, PROBLEM_SETS = "name", "seeds", "models", "problem_sets"

_ELSEWHERE = {
    "model": f"each model has a table [{MODELS}.NAME]",
    "problems": f"each problem set has a table [{PROBLEM_SETS}.NAME]",
    "seed": f"`{SEEDS}` lists the seeds of all evaluations",
    "run_name": f"`{NAME}` of the set begins the names of all runs",
    "out": "each evaluation has a run directory",
}
_OF_THE_SET = {
    "runs_dir": "all runs of a set are in one directory; set it above the tables",
    "notify": "the command runs once, at the end of the set; set it above the tables",
}
_LONGEST_NAME = 90
_DIGEST = 6
_LOOK_SECONDS = 0.5
# What a command ends with if several members failed: the first of these that one of them has.
_MOST_URGENT = (3, 4, 70, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One evaluation of a set."""

    model: str
    problem_set: str
    seed: int
    config: EvalConfig
    path: Path

    @property
    def label(self) -> str:
        return f"{self.model} on {self.problem_set}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class EvalSet:
    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class SetRun:
    """What came of the evaluations of a set; `signal_number` is 0 unless a signal stopped it."""

    request: EvalSet
    errors: Mapping[Member, BaseException]
    done: frozenset[Member]
    signal_number: int = 0

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with; the most urgent failure of a member decides the exit code."""
        total = len(self.request.members)
        again = "the same command continues with what is missing"
        if self.signal_number:
            message = f"interrupted: {len(self.done)} of {total} evaluations are complete"
            raise InterruptedRunError(message, signal_number=self.signal_number, hint=again)
        if not self.errors:
            return
        codes = {ending_of(error).exit_code for error in self.errors.values()}
        named = "; ".join(member.label for member in self.request.members if member in self.errors)
        is_gate = all(isinstance(error, GateError) for error in self.errors.values())
        error = SandrlError(
            f"{len(self.errors)} of {total} evaluations failed: {named}", hint=None if is_gate else again
        )
        error.exit_code = next((code for code in _MOST_URGENT if code in codes), max(codes))
        raise error


def read_set(
    file: Path,
    settings: Settings,
    given: Mapping[str, Any] | None = None,
    *,
    below: Mapping[str, Any] | None = None,
) -> EvalSet:
    """Reads the file of a set.

    Options above all tables are those of every evaluation. Those of a problem set's table override them, those of a
    model's table override both, and what was given on the command line overrides all.

    Raises:
        InputError: If the file cannot be read, or something in it is wrong; it names the table and the key.
        UsageError: If an option of the command line is one that each evaluation has its own value of.
    """
    given = given or {}
    below = below or {}
    for name in (*below, *given):
        if name in _ELSEWHERE:
            raise UsageError(f"{name} cannot be used with a set: {_ELSEWHERE[name]}", fields=(name,))
    content = load_toml(file)
    for key in content:
        if key not in (NAME, SEEDS, MODELS, PROBLEM_SETS) and key not in EvalConfig.model_fields:
            known = (*EvalConfig.model_fields, NAME, SEEDS, MODELS, PROBLEM_SETS)
            raise InputError(f"there is no such key{near(key, known)}", path=file, field=key)
    models, sets = (_tables(content, key, file) for key in (MODELS, PROBLEM_SETS))
    seeds = _seeds(content, file)
    name = content.get(NAME, file.stem)
    if not isinstance(name, str) or not name:
        raise InputError("must be a text", path=file, field=NAME)
    shared = {key: value for key, value in content.items() if key not in (NAME, SEEDS, MODELS, PROBLEM_SETS)}
    check_keys(EvalConfig, shared, file, others=_ELSEWHERE)
    for key, tables, own in ((MODELS, models, "model"), (PROBLEM_SETS, sets, "problems")):
        others = {**_ELSEWHERE, **_OF_THE_SET}
        if key == PROBLEM_SETS:
            others["base_url"] = f"an endpoint belongs to a model: [{MODELS}.NAME]"
        del others[own]
        for table, values in tables.items():
            check_keys(EvalConfig, values, file, place=f"{key}.{_quoted(table)}", others=others)
    members = []
    for set_name, of_set in sets.items():
        for model_name, of_model in models.items():
            layers: list[tuple[str, Mapping[str, Any]]] = [
                ("", below),
                ("", shared),
                (f"{PROBLEM_SETS}.{_quoted(set_name)}", of_set),
                (f"{MODELS}.{_quoted(model_name)}", of_model),
            ]
            base_url = next((layer["base_url"] for _, layer in reversed(layers) if "base_url" in layer), None)
            defaults = {"problems": set_name}
            if given.get("base_url", base_url) is None:
                defaults["model"] = model_name
            for seed in seeds:
                run_name = _run_name(name, model_name, set_name, seed)
                of_member = {"seed": seed, "run_name": run_name}
                config = _resolved(file, [("", defaults), *layers, ("", of_member), ("", given)])
                path = (config.runs_dir or settings.runs_dir) / run_name
                members.append(Member(model_name, set_name, seed, config, path))
    paths = Counter(member.path for member in members)
    twice = next((member for member in members if paths[member.path] > 1), None)
    if twice is not None:
        raise InputError(f"two evaluations would be the run {twice.path.name!r}; rename a table", path=file)
    return EvalSet(name, tuple(members))


def run_set(request: EvalSet, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None) -> SetRun:
    """Evaluates what is missing of a set; `UsageError` if a run of it was begun with other options."""
    interrupt = interrupt or Interrupt()
    requests = {member: _request(member) for member in request.members}
    workers = _Workers(requests, settings, emit, interrupt)
    # W&B and Trackio have one run at a time in a process.
    is_serial = any({ReportTo.WANDB, ReportTo.TRACKIO} & {*member.config.report_to} for member in request.members)
    lines: dict[str, list[Member]] = {}
    for member in request.members:
        lines.setdefault("" if is_serial else member.config.base_url or "", []).append(member)
    threads = [
        threading.Thread(target=workers.work, args=(line,), name=f"sandrl-eval-{at}")
        for at, line in enumerate(lines.values())
    ]
    with interrupt.heard():
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                waker = interrupt.waker()
                workers.pass_on()
                with suppress(TimeoutError):
                    waker.result(_LOOK_SECONDS)
        finally:
            workers.is_over = True
            for thread in threads:
                thread.join()
    return SetRun(request, workers.errors, frozenset(workers.done), interrupt.signal_number)


class _Workers:
    def __init__(
        self, requests: Mapping[Member, EvalRequest], settings: Settings, emit: Emit, interrupt: Interrupt
    ) -> None:
        self._requests = requests
        self._settings = settings
        self._emit = emit
        self._interrupt = interrupt
        self._mutex = threading.Lock()
        self._running: set[Interrupt] = set()
        self._digests: dict[tuple[str, str, Path | None], str] = {}
        self._over = 0
        self.errors: dict[Member, BaseException] = {}
        self.done: set[Member] = set()
        self.is_over = False

    def pass_on(self) -> None:
        with self._mutex:
            running = list(self._running)
        for each in running:
            while each.level < self._interrupt.level and each.request(self._interrupt.signal_number):
                pass

    def work(self, members: Sequence[Member]) -> None:
        for member in members:
            if self._interrupt.level or self.is_over:
                return
            was_complete = False
            try:
                was_complete = self._evaluate(member)
            except Exception as error:  # noqa: BLE001 - the others go on, and it is told at the end
                self.errors[member] = error
            failure = self.errors.get(member)
            if failure is None or isinstance(failure, GateError):
                self.done.add(member)
            with self._mutex:
                self._over += 1
                over = self._over
            ending = None if failure is None else ending_of(failure)
            message, hint = ("", "") if ending is None else (ending.message, ending.hint or "")
            self._emit(MemberFinished(member.label, over, len(self._requests), message, hint, was_complete))

    def _evaluate(self, member: Member) -> bool:
        request = self._requests[member]
        if request.resume is not None and self._is_complete(member):
            return True
        own = Interrupt()
        with self._mutex:
            self._running.add(own)
        self._emit(MemberStarted(member.label, member.path.name, request.resume is not None))
        try:
            self.pass_on()
            finished = run_eval(
                request, self._settings, emit=lambda event: self._emit(MemberTold(member.label, event)), interrupt=own
            )
        finally:
            with self._mutex:
                self._running.discard(own)
        finished.raise_for_outcome()
        return False

    def _is_complete(self, member: Member) -> bool:
        reader = RunReader(member.path)
        jobs, rows = reader.config.jobs, step_rows(reader)
        measured = rows[-1].metrics if rows else {}
        if not jobs or jobs[-1].outcome is not RunOutcome.FINISHED or measured.get("unscorable") != 0:
            return False
        config = member.config
        # Of one worker: the evaluations of a model are in one line.
        key = (member.model, member.problem_set, None if config.min_quality is None else member.path)
        if key not in self._digests:
            self._digests[key] = problems_digest(config, self._settings, member.path)
        check_unchanged(member.path, self._digests[key], config.problems, noun="evaluation")
        rate, gate = measured.get("pass_rate"), config.fail_under
        if gate is not None and (rate is None or rate < gate):
            raise GateError(f"the pass rate is {rate}, and fail_under requires {gate:g}", fields=("fail_under",))
        return True


def _request(member: Member) -> EvalRequest:
    if not (member.path / CONFIG_FILE).is_file():
        # Left by a job that was killed before it wrote anything.
        with suppress(OSError):
            member.path.rmdir()
        return EvalRequest(member.config)
    asked = {name: value for name, value in member.config.document().items() if value is not None}
    try:
        return EvalRequest(resumed_config(member.path, asked), member.path)
    except UsageError as error:
        error.hint = f"give the set another `{NAME}`, or remove the run: sandrl runs rm {member.path.name}"
        raise


def _tables(content: Mapping[str, Any], key: str, file: Path) -> dict[str, dict[str, Any]]:
    tables = content.get(key)
    if not isinstance(tables, dict) or not tables or not all(isinstance(each, dict) for each in tables.values()):
        raise InputError(f"needs at least one table [{key}.NAME]", path=file, field=key)
    return tables


def _seeds(content: Mapping[str, Any], file: Path) -> list[int]:
    seeds = content.get(SEEDS, [0])
    if (
        not isinstance(seeds, list)
        or not seeds
        or not all(isinstance(each, int) and not isinstance(each, bool) for each in seeds)
        or len(set(seeds)) < len(seeds)
    ):
        raise InputError("must be a list of different whole numbers, such as [0, 1, 2]", path=file, field=SEEDS)
    return seeds


# The name of a table as TOML writes it.
def _quoted(table: str) -> str:
    return table if re.fullmatch(r"[A-Za-z0-9_-]+", table) else f'"{table}"'


def _resolved(file: Path, layers: Sequence[tuple[str, Mapping[str, Any]]]) -> EvalConfig:
    try:
        return resolve(EvalConfig, *(values for _, values in layers))
    except UsageError as error:
        name = next((each for each in error.fields if each in EvalConfig.model_fields), None)
        place = next((place for place, values in reversed(layers) if name in values), "")
        name = SEEDS if name == "seed" else name
        raise InputError(error.message, path=file, field=f"{place}.{name}" if place else name) from error


# The name of a member's run: what is not allowed in one is replaced, and a digest keeps it apart from others.
def _run_name(*parts: object) -> str:
    whole = ".".join(map(str, parts[:-1])) + f".s{parts[-1]}"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", whole).lstrip("._-")
    if name != whole or len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:_DIGEST]
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return checked_run_name(name)
