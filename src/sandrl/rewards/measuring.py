"""A run that measures problems: it judges solutions, stubs, cheats and mutants, one batch after another.

Each has an id of its own, `TASK#LABEL`, and its result is a row of the run. A run that is resumed judges what has no
row, so a later batch may depend on the results of an earlier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

from sandrl.config.layers import ConfigT, resolve
from sandrl.config.parts import MappingPart, ScoringPart
from sandrl.config.scoring import RedteamConfig, ValidateConfig
from sandrl.config.words import VerifierPlace
from sandrl.errors import CleanupError, raise_for_end
from sandrl.events import Emit, Event, JobStarted, OpinionFinished, ResultsKept
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.judge import Judge
from sandrl.problems import Completion, Problem
from sandrl.problems.problem_records import KeptProblems
from sandrl.rewards.cards import card_of
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.scored_run import BatchPlace, JobRun, open_job_run
from sandrl.rewards.scoring import score_batch
from sandrl.runs import RunReader
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card
from sandrl.runs.held import SandboxTime
from sandrl.runs.resumption import PROBLEMS_DIGEST, check_unchanged, digest_of_all, resumed_config, run_to_resume
from sandrl.sandboxes import Interrupt
from sandrl.scoring.batch import OnResult, no_code_warning
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.opinions import OpinionMemory
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.records import Place, opinion_row, result_of, trajectory_row
from sandrl.settings import Settings
from sandrl.trials.trial import Agent

OF_THE_RUN = (
    *("problems", "num_problems", "packages"),
    *MappingPart.model_fields,
    *(name for name in ScoringPart.model_fields if name not in ("retries", "caching")),
)
"""The fields that decide what is measured, so a resumed run keeps them; those of its command come besides."""


@dataclass(frozen=True, slots=True)
class MeasuringRequest(Generic[ConfigT]):
    """What is measured, and the run that is resumed for it, if one is."""

    config: ConfigT
    resume: Path | None = None


def measuring_request(
    model: type[ConfigT],
    command: str,
    given: Mapping[str, Any],
    settings: Settings,
    *,
    file: Mapping[str, Any] | None = None,
    resume: str | None = None,
    fixed: Iterable[str] = (),
) -> MeasuringRequest[ConfigT]:
    """Makes a request of what was given; `resume` is a run's name, its directory, or `latest`.

    Args:
        file: What the configuration file of the user says.
        fixed: Fields that a resumed run keeps, besides `OF_THE_RUN`.

    Raises:
        UsageError: If a value is impossible, or is another one than that of the run; or if there is no such run.
    """
    file = file or {}
    if resume is None:
        return MeasuringRequest(resolve(model, file, given))
    path = run_to_resume(resume, given, file, settings)
    return MeasuringRequest(resumed_config(model, RunReader(path), command, (*OF_THE_RUN, *fixed), file, given), path)


@dataclass(frozen=True, slots=True)
class Run:
    """One program, or one agent, that is judged to learn something about its problem.

    Attributes:
        label: Says what it is, such as `oracle.2` or `cheat.NAME`; unique among those of its problem.
        agent: Who acts, if the problem is a task.
        code: The program, if it is not.
    """

    task_id: str
    label: str
    agent: Agent | None = None
    code: str = ""

    @property
    def id(self) -> str:
        return f"{self.task_id}#{self.label}"


@dataclass(frozen=True, slots=True)
class MeasuringEnd:
    """How a run that measures ended.

    Attributes:
        judged: How many results it has.
        unfinished: How many of what was to be judged has no result, because the user asked to stop.
        signal_number: The signal that asked for it; 0 if there was none.
        cleanup_error: Set if sandboxes were left behind.
        exhausted: Says that the budget is used up; empty if it is not, or if everything has a result.
    """

    command: str
    path: Path
    job_id: str
    held: SandboxTime
    judged: int = 0
    unfinished: int = 0
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    exhausted: str = ""

    @property
    def next_command(self) -> str:
        """What judges the rest."""
        return f"sandrl {self.command} --resume {self.path.name}"

    def raise_for_stop(self) -> None:
        """Raises what `raise_for_end` does."""
        whole = self.judged + self.unfinished
        raise_for_end(
            f"interrupted: {self.judged} of {whole} runs were judged and saved in {self.path}",
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted,
            hint=f"{self.next_command} judges the others",
            budget_hint=f"{self.next_command} --budget … continues with a larger budget",
        )


@dataclass(slots=True)
class _Earlier:
    # What a run has: results that stay, the numbers of all, and the cards.
    results: dict[str, ScoredCompletion] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)


class Measuring:
    """Judges runs, and keeps their results and the cards that follow from them.

    Results are without their texts (code, output, single checks), which the rows of the run have: so memory grows by
    the number of runs alone.

    Attributes:
        problems: All of the set.
        context: How runs are judged, unless said otherwise.
        results: What is known, by id.
        place: Where shared verifiers run, unless said otherwise.
    """

    def __init__(
        self,
        run: JobRun,
        problems: Mapping[str, Problem],
        context: ScoringContext,
        cache: VerdictCache,
        earlier: _Earlier,
        interrupt: Interrupt,
        record: CardRecord,
        command: str,
        place: VerifierPlace,
    ) -> None:
        self.run = run
        self.problems = problems
        self.context = context
        self.interrupt = interrupt
        self.place = place
        self._cache = cache
        self.results = earlier.results
        self._numbers = earlier.numbers
        self._cards = earlier.cards
        self._record = record
        self._command = command
        self._kept = KeptProblems(run.session.writer, None)
        self._asked: set[str] = set()
        self._total = 0
        self._taken = set(earlier.numbers.values())
        self._next = max(self._taken, default=-1) + 1
        self._has_begun = False
        self._warnings: set[str] = set()
        self._opinions: OpinionMemory = {}

    @property
    def unfinished(self) -> int:
        """How many of all that was to be judged so far has no result."""
        return len(self._asked) - sum(name in self.results for name in self._asked)

    @property
    def total(self) -> int:
        """How many runs there are in all, as far as is known."""
        return max(self._total, len(self._asked))

    def expect(self, count: int) -> None:
        """Says how many runs there will be in all, for the progress; it grows by itself if there are more."""
        self._total = count

    def judge(
        self,
        runs: Sequence[Run],
        *,
        context: ScoringContext | None = None,
        problems: Mapping[str, Problem] | None = None,
        on_result: OnResult | None = None,
        keeps_states: bool = False,
    ) -> dict[str, ScoredCompletion]:
        """Judges those that have no result yet, and returns the results of all, by id, in their order.

        Args:
            context: How they are judged, unless as other runs.
            problems: What they are judged as answers to, where that is not the problem of the set, by `task_id`.
            on_result: Is called with each result: at once with those that are known.
            keeps_states: Whether the run has the final states of tasks afterwards, and names what was left running.
        """
        on_result = on_result or _ignore
        context = context or self.context
        trial = replace(context.options.trial, keeps_states=keeps_states, tells_processes=keeps_states)
        context = replace(context, options=replace(context.options, trial=trial))
        for each in runs:
            self._ask(each.id)
        left = []
        for each in runs:
            if (known := self.results.get(each.id)) is not None:
                on_result(known)
            else:
                left.append(each)
        if left and not self.interrupt.level:
            self._judge(left, context, problems or self.problems, on_result)
        return {each.id: self.results[each.id] for each in runs if each.id in self.results}

    def _ask(self, name: str) -> None:
        # A resumed run asks in the same order, so what has no row yet gets the number that it had.
        if name in self._asked:
            return
        number = len(self._asked)
        self._asked.add(name)
        if name not in self._numbers:
            self._numbers[name] = self._next if number in self._taken else number
            self._taken.add(self._numbers[name])
            self._next = max(self._next, self._numbers[name] + 1)

    def _judge(
        self,
        left: Sequence[Run],
        context: ScoringContext,
        problems: Mapping[str, Problem],
        on_result: OnResult,
    ) -> None:
        writer, tell = self.run.session.writer, self.run.tell
        where = Place(writer.job_id, attempt=self.run.session.attempt)
        completions = [Completion(each.id, each.task_id, code=each.code) for each in left]
        if not self._has_begun:
            self._has_begun = True
            assert self.run.connection is not None, "no service measures"
            at_once = self.run.connection.at_once(context.options.concurrency)
            tell(JobStarted(writer.job_id, self.total, min(at_once, self.total)))

        def tell_and_keep(event: Event) -> None:
            if isinstance(event, OpinionFinished):
                writer.append(opinion_row(event, where))
                known = self.results[event.result.id]
                self.results[known.id] = replace(known, second_opinion=event.opinion)
            tell(event)

        place = BatchPlace(
            len(self.results),
            completions,
            self._numbers,
            self.total,
            tell_and_keep,
            self._warnings,
            no_code_warning(context.options.extraction),
        )

        def keep(result: ScoredCompletion) -> None:
            numbered = place.of(result)
            problem = self._kept.digest_of(problems[result.task_id])
            writer.append(trajectory_row(numbered, completions[result.index], where, problem=problem))
            self.results[result.id] = numbered.without_texts()
            on_result(self.results[result.id])

        assert self.run.job is not None, "no service measures"
        has_tasks = any(each.agent for each in left)
        score_batch(
            completions,
            problems,
            self.run.job,
            context,
            cache=self._cache,
            emit=place.tell,
            interrupt=self.interrupt,
            on_result=keep,
            opinions=self._opinions,
            keeps_output=False,
            keeps_results=False,
            agents=[each.agent for each in left] if has_tasks else (),
        )

    def forget(self, prefix: str) -> None:
        """Drops the results whose ids begin so, because what they follow from is judged again."""
        for name in [name for name in self.results if name.startswith(prefix)]:
            del self.results[name]

    def card_of(self, task_id: str, runs: Mapping[str, ScoredCompletion]) -> Card:
        """The card of what was measured on a problem, whose results these are by label."""
        assert self.run.connection is not None, "no service measures"
        return card_of(self.problems[task_id], runs, self.run.connection.image_bytes, self.place)

    def keep(self, card: Card) -> None:
        """Adds a card to those of the run, unless it is there already, and to the record of the user.

        Of those that a run has of a problem the last one counts, so it is whole; the record joins them.
        """
        known = self._cards.get(card.key)
        if known is None or known.model_copy(update={"measured_at": card.measured_at}) != card:
            self._cards[card.key] = card
            # First, because what the run has is not added again when it is resumed.
            self._record.add([card])
            self.run.session.writer.append(card)

    def end(self) -> MeasuringEnd:
        """How the run ended; its block must have been left."""
        session, interrupt, left = self.run.session, self.interrupt, self.unfinished
        return MeasuringEnd(
            self._command,
            session.writer.path,
            session.writer.job_id,
            session.held(),
            len(self.results),
            left,
            interrupt.signal_number,
            session.cleanup_error(),
            session.exhausted if left and interrupt.is_exhausted else "",
        )


@contextmanager
def opened_measuring(
    request: MeasuringRequest[ValidateConfig] | MeasuringRequest[RedteamConfig],
    problems: Mapping[str, Problem],
    settings: Settings,
    *,
    command: str,
    source: str,
    emit: Emit,
    interrupt: Interrupt,
) -> Iterator[Measuring]:
    """Opens the run of a command that measures problems, with its job; leaving the block ends them.

    Args:
        source: Where the problems are, for messages.

    Raises:
        UsageError: If the run cannot be made, or the problems of a resumed one have changed.
        ServiceError: If the runtime, or the disk, fails.
    """
    config, resume = request.config, request.resume
    digest = digest_of_all(each.content for each in problems.values())
    earlier = _Earlier()
    if resume is not None:
        check_unchanged(resume, digest, source)
        earlier = _earlier(resume)
        emit(ResultsKept(len(earlier.results)))
    with open_job_run(
        config,
        problems,
        settings,
        command=command,
        tags=(command.replace(" ", "-"),),
        facts={PROBLEMS_DIGEST: digest},
        resume=resume,
        emit=emit,
        interrupt=interrupt,
    ) as run:
        assert run.connection is not None, "no service measures"
        concurrency = run.connection.concurrency(config.concurrency)
        judge = Judge.on(run.connection, require_isolated=config.require_isolated)
        options = replace(ScoreOptions.of(config), concurrency=concurrency, grading=None)
        context = ScoringContext.of(options, judge, run.connection)
        cache = VerdictCache(config.cache if isinstance(config, ValidateConfig) else None)
        record, place = CardRecord(settings.state_dir), config.verifier_place
        measuring = Measuring(run, problems, context, cache, earlier, interrupt, record, command, place)
        yield measuring
        finished = len(measuring.results)
        run.end(finished, finished + measuring.unfinished, is_resumed=resume is not None)


def estimate_measuring(
    request: MeasuringRequest[ValidateConfig] | MeasuringRequest[RedteamConfig],
    settings: Settings,
    counts: Iterable[tuple[Problem, int]],
    *,
    command: str,
) -> SandboxEstimate:
    """What a run would take at least, by how many runs each problem has, without what a resumed run has already."""
    known = Counter(each.task_id for each in _earlier(request.resume).results.values()) if request.resume else {}
    return estimate_sandboxes(
        request.config,
        ScoreOptions.of(request.config).limits,
        settings,
        command=command,
        counts=((each, left) for each, count in counts if (left := count - known.get(each.task_id, 0)) > 0),
        run=request.resume,
    )


def whole_results(run: Path, names: Container[str]) -> dict[str, ScoredCompletion]:
    """Results of a run by id, with their texts and single checks."""
    return {row.id: result_of(row) for row in RunReader(run).each_trajectory() if row.id in names}


def _earlier(resume: Path) -> _Earlier:
    reader, found = RunReader(resume), _Earlier()
    for row in reader.each_trajectory():
        found.numbers[row.id] = row.index
        # What failed for a reason of the machine is judged again, under its number.
        if row.status != Status.INFRASTRUCTURE:
            found.results[row.id] = result_of(row).without_texts()
    found.cards = {card.key: card for card in reader.cards().rows}
    return found


def _ignore(result: ScoredCompletion) -> None:
    pass
