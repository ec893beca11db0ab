"""One `sandrl eval`: a model is asked, and what it answers is scored like any completion.

The design decision: while answers are judged, the next ones are generated. Nothing else is new here: the prompts are
those of training, and a run of answers is scored by what scores a file of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice

from pydantic import JsonValue

from sandrl.config.scoring import ScoredRunConfig
from sandrl.config.words import TINY
from sandrl.evaluation.answers import Answers, all_wanted, in_order
from sandrl.evaluation.request import EvalRequest, EvalRun
from sandrl.evaluation.resume import COMMAND, find_earlier, saved_request
from sandrl.events import Emit, PolicyAsked, ignore
from sandrl.models import Endpoint, EndpointModel, Model, libraries
from sandrl.models.in_process import InProcessModel
from sandrl.problems import Completion, Problem, load_problems
from sandrl.rewards import score_run
from sandrl.runs import RunWriter, find_run
from sandrl.runs.resumption import PROBLEMS_DIGEST, content_digest
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from sandrl.tiny import tiny_policy


class _Closed(threading.Event):
    """Set once no answer is wanted any more: by whoever asks, or by the user's wish to stop."""

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__()
        self._interrupt = interrupt

    def is_set(self) -> bool:
        """Whether no answer is wanted any more."""
        return super().is_set() or bool(self._interrupt.level)


def run_eval(
    request: EvalRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> EvalRun:
    """Evaluates a model and leaves a run directory.

    Args:
        request: Which model, and how.
        settings: What the environment says.
        emit: Told what happens.
        interrupt: The user's wish to stop.

    Raises:
        UsageError: If an option or the input cannot be used, or something that it takes is not installed.
        ServiceError: If the hub, the endpoint, the runtime or the disk does not do its part.
    """
    interrupt = interrupt or Interrupt()
    request.check()
    path = None
    if request.resume is not None:
        path = find_run(request.resume, settings.state_dir, request.scoring.runs_dir or settings.runs_dir)
        request = saved_request(path, request)
    problems = dict(islice(_loaded(request.scoring).items(), request.num_problems))
    digest = content_digest([asdict(problem) for problem in problems.values()])
    wanted = all_wanted(problems, request.answers)
    earlier = None if path is None else find_earlier(path, request, wanted, digest)
    closed = _Closed(interrupt)
    model = _model(request, settings, closed, emit)
    emit(PolicyAsked(model.name, len(problems), request.answers))

    def batches(writer: RunWriter) -> Iterable[Sequence[Completion]]:
        return Answers(
            model,
            wanted if earlier is None else earlier.missing(wanted),
            [] if earlier is None else in_order(wanted, earlier.answers),
            show_tests=request.show_tests,
            seed=request.seed * len(wanted),
            writer=writer,
            closed=closed,
        ).batches()

    try:
        run = score_run(
            request.scoring,
            batches,
            problems,
            settings,
            total=len(wanted),
            command=COMMAND,
            tags=(COMMAND, f"model:{model.name}"),
            facts={**_options(request, model), PROBLEMS_DIGEST: digest},
            versions={} if request.base_url else libraries.versions(),
            numbers={each.id: each.index for each in wanted},
            resumed=None if earlier is None else earlier.resumed,
            emit=emit,
            interrupt=interrupt,
        )
    finally:
        closed.set()
        model.close()
    return EvalRun(model.name, len(problems), request.answers, request.sampling, run)


def _loaded(scoring: ScoredRunConfig) -> Mapping[str, Problem]:
    return load_problems(scoring.problems, prelude=scoring.prelude).problems


def _model(request: EvalRequest, settings: Settings, closed: threading.Event, emit: Emit) -> Model:
    if request.base_url is not None:
        endpoint = Endpoint(
            request.base_url,
            settings.openai_api_key,
            timeout_seconds=request.request_timeout_seconds,
            retries=request.request_retries,
        )
        model = EndpointModel(endpoint, request.model, request.sampling, stop=closed, batch_size=request.batch_size)
        model.check()
        return model
    name = request.model or TINY
    place = str(tiny_policy(settings.cache_dir, seed=request.seed, emit=emit)) if name == TINY else name
    return InProcessModel(
        place,
        request.sampling,
        name=TINY if name == TINY else None,
        batch_size=request.batch_size,
        stop=closed,
    )


def _options(request: EvalRequest, model: Model) -> dict[str, JsonValue]:
    return {
        "model": request.model or model.name,
        "base_url": request.base_url,
        "num_problems": request.num_problems,
        "samples": request.answers,
        "temperature": request.sampling.temperature,
        "max_tokens": request.sampling.max_tokens,
        "show_tests": request.show_tests,
        "batch_size": model.batch_size,
        "seed": request.seed,
        "request_timeout_seconds": request.request_timeout_seconds,
        "request_retries": request.request_retries,
    }
