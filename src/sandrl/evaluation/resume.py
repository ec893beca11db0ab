"""The request for an evaluation, a new one or one that is resumed with the answers and results that its run has.

Options that affect an answer or its verdict are taken from the run, so `--resume RUN` needs no other option, and an
evaluation never mixes two kinds of answers. Where and how fast the answers are generated may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.config.eval import EvalConfig
from sandrl.config.layers import resolve
from sandrl.config.parts import EpisodePart, MappingPart, QualityPart, QuestionPart, ScoringPart
from sandrl.config.words import TINY
from sandrl.errors import UsageError
from sandrl.evaluation.answers import EvalSample
from sandrl.evaluation.request import EvalRequest
from sandrl.events.results import Status
from sandrl.rewards.scored_run import ResumedRun
from sandrl.runs import AnswerRow, RunReader, resumption
from sandrl.runs.resumption import check_unchanged, run_to_resume
from sandrl.scoring.records import result_of
from sandrl.settings import Settings

COMMAND = "eval"

# What decides an answer, its verdict and its reward.
_OF_THE_RUN = (
    *("model", "problems", "num_problems", "samples", "temperature", "max_tokens", "use_model_sampling"),
    *("seed", "packages"),
    *EpisodePart.model_fields,
    *QuestionPart.model_fields,
    *MappingPart.model_fields,
    *QualityPart.model_fields,
    *(name for name in ScoringPart.model_fields if name not in ("retries", "caching")),
)
_TINY_PROBLEMS = f"{TINY}:test"
# It has no other limit than its context, and its answers have fewer than 48.
_TINY_TOKENS = 512


def make_request(
    given: Mapping[str, Any],
    settings: Settings,
    *,
    file: Mapping[str, Any] | None = None,
    resume: str | None = None,
) -> EvalRequest:
    """Makes a request of what was given; `resume` is a run's name, its directory, or `latest`.

    An evaluation that goes on must not change (`UsageError`).
    """
    file = file or {}
    asked = {**file, **given}
    if resume is None:
        defaults: dict[str, Any] = {} if asked.get("base_url") else {"model": TINY}
        if {**defaults, **asked}.get("model") == TINY and not asked.get("base_url"):
            defaults |= {"problems": _TINY_PROBLEMS, "max_tokens": _TINY_TOKENS}
        return EvalRequest(resolve(EvalConfig, defaults, file, given))
    path = run_to_resume(resume, given, file, settings)
    return EvalRequest(resumed_config(path, file, given), path)


@dataclass(frozen=True, slots=True)
class PreviousResults:
    """What a run has of its evaluation: results, and by position the answers without a result that stays."""

    resumed: ResumedRun
    answers: Mapping[int, AnswerRow]

    def missing(self, wanted: Sequence[EvalSample]) -> list[EvalSample]:
        have = {result.index for result in self.resumed.results} | self.answers.keys()
        return [each for each in wanted if each.index not in have]


def resumed_config(path: Path, *layers: Mapping[str, Any]) -> EvalConfig:
    """What a run was asked to do, with what is asked for now and may be another.

    Raises:
        InputError: If it is no evaluation.
        UsageError: If something is asked for that the run does otherwise.
    """
    run = RunReader(path)
    asked = resumption.resumed_config(EvalConfig, run, COMMAND, _OF_THE_RUN, *layers)
    if run.config.options.get("base_url") is None and asked.base_url is not None:
        message = f"base_url: the run {path.name!r} used a model in its own process; leave this option out"
        raise UsageError(message, fields=("base_url",))
    return asked


def find_previous(path: Path, problems: str, wanted: Sequence[EvalSample], digest: str) -> PreviousResults:
    """What a run has of its evaluation; `UsageError` if the problems have changed."""
    check_unchanged(path, digest, problems, noun="evaluation")
    reader = RunReader(path)
    answers = {row.index: row for row in reader.answers().rows if row.text is not None}
    results = {row.index: result_of(row).without_output() for row in reader.each_trajectory()}
    stay = tuple(
        result for result in results.values() if not (result.status.is_lost or result.status is Status.REWARD_ERROR)
    )
    scored = {result.index for result in stay}
    return PreviousResults(
        ResumedRun(path, stay),
        {each.index: answers[each.index] for each in wanted if each.index in answers.keys() - scored},
    )
