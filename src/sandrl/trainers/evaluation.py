"""One `sandrl eval`: a model is asked, and what it answers is scored like any completion.

The design decision: while a batch is judged, the next one is generated. Nothing else is new here: the prompts are those
of training, and a run of answers is scored by what scores a file of them.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice

from pydantic import JsonValue

from sandrl.errors import UsageError
from sandrl.events import Emit, PolicyAsked, ignore
from sandrl.problems import Completion, Problem, chat_prompt, load_problems
from sandrl.problems.prompts import SHOWN_TESTS
from sandrl.rewards import RewardRequest, RewardRun, score_run
from sandrl.rollouts import EndpointPolicy, Policy, Question, Sampling
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from sandrl.trainers import libraries
from sandrl.trainers.config import TINY
from sandrl.trainers.in_process import InProcessPolicy
from sandrl.trainers.tiny import tiny_policy

COMMAND = "eval"
SAMPLES = 4
"""Answers to each problem, unless told otherwise or greedy."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """Which model to evaluate, and how.

    Attributes:
        scoring: The problems, and how answers are scored.
        model: `tiny`, a directory with a model, a model of the hub, or what an endpoint calls it; None for the only one
            of the endpoint, or `tiny` without one.
        base_url: Address of an OpenAI-compatible endpoint; None asks a model in this process.
        num_problems: How many problems, the first of the set; None for all.
        samples: Answers to each; None for the usual number, which is 1 where they are greedy.
        sampling: How answers are generated.
        show_tests: How many checks a prompt shows.
        batch_size: How many answers at once; what suits the policy unless given.
        seed: Decides what is sampled, as far as the policy can, and how the tiny policy is made.
    """

    scoring: RewardRequest
    model: str | None = None
    base_url: str | None = None
    num_problems: int | None = None
    samples: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    show_tests: int = SHOWN_TESTS
    batch_size: int | None = None
    seed: int = 0

    @property
    def answers(self) -> int:
        """How many answers each problem gets."""
        return self.samples or (1 if self.sampling.is_greedy else SAMPLES)


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A finished evaluation.

    Attributes:
        model: What was evaluated.
        problems: On how many problems.
        answers: How many answers each got.
        sampling: How these were generated.
        run: What came of them.
    """

    model: str
    problems: int
    answers: int
    sampling: Sampling
    run: RewardRun


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
    request.scoring.check()
    if request.sampling.is_greedy and (request.samples or 1) > 1:
        raise UsageError("greedy answers to a problem are all the same: leave out --samples")
    problems = dict(islice(load_problems(request.scoring.problems).problems.items(), request.num_problems))
    policy = _policy(request, settings, emit)
    emit(PolicyAsked(policy.name, len(problems), request.answers))
    sandboxes = request.scoring.sandboxes.tagged(COMMAND, f"model:{policy.name}")
    with closing(_answered(request, policy, problems, interrupt)) as batches:
        run = score_run(
            replace(request.scoring, sandboxes=sandboxes),
            batches,
            problems,
            settings,
            total=len(problems) * request.answers,
            command=COMMAND,
            options=_options(request, policy),
            versions={} if request.base_url else libraries.versions(),
            emit=emit,
            interrupt=interrupt,
        )
    return EvalRun(policy.name, len(problems), request.answers, request.sampling, run)


def _policy(request: EvalRequest, settings: Settings, emit: Emit) -> Policy:
    if request.base_url is not None:
        return EndpointPolicy(
            request.base_url, model=request.model, api_key=settings.openai_api_key, batch_size=request.batch_size
        )
    if request.model in (None, TINY):
        place = str(tiny_policy(settings.cache_dir, seed=request.seed, emit=emit))
        return InProcessPolicy(place, name=TINY, batch_size=request.batch_size)
    return InProcessPolicy(str(request.model), batch_size=request.batch_size)


def _answered(
    request: EvalRequest, policy: Policy, problems: Mapping[str, Problem], interrupt: Interrupt
) -> Generator[Sequence[Completion]]:
    """The answers in batches; the next is being generated while the caller is busy with one."""
    asked = [(problem, number) for problem in problems.values() for number in range(1, request.answers + 1)]
    batches = (asked[start : start + policy.batch_size] for start in range(0, len(asked), policy.batch_size))
    closed = threading.Event()

    def is_stopped() -> bool:
        return closed.is_set() or bool(interrupt.level)

    def answer(batch: Sequence[tuple[Problem, int]], number: int) -> list[str] | None:
        seed = request.seed * len(asked) + number
        questions = [
            Question(chat_prompt(problem, show_tests=request.show_tests), seed + place)
            for place, (problem, _) in enumerate(batch)
        ]
        return policy.answer(questions, request.sampling, is_stopped=is_stopped)

    with ThreadPoolExecutor(1, thread_name_prefix="sandrl-policy") as worker:
        batch = next(batches, None)
        number = 0
        waiting: Future[list[str] | None] | None = None if batch is None else worker.submit(answer, batch, number)
        try:
            while batch is not None and waiting is not None and (texts := waiting.result()) is not None:
                number += len(batch)
                following = next(batches, None)
                waiting = None if following is None else worker.submit(answer, following, number)
                yield [
                    Completion(f"{problem.task_id}#{sample}", problem.task_id, text=text)
                    for (problem, sample), text in zip(batch, texts, strict=True)
                ]
                batch = following
        finally:
            # Leaving the `with` block waits for the batch in the making, which nobody wants any more.
            closed.set()


def _options(request: EvalRequest, policy: Policy) -> dict[str, JsonValue]:
    return {
        "model": request.model or policy.name,
        "base_url": request.base_url,
        "num_problems": request.num_problems,
        "samples": request.answers,
        "temperature": request.sampling.temperature,
        "max_tokens": request.sampling.max_tokens,
        "show_tests": request.show_tests,
        "batch_size": policy.batch_size,
        "seed": request.seed,
    }
