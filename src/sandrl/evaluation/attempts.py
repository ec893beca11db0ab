"""Evaluates a model that may answer several times: after a failed answer it receives feedback and answers again.

The attempts are those of episodes (`sandrl.rollouts`), so the feedback is that of training: the results of the checks
that the prompt shows, and of the others only that one failed. The last answer counts. A completion is an episode, so
pass@k is computed over completions, not over attempts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from sandrl.config.episodes import CONCURRENCY, HELD_BY_AN_EPISODE
from sandrl.config.eval import EvalConfig
from sandrl.evaluation.answers import EvalSample
from sandrl.events import Emit, JobStarted
from sandrl.models import Model
from sandrl.models.gathering import GatheringModel
from sandrl.models.in_process import InProcessModel
from sandrl.problems import Problem
from sandrl.problems.prompting import Prompting
from sandrl.rewards.calibration import packages_of
from sandrl.rewards.document import result_document, to_line
from sandrl.rewards.judge import judge_version
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.request import RewardRun
from sandrl.rewards.scored_run import Resumed, opened_out
from sandrl.rewards.summary import LONGER_ANSWERS, ScoreReport, count_dependent, truncation_warning
from sandrl.rewards.weak_checks import warn_of_weak_checks
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode
from sandrl.rollouts.records import result_of
from sandrl.rollouts.steps import StepOptions, open_player
from sandrl.runs import RunReader, counted_rows
from sandrl.runs.session import RunPlan, open_run
from sandrl.runs.summary import summarise
from sandrl.sandboxes import Interrupt, SandboxRequest, new_job_id
from sandrl.settings import Settings


def evaluate_attempts(
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
    resumed: Resumed | None,
    stop: threading.Event,
    emit: Emit,
    interrupt: Interrupt,
) -> RewardRun:
    """Has a model answer in attempts, and leaves a run directory.

    The first request to stop lets no more completions begin.
    """
    sandboxes = SandboxRequest.of(config, command, f"model:{model.name}")
    allowance = sandboxes.allowance(settings, run=None if resumed is None else resumed.path)
    connection = sandboxes.connect(settings, needed=packages_of(problems.values()), emit=emit)
    scoring = ScoreOptions.of(config)
    plan = RunPlan(
        command=command,
        job_id=new_job_id(),
        options={**config.document(), **connection.facts(), **allowance.facts, **facts},
        changes={"budget": config.budget, **allowance.facts},
        versions={**versions, "judge": judge_version()},
        runs_dir=config.runs_dir,
        name=config.run_name,
        resume=None if resumed is None else resumed.path,
        report_to=config.report_to,
        log_level=config.log_level,
    )
    results = [] if resumed is None else list(resumed.results)
    actor = GatheringModel(model, seed=config.seed, stop=stop) if isinstance(model, InProcessModel) else model
    with open_run(plan, settings, interrupt=interrupt, emit=emit) as session:
        recorder = session.recorder()
        tell = session.told(recorder)
        warn_of_weak_checks(problems.values(), settings.state_dir, tell)
        options = StepOptions(
            EpisodeOptions(max_attempts=config.max_attempts, prompting=prompting, extraction=config.extract),
            scoring,
            samples=1,
            require_isolated=config.require_isolated,
            cache=config.cache,
            concurrency=_at_once(config, len(wanted)),
            attempt=session.attempt,
        )
        player = open_player(
            session,
            sandboxes,
            connection,
            options,
            problems,
            command=command,
            allowance=allowance,
            interrupt=interrupt,
            emit=tell,
            stop=stop,
        )
        tell(JobStarted(player.job.id, total, options.concurrency))
        episodes = [new_episode(each.index, each.id, each.problem, options.episode) for each in wanted]
        out = None if config.out is None else session.stack.enter_context(opened_out(config.out))

        def keep(episode: Episode) -> None:
            if out is not None:
                out.append(to_line(result_document(result_of(episode))))

        played = player.play_episodes(episodes, actor, known=len(results), on_end=keep)
        results += [result_of(episode) for episode in played.episodes]
        player.job.close()
        session.is_complete = interrupt.is_exhausted and len(results) == total
        counted = counted_rows(RunReader(session.writer.path))[0].metrics if resumed and results else {}
        recorder.log(0, {**counted, **played.metrics})
    results.sort(key=lambda result: result.index)
    summary = summarise(results, opinion_rate=config.second_opinion, hash_seed_dependent=count_dependent(results))
    if (warning := truncation_warning(summary, hint=LONGER_ANSWERS)) is not None:
        emit(warning)
    report = ScoreReport(
        player.job.id, tuple(results), summary, total - len(results), interrupt.signal_number, session.held()
    )
    return RewardRun(
        config,
        report,
        session.writer.path,
        session.cleanup_error(),
        exhausted=session.exhausted if interrupt.is_exhausted else "",
        can_resume=True,
    )


# How many episodes are played at once: never so many that all wait for a sandbox to be judged in.
def _at_once(config: EvalConfig, completions: int) -> int:
    most = min(config.concurrency or CONCURRENCY, config.batch_size or CONCURRENCY)
    if config.max_sandboxes is not None:
        most = min(most, config.max_sandboxes // HELD_BY_AN_EPISODE)
    return max(min(most, completions), 1)
