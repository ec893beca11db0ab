"""Evaluates a model by episodes: it works with tools, or answers again after a failed answer.

The episodes are those of training (`sandrl.rollouts`), and so are the tools, and the feedback on attempts: the results
of the checks that the prompt shows, and of the others only that one failed. The last answer counts. A completion is an
episode, so pass@k is computed over completions, not over attempts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from sandrl.config.episodes import at_once
from sandrl.config.eval import EvalConfig
from sandrl.evaluation.answers import EvalSample
from sandrl.events import Emit, JobStarted
from sandrl.models import Model
from sandrl.models.in_process import GatheringModel, InProcessModel
from sandrl.problems import Problem
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.rewards.reward_run import RewardRun
from sandrl.rewards.scored_run import ResumedRun, open_job_run
from sandrl.rollouts.episodes import Episode, EpisodeOptions, check_player, has_tasks, new_episode
from sandrl.rollouts.results import result_of
from sandrl.rollouts.steps import EPISODE_SECONDS, StepPlayer
from sandrl.sandboxes import Interrupt
from sandrl.scoring.document import result_document, to_line
from sandrl.settings import Settings


def evaluate_episodes(
    config: EvalConfig,
    model: Model,
    wanted: Sequence[EvalSample],
    problems: Mapping[str, Problem],
    prompting: Prompting,
    settings: Settings,
    *,
    command: str,
    total: int,
    facts: Mapping[str, JsonValue],
    versions: Mapping[str, str],
    resumed: ResumedRun | None,
    quality: QualityFilter | None,
    stop: threading.Event,
    emit: Emit,
    interrupt: Interrupt,
) -> RewardRun:
    """Has a model play episodes, and leaves a run directory.

    The first request to stop lets no more completions begin.
    """
    results = [] if resumed is None else list(resumed.results)
    options = EpisodeOptions.of(config, prompting)
    check_player(model, problems.values(), options)
    actor = GatheringModel(model, seed=config.seed, stop=stop) if isinstance(model, InProcessModel) else model
    with open_job_run(
        config,
        problems,
        settings,
        command=command,
        tags=(command, f"model:{model.name}"),
        facts=facts,
        versions=versions,
        resume=None if resumed is None else resumed.path,
        quality=quality,
        out=config.out,
        episode_seconds=EPISODE_SECONDS,
        emit=emit,
        interrupt=interrupt,
    ) as run:
        job, session = run.job, run.session
        assert job is not None, "a service runs no episodes"
        # Before the job ends: who waits for an endpoint must not come back to a job that is over.
        session.stack.callback(stop.set)
        count = min(config.batch_size or len(wanted), len(wanted))
        concurrency = max(at_once(config, count, has_tasks=has_tasks(problems.values())), 1)
        run.tell(JobStarted(job.id, total, concurrency))
        player = StepPlayer(
            config,
            options,
            job=job,
            writer=session.writer,
            emit=run.tell,
            interrupt=interrupt,
            stop=stop,
            concurrency=concurrency,
            attempt=session.attempt,
        )
        episodes = [new_episode(each.index, each.id, each.problem, options) for each in wanted]

        def keep(episode: Episode) -> None:
            if run.out is not None:
                run.out.append(to_line(result_document(result_of(episode))))

        played = player.play_episodes(episodes, actor, known=len(results), on_end=keep)
        results += [result_of(episode) for episode in played.episodes]
        run.end(len(results), total, is_resumed=resumed is not None, metrics=played.metrics)
    return run.reported(config, results, total, emit=emit)
