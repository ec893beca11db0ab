"""The reward function that TRL calls: sandboxes compute the rewards, and every completion is recorded.

The trainer works in steps and the reward function in completions; this module connects both. It counts nothing: it
emits events, and the recorder combines those of all processes.

Processes that evaluate together need batches of equal size, otherwise they wait for each other indefinitely. Accelerate
fills the last batches with rows from the beginning, which would be judged and counted twice. So the dataset itself is
filled with marked rows, and these get no reward.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import Any

from sandrl.errors import InterruptedRunError
from sandrl.events import CompletionFinished, Emit, Event, OpinionFinished, RewardCallFinished
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion
from sandrl.problems.problem_records import KeptProblems
from sandrl.rewards import RewardFunction, VerdictCache
from sandrl.rewards.early import EarlyBatch
from sandrl.rewards.function import FunctionOptions
from sandrl.rollouts.driven import DrivenEpisode
from sandrl.rollouts.environments import Environment
from sandrl.rollouts.toolbox import EpisodeEnd
from sandrl.runs.session import RunSession
from sandrl.runs.statistics import training_reward
from sandrl.runs.summary import Summary
from sandrl.sandboxes import Interrupt, Job, Level
from sandrl.scoring.ranking import GroupRanking, episode_text
from sandrl.scoring.records import Place, opinion_row, trajectory_row
from sandrl.scoring.summary import ScoreReport, raise_for_rewards
from sandrl.scoring.trainer_batch import Text
from sandrl.trainers.episodes import episode_end, message_rows
from sandrl.trainers.plan import Context

EVALUATION_COLUMN = "is_evaluation"
"""The column of the dataset that tells the reward what the trainer does not: whether it trains or evaluates."""

GREEDY_COLUMN = "is_greedy"
"""The column that says whether answers are greedy."""

PADDING_COLUMN = "is_padding"
"""The column that marks rows without a meaning."""

REWARD = "sandrl_reward"
"""What TRL names its metrics after."""


class TrainingReward:
    """Answers a trainer's calls for rewards, and writes every completion into the run.

    Attributes:
        ends: The tokens that end a completion, when the trainer is there; without them no completion is known to be
            truncated.
    """

    def __init__(self, context: Context, options: FunctionOptions, *, job: Job, session: RunSession) -> None:
        self._function: RewardFunction | EpisodeRewards
        if context.plays_tasks:
            self._function = EpisodeRewards(
                job.id, emit=self._tell, interrupt=context.interrupt.scoring, on_result=self._keep
            )
        else:
            self._function = RewardFunction(
                context.sets.all,
                options,
                job=job,
                cache=VerdictCache(context.config.cache),
                emit=self._tell,
                interrupt=context.interrupt.scoring,
                on_result=self._keep,
            )
        self._ranking: GroupRanking | None = None
        if (ranking := options.score.ranking) is not None:
            self._ranking = GroupRanking(ranking, context.interrupt.scoring, context.emit)
        # While a call waits for the others of each group: what is told when they are ranked.
        self._unranked: dict[int, Completion] | None = None
        self._writer = session.writer
        self._problems = context.sets.all
        self._kept = KeptProblems(session.writer, context.prompting)
        self._place = Place(session.writer.job_id, session.writer.rank, attempt=session.attempt)
        self._emit = context.emit
        self.ends: frozenset[int] = frozenset()
        self._calls = 0
        self._begun: list[EarlyBatch] = []
        # What is known of the completions of the call at hand besides what comes of them, by their position.
        self._facts: list[dict[str, Any]] = []

    async def __call__(
        self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any
    ) -> list[float | None]:
        """Scores a batch in a thread of its own, so that other reward functions run beside it."""
        held_out, greedy = any(columns[EVALUATION_COLUMN]), any(columns.get(GREEDY_COLUMN, ()))
        step = columns["trainer_state"].global_step
        self._place = replace(self._place, step=step, held_out=held_out, greedy=greedy)
        environments = columns.get("environments") or ()
        ends = [environment.toolbox.end for environment in environments]
        for environment in environments:
            # The episodes are over. Submissions are judged in sandboxes that no policy has touched, and what became of
            # the machine of a task by its verifier.
            environment.toolbox.close()
        self._facts = [self._sampled(ids, is_episode=bool(environments)) for ids in columns["completion_ids"]]
        for facts, prompt, completion, environment, end in zip(
            self._facts, prompts, completions, environments, ends, strict=False
        ):
            facts.update(_episode(prompt, completion, environment, end))
        began = time.monotonic()
        rewards = await asyncio.to_thread(lambda: self._ranked(prompts, completions, columns))
        report = self._function.last_report
        assert report is not None, "it has just scored"
        self._calls += 1
        self._emit(_finished_call(self._calls, report.summary, time.monotonic() - began))
        return rewards

    def _ranked(
        self, prompts: Sequence[Text], completions: Sequence[Text], columns: dict[str, Any]
    ) -> list[float | None]:
        # The rewards of a call, with the component `ranking` where the policy is trained on them.
        if self._ranking is None or self._place.held_out:
            return self._scored(prompts, completions, columns)
        rows = self._unranked = {}
        try:
            self._scored(prompts, completions, columns)
        finally:
            self._unranked = None
        report = self._function.last_report
        assert report is not None, "it has just scored"
        results = self._ranking.ranked(
            report.results, [self._text(each.index, rows) for each in report.results], self._problems
        )
        for number, result in enumerate(results, 1):
            self._keep(result, rows[result.index])
            self._tell(CompletionFinished(result, finished=number, of=len(results)))
        self._function.last_report = replace(report, results=tuple(results))
        return [training_reward(result.reward, result.components) for result in results]

    def _text(self, index: int, rows: Mapping[int, Completion]) -> str:
        messages = self._facts[index].get("messages")
        return (rows[index].completion or "") if messages is None else episode_text(messages)

    def _scored(
        self, prompts: Sequence[Text], completions: Sequence[Text], columns: dict[str, Any]
    ) -> list[float | None]:
        if self._begun and not self._place.held_out:
            return self._judged.finish(self._begun.pop(0), prompts, completions, **columns)
        return self._function(prompts, completions, **columns)

    @property
    def _judged(self) -> RewardFunction:
        assert isinstance(self._function, RewardFunction), "episodes on tasks are judged where they are played"
        return self._function

    def begin(self, step: int) -> EarlyBatch:
        """Begins the rewards of a step before its completions are known: the next call that trains finishes them."""
        batch = self._judged.begin(step)
        self._begun.append(batch)
        return batch

    @property
    def last_begun(self) -> EarlyBatch:
        """The batch that was begun last."""
        return self._begun[-1]

    def complete(
        self, batch: EarlyBatch, prompts: Sequence[Text], completions: Sequence[Text], task_ids: Sequence[str]
    ) -> None:
        """Hands over the completions of a batch that was begun, as far as it does not have them."""
        self._judged.complete(batch, prompts, completions, task_ids)

    def abandon(self) -> None:
        """Gives up the rewards that were begun."""
        self._begun.clear()
        if isinstance(self._function, RewardFunction):
            self._function.abandon()

    def _tell(self, event: Event) -> None:
        if self._unranked is not None and isinstance(event, CompletionFinished):
            return
        # Second opinions are written down first, with their step.
        if isinstance(event, OpinionFinished):
            self._writer.append(opinion_row(event, self._place))
        self._emit(event)

    def _sampled(self, ids: Sequence[int], *, is_episode: bool) -> dict[str, Any]:
        # The number of tokens, and why it ended; an episode's tokens include results of tools, which nobody sampled.
        facts: dict[str, Any] = {"tokens": {"conversation" if is_episode else "completion": len(ids)}}
        if self.ends and ids:
            # As TRL counts `completions/clipped_ratio`.
            facts["finish_reason"] = "stop" if ids[-1] in self.ends else "length"
        return facts

    def _keep(self, result: ScoredCompletion, completion: Completion) -> None:
        if self._unranked is not None:
            self._unranked[result.index] = completion
            return
        problem = self._kept.digest_of(self._problems[result.task_id])
        facts = self._facts[result.index]
        if "episode" in facts:
            facts["dropped"] = facts["dropped"] or result.status.is_lost
        row = trajectory_row(result, completion, self._place, problem=problem, **facts)
        self._writer.append(row)


class EpisodeRewards:
    """The rewards of episodes on tasks, each judged where it was played.

    Attributes:
        last_report: The report of the last batch; None before the first one.
    """

    def __init__(
        self,
        job_id: str,
        *,
        emit: Emit,
        interrupt: Interrupt,
        on_result: Callable[[ScoredCompletion, Completion], None],
    ) -> None:
        self._job_id = job_id
        self._emit = emit
        self._interrupt = interrupt
        self._on_result = on_result
        self.last_report: ScoreReport | None = None

    def __call__(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any) -> list[float | None]:
        """Waits for the verdicts on N episodes, which are over; None for one that was lost.

        Raises:
            InterruptedRunError: If the user does not want to wait.
            UsageError: If the reward policy fails for one.
        """
        environments: Sequence[Environment] = columns["environments"]
        results = []
        for number, environment in enumerate(environments):
            result = replace(self._result(environment), index=number)
            results.append(result)
            self._on_result(result, Completion(result.id, result.task_id, code=""))
            self._emit(CompletionFinished(result, finished=len(results), of=len(environments)))
        self.last_report = ScoreReport(self._job_id, tuple(results))
        raise_for_rewards(results)
        return [training_reward(result.reward, result.components) for result in results]

    def _result(self, environment: Environment) -> ScoredCompletion:
        episode = environment.toolbox
        assert isinstance(episode, DrivenEpisode), "it is an episode on a task"
        while not episode.result.done():
            waiting: set[Future[Any]] = {episode.result, self._interrupt.waker()}
            wait(waiting, return_when=FIRST_COMPLETED)
            if self._interrupt.level is Level.CANCEL:
                raise InterruptedRunError("interrupted", signal_number=self._interrupt.signal_number)
        return episode.result.result()


def _episode(prompt: Text, completion: Text, environment: Environment, end: EpisodeEnd | None) -> dict[str, Any]:
    messages, toolbox = message_rows(prompt, completion), environment.toolbox
    facts = {"end": end or episode_end(messages), "tool_calls": toolbox.calls}
    return {"messages": messages, "episode": facts, "dropped": bool(toolbox.loss)}


def _finished_call(number: int, summary: Summary, seconds: float) -> RewardCallFinished:
    opinions = summary.second_opinion
    return RewardCallFinished(
        number=number,
        completions=summary.n,
        sandboxes=summary.executions,
        passed=summary.passed,
        judged=summary.scored - summary.no_code,
        no_code=summary.no_code,
        cached=summary.cache_hits,
        unscorable=summary.unscorable,
        abstained=summary.abstained,
        seconds=seconds,
        second_opinions=0 if opinions is None else opinions.answered,
        disagreements=0 if opinions is None else opinions.disagreements,
    )


class WithoutPadding:
    """A reward function that is asked about real rows only; padding gets None."""

    def __init__(self, reward: Callable[..., Awaitable[list[float | None]]], name: str) -> None:
        self.__name__ = name
        self._reward = reward

    async def __call__(
        self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any
    ) -> list[float | None]:
        """Rewards in the order of the rows."""
        is_padding = columns.pop(PADDING_COLUMN)
        kept = [place for place, padded in enumerate(is_padding) if not padded]
        if len(kept) == len(is_padding):
            return await self._reward(prompts, completions, **columns)
        for padded, environment in zip(is_padding, columns.get("environments") or (), strict=False):
            if padded:
                environment.toolbox.close()

        def chosen(values: Any) -> Any:
            return [values[place] for place in kept] if isinstance(values, list) else values

        columns = {name: chosen(values) for name, values in columns.items()}
        # Also where no row is left: the calls of all processes are counted alike.
        found = await self._reward(chosen(prompts), chosen(completions), **columns)
        rewards: list[float | None] = [None] * len(is_padding)
        for place, reward in zip(kept, found, strict=True):
            rewards[place] = reward
        return rewards
