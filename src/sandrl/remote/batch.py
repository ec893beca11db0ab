"""Scores a batch of completions with a service, with the same events and ways to stop as a batch scored locally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import asdict, replace
from queue import Empty, SimpleQueue
from typing import Any

from sandrl.answers.extraction import extract_code
from sandrl.errors import UsageError
from sandrl.events import CompletionFinished, Emit, StopRequested
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.verdict import with_answer
from sandrl.problems import Completion, Problem
from sandrl.remote.client import ServiceClient
from sandrl.sandboxes import Interrupt, Level
from sandrl.scoring.batch import OnResult
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.policies import POLICIES
from sandrl.scoring.summary import ScoreReport

_LOOK_SECONDS = 0.1
# Options that were applied where the problems were read.
_APPLIED: dict[str, Any] = {"prelude": None, "max_cases": None, "fields": (), "language": None}


def request_options(scoring: ScoreOptions, *, require_isolated: bool = False) -> dict[str, Any]:
    """What a service is asked, whatever it was started to: all options of scoring, by their names in files.

    Raises:
        UsageError: If the reward is a function of one's own, which a service does not run.
    """
    reward = next((name for name, policy in POLICIES.items() if policy is scoring.policy), None)
    if reward is None:
        message = f"`reward` is a function, but a service accepts only {' and '.join(POLICIES)}"
        raise UsageError(message, fields=("reward",))
    limits = scoring.limits
    return {
        "extract": scoring.extraction.value,
        "timeout_seconds": None if limits.is_extended else limits.timeout_seconds,
        "check_timeout_seconds": limits.check_timeout_seconds,
        "compile_timeout_seconds": limits.compile_timeout_seconds,
        "max_output_bytes": limits.max_output_bytes,
        "max_file_bytes": limits.max_file_bytes,
        "all_checks": scoring.all_checks,
        "require_isolated": require_isolated,
        "caching": scoring.caching,
        "retries": scoring.retries,
        "hash_seed": limits.hash_seed,
        "hash_seeds": 1,
        "second_opinion": 0.0,
        "reward": reward,
        **asdict(scoring.components),
        **_APPLIED,
    }


def score_with_service(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    client: ServiceClient,
    options: dict[str, Any],
    scoring: ScoreOptions,
    *,
    emit: Emit,
    interrupt: Interrupt,
    on_result: OnResult,
) -> ScoreReport:
    """Scores completions as `sandrl.score` does.

    Of `interrupt`, the first request to stop ends new requests, the second cancels those in flight.

    Raises:
        SandrlError: If the service refuses a row, or does not answer.
    """
    asked = [index for index, each in enumerate(completions) if not each.loss]
    names = dict.fromkeys(completions[index].task_id for index in asked)
    arrived: SimpleQueue[ScoredCompletion] = SimpleQueue()
    results: dict[int, ScoredCompletion] = {}

    def take(result: ScoredCompletion) -> None:
        completion = completions[result.index]
        code = extract_code(completion, problems[completion.task_id], scoring.extraction)
        results[result.index] = result = with_answer(replace(result, id=completion.id, code=code), completion)
        on_result(result)
        emit(CompletionFinished(result, finished=len(results), of=len(completions)))

    for index, completion in enumerate(completions):
        if completion.loss:
            total = problems[completion.task_id].check_count
            lost = (None, Status.INFRASTRUCTURE, None, 0, total, 0.0, None, completion.loss)
            take(ScoredCompletion(index, completion.id, completion.task_id, *lost))
    level = Level.NONE
    report = client.begin_scoring(
        [completions[index] for index in asked],
        # A task is a directory of its machine: the service has its own.
        None if any(problems[name].task is not None for name in names) else {name: problems[name] for name in names},
        options=options,
        on_result=arrived.put,
        wants_more=lambda: not interrupt.level,
    )
    while not (report.done() and arrived.empty()):
        with suppress(Empty):
            arriving = arrived.get(timeout=_LOOK_SECONDS)
            take(replace(arriving, index=asked[arriving.index]))
        if interrupt.level > level:
            level = interrupt.level
            emit(StopRequested(level is Level.CANCEL, len(completions) - len(results)))
            if level is Level.CANCEL:
                report.cancel()
    with suppress(CancelledError):
        report.result()
    ordered = tuple(results[index] for index in sorted(results))
    unfinished = len(completions) - len(ordered)
    return ScoreReport("", ordered, unfinished, interrupt.signal_number)
