"""Going on with an evaluation: what its run was asked to do, and what of it is there.

The design decision: what decides an answer and its verdict is the run's own, so that `--resume RUN` is all there is to
say, and no evaluation is made of two kinds of answers. Where and how fast they are found may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from sandrl.config.parts import ScoringPart
from sandrl.config.scoring import ScoredRunConfig
from sandrl.errors import InputError, UsageError
from sandrl.evaluation.answers import Wanted
from sandrl.evaluation.request import EvalRequest
from sandrl.events.results import ScoredCompletion, Status
from sandrl.models import Sampling
from sandrl.rewards.records import result_of
from sandrl.rewards.scored_run import Resumed
from sandrl.runs import AnswerRow, RunReader
from sandrl.runs.resumption import check_command, check_unchanged

COMMAND = "eval"

_OF_VERDICTS = ("problems", *(name for name in ScoringPart.model_fields if name not in ("retries", "caching")))


class _Saved(BaseModel):
    """What of a run's options decides its answers and their verdicts."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    base_url: str | None
    num_problems: int | None
    samples: int
    temperature: float
    max_tokens: int
    show_tests: int
    seed: int
    runtime_kind: str
    runtime_image: str

    def scoring(self, options: Mapping[str, JsonValue], asked: ScoredRunConfig) -> ScoredRunConfig:
        # The image of one runtime means nothing to the other.
        is_same = asked.runtime.value in ("auto", self.runtime_kind)
        image = asked.image or (self.runtime_image if is_same else None)
        kept = {name: options[name] for name in (*_OF_VERDICTS, "packages") if name in options}
        return ScoredRunConfig.model_validate({**asked.model_dump(), **kept, "image": image})


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run has of its evaluation.

    Attributes:
        resumed: The run, and the results that stay.
        answers: The answers that are there and have no result that stays, by the position of their completion.
    """

    resumed: Resumed
    answers: Mapping[int, AnswerRow]

    def missing(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """What is still to be asked for."""
        have = {result.index for result in self.resumed.results} | self.answers.keys()
        return [each for each in wanted if each.index not in have]


def saved_request(path: Path, request: EvalRequest) -> EvalRequest:
    """What a run was asked to do, with what may be another now.

    Args:
        path: The run's directory.
        request: What is asked for now.

    Raises:
        InputError: If it is no evaluation.
        UsageError: If something is asked for that the run does otherwise.
    """
    config = RunReader(path).config
    check_command(path, config.command, COMMAND)
    try:
        saved = _Saved.model_validate(config.options)
        scoring = saved.scoring(config.options, request.scoring)
    except ValidationError as error:
        raise InputError("is a run of another version of sandrl", path=path) from error
    if saved.base_url is None and request.base_url is not None:
        raise UsageError(f"the run {path.name!r} asked a model in its own process: leave out --base-url")
    found = replace(
        request,
        scoring=scoring,
        model=saved.model,
        base_url=request.base_url or saved.base_url,
        num_problems=saved.num_problems,
        samples=saved.samples,
        sampling=Sampling(saved.temperature, saved.max_tokens),
        show_tests=saved.show_tests,
        seed=saved.seed,
    )
    _refuse_changes(path, request, found)
    return found


def find_earlier(path: Path, request: EvalRequest, wanted: Sequence[Wanted], digest: str) -> Earlier:
    """What a run has of its evaluation.

    Args:
        path: Its directory.
        request: What it was asked to do.
        wanted: All of its completions.
        digest: Stands for the content of the problems now.

    Raises:
        UsageError: If the problems have changed.
    """
    check_unchanged(path, digest, request.scoring.problems, noun="evaluation")
    reader = RunReader(path)
    answers = {row.index: row for row in reader.answers().rows if row.text is not None}
    results = {row.index: result_of(row) for row in reader.trajectories().rows}
    stay = tuple(result for result in results.values() if _stays(result))
    scored = {result.index for result in stay}
    return Earlier(
        Resumed(path, stay),
        {each.index: answers[each.index] for each in wanted if each.index in answers.keys() - scored},
    )


def _stays(result: ScoredCompletion) -> bool:
    """Whether a result is the last word: no model, sandbox or reward function has failed it."""
    return result.status not in (Status.INFRASTRUCTURE, Status.REWARD_ERROR)


def _refuse_changes(path: Path, asked: EvalRequest, saved: EvalRequest) -> None:
    """Refuses what is said on the command line and is another in the run; what is not said is as it was."""
    usual = EvalRequest(ScoredRunConfig())
    for old, now, default in (
        (saved, asked, usual),
        (saved.sampling, asked.sampling, usual.sampling),
    ):
        for each in fields(old):
            _refuse_change(path, each.name, *(getattr(one, each.name) for one in (old, now, default)))
    for name in _OF_VERDICTS:
        _refuse_change(path, name, *(getattr(one.scoring, name) for one in (saved, asked, usual)))


def _refuse_change(path: Path, name: str, saved: Any, asked: Any, usual: Any) -> None:
    is_option = name not in ("scoring", "sampling", "resume")
    if is_option and asked not in (saved, usual):
        raise UsageError(
            f"the run {path.name!r} has {name.replace('_', ' ')} {saved}, not {asked}",
            hint="--resume takes it from the run: leave it out, or begin a new evaluation",
        )
