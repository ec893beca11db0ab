"""A run that measures problems: what is judged in it are solutions, stubs, cheats and mutants, one batch after another.

Each has an id of its own, `TASK#LABEL`, and its result is a row of the run. A run that is resumed judges what has no
row, so a later batch may depend on the results of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandrl.config.scoring import RedteamConfig, ValidateConfig
from sandrl.events import Emit, JobStarted
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.judge import Judge
from sandrl.problems import Completion, Problem
from sandrl.rewards.scored_run import JobRun, open_job_run
from sandrl.rewards.scoring import score_batch
from sandrl.runs import RunReader
from sandrl.runs.cards import Card
from sandrl.runs.resumption import PROBLEMS_DIGEST, digest_of_all
from sandrl.sandboxes import Interrupt
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.problem_records import KeptProblems
from sandrl.scoring.records import Place, result_of, trajectory_row
from sandrl.settings import Settings
from sandrl.trials.trial import Agent


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


class Measuring:
    """Judges runs, and keeps their results."""

    def __init__(
        self,
        run: JobRun,
        problems: Mapping[str, Problem],
        context: ScoringContext,
        cache: VerdictCache,
        earlier: Mapping[str, ScoredCompletion],
        interrupt: Interrupt,
    ) -> None:
        self.run = run
        self.problems = problems
        self.context = context
        self.interrupt = interrupt
        self._cache = cache
        self._results = dict(earlier)
        self._kept = KeptProblems(run.session.writer, None)
        self.unfinished = 0
        """How many of the last batch have no result because the user asked to stop."""

    def judge(self, runs: Sequence[Run], *, context: ScoringContext | None = None) -> dict[str, ScoredCompletion]:
        """Judges those that have no result yet, and returns the results of all, by id, in their order.

        Args:
            context: How they are judged, unless as the other runs.
        """
        left = [each for each in runs if each.id not in self._results]
        if left and not self.interrupt.level:
            self._judge(left, context or self.context)
        found = {each.id: self._results[each.id] for each in runs if each.id in self._results}
        self.unfinished = len(runs) - len(found)
        return found

    def _judge(self, left: Sequence[Run], context: ScoringContext) -> None:
        writer = self.run.session.writer
        where = Place(writer.job_id, attempt=self.run.session.attempt)
        completions = [Completion(each.id, each.task_id, code=each.code) for each in left]
        first = len(self._results)

        def keep(result: ScoredCompletion) -> None:
            numbered = replace(result, index=first + result.index)
            problem = self._kept.digest_of(self.problems[result.task_id])
            writer.append(trajectory_row(numbered, completions[result.index], where, problem=problem))
            self._results[result.id] = numbered

        at_once = context.options.concurrency or len(left)
        self.run.tell(JobStarted(writer.job_id, len(left), min(at_once, len(left))))
        assert self.run.job is not None, "no service measures"
        has_tasks = any(each.agent for each in left)
        score_batch(
            completions,
            self.problems,
            self.run.job,
            context,
            cache=self._cache,
            emit=self.run.tell,
            interrupt=self.interrupt,
            on_result=keep,
            keeps_output=False,
            agents=[each.agent for each in left] if has_tasks else (),
        )

    def keep(self, card: Card) -> None:
        """Appends a card to those of the run; the last one of a problem counts."""
        self.run.session.writer.append(card)


@contextmanager
def opened_measuring(
    config: ValidateConfig | RedteamConfig,
    problems: Mapping[str, Problem],
    settings: Settings,
    *,
    command: str,
    tag: str,
    resume: Path | None,
    emit: Emit,
    interrupt: Interrupt,
) -> Iterator[Measuring]:
    """Opens the run of a command that measures problems, with its job; leaving the block ends them.

    Args:
        resume: The directory of the run to resume.

    Raises:
        UsageError: If the run cannot be made.
        ServiceError: If the runtime, or the disk, fails.
    """
    with open_job_run(
        config,
        problems,
        settings,
        command=command,
        tags=(tag,),
        facts={PROBLEMS_DIGEST: digest_of_all(each.check_content for each in problems.values())},
        resume=resume,
        emit=emit,
        interrupt=interrupt,
    ) as run:
        assert run.connection is not None, "no service measures"
        options = ScoreOptions.of(config)
        concurrency = run.connection.concurrency(config.concurrency)
        judge = Judge.on(run.connection, require_isolated=config.require_isolated)
        context = ScoringContext.of(replace(options, concurrency=concurrency), judge, run.connection)
        earlier = {} if resume is None else _earlier(resume)
        yield Measuring(run, problems, context, VerdictCache(), earlier, interrupt)


def _earlier(resume: Path) -> dict[str, ScoredCompletion]:
    # Those that stay: what failed for a reason of the machine is judged again.
    results = {row.id: result_of(row).without_output() for row in RunReader(resume).each_trajectory()}
    return {name: each for name, each in results.items() if each.status is not Status.INFRASTRUCTURE}
