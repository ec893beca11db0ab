"""One step of episodes: each member of a group runs an episode of each problem, all at the same time.

A step does not depend on its purpose. The caller, which examines a model or trains one, gets the episodes when the last
one is in the run directory, and decides what to measure and what to do next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from sandrl.config.episodes import EpisodesConfig
from sandrl.config.eval import EvalConfig
from sandrl.events import CompletionFinished, Emit, OpinionFinished, StopRequested
from sandrl.judge.judge import Judge
from sandrl.models.client import Stopped
from sandrl.models.protocol import Player
from sandrl.problems import Problem
from sandrl.problems.problem_records import KeptProblems
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode, play
from sandrl.rollouts.results import PlayedStep, episode_row, result_of
from sandrl.rollouts.shared_job import SharedJob
from sandrl.runs import RunWriter
from sandrl.sandboxes import Interrupt, Job, Level, step_tag
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.ranking import GroupRanking, episode_text
from sandrl.scoring.records import Place, opinion_row
from sandrl.scoring.summary import raise_for_rewards

# How long an episode waits that does not fit into a budget, if none ends meanwhile.
_LOOK_SECONDS = 0.2

# Sandboxes of an episode live as long as it does; what a model takes for an answer is not known before.
EPISODE_SECONDS = 3600.0


class StepPlayer:
    """Plays steps, and writes down each episode as it ends.

    Nobody else uses the job meanwhile. `attempt` is more than 1 in a run that was resumed; `stop` is set when a step
    is given up, for those who wait for an endpoint.
    """

    def __init__(
        self,
        config: EpisodesConfig | EvalConfig,
        options: EpisodeOptions,
        *,
        job: Job,
        writer: RunWriter,
        emit: Emit,
        interrupt: Interrupt,
        stop: threading.Event,
        concurrency: int,
        attempt: int = 1,
    ) -> None:
        self._options = options
        self._scoring = ScoreOptions.of(config)
        self._concurrency = concurrency
        self._attempt = attempt
        self.job = job
        self._writer = writer
        self._emit = emit
        self._interrupt = interrupt
        self._stop = stop
        self._judge = Judge.on(job.connection, require_isolated=config.require_isolated)
        self._cache = VerdictCache(config.cache)
        self._kept = KeptProblems(writer, options.prompting)
        ranking = self._scoring.ranking
        self._ranking = None if ranking is None else GroupRanking(ranking, interrupt, emit)

    def play(
        self,
        step: int,
        problems: Sequence[Problem],
        samples: int,
        model: Player,
        *,
        first: int = 0,
        on_end: Callable[[Episode], None] | None = None,
    ) -> PlayedStep:
        """Plays episodes of problems; those of a step that are played together before have the numbers below `first`.

        Raises:
            SandrlError: What no episode can go on with, such as refused credentials, or a reward policy that failed.
        """
        pairs = [(problem, sample) for problem in problems for sample in range(1, samples + 1)]
        episodes = [
            new_episode(number, f"step-{step}/{number}/{problem.task_id}#{sample}", problem, self._options)
            for number, (problem, sample) in enumerate(pairs, first)
        ]
        return self.play_episodes(episodes, model, step=step, known=first, on_end=on_end)

    def play_episodes(
        self,
        episodes: Sequence[Episode],
        model: Player,
        *,
        step: int | None = None,
        known: int = 0,
        on_end: Callable[[Episode], None] | None = None,
    ) -> PlayedStep:
        """Plays episodes of one step, or of none, where the first wish to stop lets no more begin.

        Raises:
            SandrlError: What no episode can go on with, such as refused credentials, or a reward policy that failed.
        """
        scoring = self._scoring
        ended: list[Episode] = []
        # Episodes that wait for the others of their group, and their seconds.
        unranked: list[tuple[Episode, float]] = []
        told = known
        began = time.monotonic()
        place = Place(self.job.id, step=step, attempt=self._attempt)

        def end(episode: Episode, seconds: float) -> None:
            ended.append(episode)
            self.job.spending.finish()
            if self._ranking is None:
                keep(episode, seconds)
            else:
                unranked.append((episode, seconds))

        def keep(episode: Episode, seconds: float) -> None:
            nonlocal told
            told += 1
            result = result_of(episode)
            problem = self._kept.digest_of(episode.problem)
            self._writer.append(episode_row(episode, result, place, seconds=seconds, problem=problem))
            self._emit(CompletionFinished(result, finished=told, of=known + len(episodes)))
            if on_end is not None:
                on_end(episode)

        sandboxes = SharedJob(
            self.job,
            self._judge,
            scoring if step is None else replace(scoring, tags=(step_tag(step),)),
            self._cache,
            timeout_seconds=scoring.limits.timeout_seconds,
            emit=self._emit,
            counts=False,
        )
        with sandboxes:
            try:
                unfinished = _play_all(
                    episodes,
                    model,
                    sandboxes,
                    self._options,
                    concurrency=self._concurrency,
                    interrupt=self._interrupt,
                    on_end=end,
                    may_begin=lambda playing: self.job.spending.limit(self._concurrency) > playing,
                    finishes_all=step is not None,
                    on_request=lambda left: self._emit(StopRequested(self._interrupt.level is Level.CANCEL, left)),
                )
            finally:
                if len(ended) < len(episodes):
                    self._stop.set()
                    sandboxes.cancel()
        if self._ranking is not None:
            self._rank(self._ranking, [episode for episode, _ in unranked], is_whole=not unfinished)
            for episode, seconds in unranked:
                keep(episode, seconds)
        self._write_opinions(sandboxes.opinions, ended, place)
        raise_for_rewards([result_of(episode) for episode in ended])
        return PlayedStep(step or 0, tuple(ended), unfinished, time.monotonic() - began)

    def _rank(self, ranking: GroupRanking, episodes: Sequence[Episode], *, is_whole: bool) -> None:
        results = [result_of(episode) for episode in episodes]
        if is_whole:
            texts = [episode_text([message.to_row() for message in episode.messages]) for episode in episodes]
            results = ranking.ranked(results, texts, {each.problem.task_id: each.problem for each in episodes})
        else:
            results = [ranking.unranked(result) for result in results]
        for episode, result in zip(episodes, results, strict=True):
            if not episode.loss:
                episode.result = result

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


ProblemT = TypeVar("ProblemT", Problem, str)


def problems_of(step: int, count: int, problems: Sequence[ProblemT]) -> list[ProblemT]:
    """The problems of a step, or their names: the next ones in order, and from the first again after the last."""
    return [problems[(step * count + place) % len(problems)] for place in range(count)]


def _play_all(
    episodes: Sequence[Episode],
    model: Player,
    place: SharedJob,
    options: EpisodeOptions,
    *,
    concurrency: int,
    interrupt: Interrupt,
    on_end: Callable[[Episode, float], None],
    on_request: Callable[[int], None],
    may_begin: Callable[[int], bool],
    finishes_all: bool,
) -> int:
    # Plays episodes, each in a thread, and returns how many were given up. `on_end` gets each with its seconds, in this
    # thread; `on_request` gets the number of running ones. The threads are daemons: nobody waits for an episode that
    # is given up, even if an endpoint keeps its socket open. With `finishes_all`, the first request to stop also lets
    # those be finished that have not begun; `may_begin` says whether one more may begin beside so many.
    waiting: SimpleQueue[Episode] = SimpleQueue()
    for episode in episodes:
        waiting.put(episode)
    ended: SimpleQueue[tuple[Episode, float] | Exception | None] = SimpleQueue()
    turn = threading.Condition()
    playing = 0

    def is_over() -> bool:
        return interrupt.is_exhausted or bool(interrupt.level and not finishes_all)

    def begin() -> bool:
        nonlocal playing
        with turn:
            while not is_over() and not may_begin(playing):
                turn.wait(_LOOK_SECONDS)
            may = not is_over()
            playing += may
            return may

    def leave() -> None:
        nonlocal playing
        with turn:
            playing -= 1
            turn.notify_all()
        if is_over():
            ended.put(None)

    def work() -> None:
        try:
            while True:
                episode = waiting.get_nowait()
                if not begin():
                    waiting.put(episode)
                    return
                began = time.monotonic()
                try:
                    play(episode, model, place, options)
                    ended.put((episode, time.monotonic() - began))
                finally:
                    leave()
        except (Empty, Stopped):
            return
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread that waits for it
            ended.put(error)

    def ring() -> None:
        interrupt.waker().add_done_callback(lambda _: ended.put(None))

    seen, left = Level.NONE, len(episodes)
    ring()
    for _ in range(min(concurrency, left)):
        threading.Thread(target=work, name="sandrl-episode", daemon=True).start()
    while left:
        if interrupt.level > seen:
            seen = interrupt.level
            on_request(left if finishes_all else playing)
            if seen is Level.CANCEL:
                return left
            if is_over():
                place.withdraw_trials()
        if is_over() and not playing and ended.empty():
            return left
        end = ended.get()
        if end is None:
            ring()
        elif isinstance(end, Exception):
            raise end
        else:
            left -= 1
            on_end(*end)
    return 0
