"""One step of episodes: each member of a group runs an episode of each problem, all at the same time.

A step does not depend on its purpose. The caller, which examines a model or trains one, gets the episodes when the last
one is in the run directory, and decides what to measure and what to do next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from sandrl.config.episodes import CONCURRENCY, EpisodesConfig
from sandrl.events import CompletionFinished, Emit, OpinionFinished, StopRequested
from sandrl.judge.judge import Judge
from sandrl.models.protocol import Player
from sandrl.problems import Problem
from sandrl.problems.prompting import Prompting
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode
from sandrl.rollouts.records import episode_row, result_of
from sandrl.rollouts.results import StepResult
from sandrl.rollouts.shared_job import SharedJob
from sandrl.rollouts.threads import play_all
from sandrl.runs import RunWriter
from sandrl.sandboxes import Interrupt, Job, Level, step_tag
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.problem_records import KeptProblems
from sandrl.scoring.records import Place, opinion_row
from sandrl.scoring.summary import raise_for_rewards

# Sandboxes of an episode live as long as it does; what a model takes for an answer is not known before.
EPISODE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How steps are played.

    Attributes:
        scoring: How a solution is judged and rewarded; its time is also that of one command.
        cache: Where verdicts are kept from one run to the next; None keeps them for this one.
        attempt: Which attempt at the run's steps this is; more than 1 in a run that was resumed.
    """

    episode: EpisodeOptions
    scoring: ScoreOptions
    samples: int
    require_isolated: bool = False
    cache: Path | None = None
    concurrency: int = CONCURRENCY
    attempt: int = 1

    @classmethod
    def of(cls, config: EpisodesConfig, prompting: Prompting, *, samples: int, problems: int, attempt: int = 1) -> Self:
        return cls(
            EpisodeOptions.of(config, prompting, config.extract),
            ScoreOptions.of(config),
            samples,
            config.require_isolated,
            config.cache,
            config.at_once(samples * problems),
            attempt,
        )


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step that is over, or was given up; `first_loss` is empty if no episode was lost."""

    episodes: tuple[Episode, ...]
    unfinished: int
    result: StepResult
    first_loss: str = ""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """What the episodes amounted to, beside what is counted from events."""
        episodes = self.episodes
        return {
            "episodes/tool_calls": float(sum(each.tool_calls for each in episodes)),
            "episodes/attempts": float(sum(each.attempts for each in episodes)),
            "episodes/prompt_tokens": float(sum(each.prompt_tokens for each in episodes)),
            "episodes/completion_tokens": float(sum(each.completion_tokens for each in episodes)),
            "episodes/endpoint_retries": float(sum(each.retries for each in episodes)),
            "episodes/policy_seconds": sum(each.seconds["policy"] for each in episodes),
            "episodes/dropped": float(self.result.dropped),
        }


class StepPlayer:
    """Plays steps, and writes down each episode as it ends.

    Nobody else uses the job meanwhile; `stop` is set when a step is given up, for those who wait for an endpoint.
    """

    def __init__(
        self,
        options: StepOptions,
        *,
        job: Job,
        writer: RunWriter,
        emit: Emit,
        interrupt: Interrupt,
        stop: threading.Event,
    ) -> None:
        self._options = options
        self.job = job
        self._writer = writer
        self._emit = emit
        self._interrupt = interrupt
        self._stop = stop
        self._judge = Judge.on(job.connection, require_isolated=options.require_isolated)
        self._cache = VerdictCache(options.cache)
        self._kept = KeptProblems(writer, options.episode.prompting)

    def play(
        self, step: int, problems: Sequence[Problem], model: Player, *, on_end: Callable[[Episode], None] | None = None
    ) -> PlayedStep:
        return self.play_episodes(self._episodes(step, problems), model, step=step, on_end=on_end)

    def play_episodes(
        self,
        episodes: Sequence[Episode],
        model: Player,
        *,
        step: int | None = None,
        known: int = 0,
        on_end: Callable[[Episode], None] | None = None,
    ) -> PlayedStep:
        """Plays episodes of one step, or of none.

        Args:
            step: The step they belong to; None outside of steps, where the first wish to stop lets no more begin.

        Raises:
            SandrlError: What no episode can go on with, such as refused credentials, or a reward policy that failed.
        """
        options = self._options
        ended: list[Episode] = []
        began = time.monotonic()

        place = Place(self.job.id, step=step, attempt=options.attempt)

        def keep(episode: Episode, seconds: float) -> None:
            ended.append(episode)
            self.job.spending.finish()
            result = result_of(episode)
            problem = self._kept.digest_of(episode.problem)
            self._writer.append(episode_row(episode, result, place, seconds=seconds, problem=problem))
            self._emit(CompletionFinished(result, finished=known + len(ended), of=known + len(episodes)))
            if on_end is not None:
                on_end(episode)

        sandboxes = SharedJob(
            self.job,
            self._judge,
            options.scoring if step is None else replace(options.scoring, tags=(step_tag(step),)),
            self._cache,
            timeout_seconds=options.scoring.limits.timeout_seconds,
            emit=self._emit,
        )
        with sandboxes:
            try:
                unfinished = play_all(
                    episodes,
                    model,
                    sandboxes,
                    options.episode,
                    concurrency=options.concurrency,
                    interrupt=self._interrupt,
                    on_end=keep,
                    may_begin=lambda playing: self.job.spending.limit(options.concurrency) > playing,
                    finishes_all=step is not None,
                    on_request=lambda left: self._emit(StopRequested(self._interrupt.level is Level.CANCEL, left)),
                )
            finally:
                if len(ended) < len(episodes):
                    self._stop.set()
                    sandboxes.cancel()
        self._write_opinions(sandboxes.opinions, ended, place)
        raise_for_rewards([result_of(episode) for episode in ended])
        return _played(step or 0, ended, unfinished, time.monotonic() - began)

    # Writes down and tells the opinions on what the episodes ended with; those on earlier attempts are dropped.
    def _write_opinions(self, opinions: Sequence[OpinionFinished], episodes: Sequence[Episode], place: Place) -> None:
        last = {each.number: result_of(each).code for each in episodes if not each.loss}
        told: set[int] = set()
        for event in opinions:
            index, code = event.result.index, event.result.code
            if index not in told and index in last and last[index] == code:
                told.add(index)
                self._writer.append(opinion_row(event, place))
                self._emit(event)

    def _episodes(self, step: int, problems: Sequence[Problem]) -> list[Episode]:
        samples = range(1, self._options.samples + 1)
        pairs = [(problem, sample) for problem in problems for sample in samples]
        return [
            new_episode(number, f"step-{step}/{number}/{problem.task_id}#{sample}", problem, self._options.episode)
            for number, (problem, sample) in enumerate(pairs)
        ]


ProblemT = TypeVar("ProblemT", Problem, str)


def problems_of(step: int, count: int, problems: Sequence[ProblemT]) -> list[ProblemT]:
    """The problems of a step, or their names: the next ones in order, and from the first again after the last."""
    return [problems[(step * count + place) % len(problems)] for place in range(count)]


def _played(step: int, episodes: Sequence[Episode], unfinished: int, seconds: float) -> PlayedStep:
    results = [result_of(episode) for episode in episodes]
    rewards = tuple(result.reward for result in results if result.reward is not None)
    passed = sum(result.is_pass for result in results)
    result = StepResult(step, rewards, passed, len(results) - len(rewards), seconds)
    first_loss = next((result.detail for result in results if result.reward is None), "")
    return PlayedStep(tuple(episodes), unfinished, result, first_loss)
