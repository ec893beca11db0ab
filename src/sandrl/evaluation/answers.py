"""Generates a model's completions while earlier ones are being scored.

Each answer is written to the run directory before it is scored, so no answer that was paid for is lost when the job
ends. A question without an answer becomes a completion without text and with a reason; a failure of the endpoint is
never counted as a wrong answer. After many failed requests in a row the endpoint is treated as unavailable and the
remaining questions are not sent, because a thousand requests to a server that hangs would take hours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from sandrl.config.words import Extraction
from sandrl.errors import SandrlError
from sandrl.evaluation.request import resume_hint
from sandrl.models import Answer, Message, Model, Question
from sandrl.problems import Completion, Problem
from sandrl.problems.prompting import Prompting
from sandrl.runs import AnswerRow, RunWriter

# Fewer failures in a row may be chance.
_FEWEST_LOST = 8


@dataclass(frozen=True, slots=True)
class EvalSample:
    """A completion that a model is to be asked for.

    Attributes:
        problems: The problems by `task_id`, which may be more than fit into memory.
    """

    index: int
    task_id: str
    sample: int
    problems: Mapping[str, Problem] = field(repr=False, compare=False)

    @property
    def problem(self) -> Problem:
        return self.problems[self.task_id]

    @property
    def id(self) -> str:
        return f"{self.task_id}#{self.sample}"

    def completion(self, row: AnswerRow) -> Completion:
        """What came of asking for it."""
        return Completion(
            self.id,
            self.task_id,
            completion=row.text,
            loss=row.failure,
            finish_reason=row.finish_reason,
            tokens=row.tokens.get("completion") or None,
            reasoning=row.reasoning,
        )


def all_samples(problems: Mapping[str, Problem], samples: int) -> list[EvalSample]:
    """All completions of an evaluation, in order: the samples of a problem stand together."""
    pairs = [(task_id, sample) for task_id in problems for sample in range(1, samples + 1)]
    return [EvalSample(index, task_id, sample, problems) for index, (task_id, sample) in enumerate(pairs)]


class Answers:
    """The answers of a model, in batches, as they come; `known` were given before and are scored first."""

    def __init__(
        self,
        model: Model,
        wanted: Sequence[EvalSample],
        known: Sequence[Completion],
        *,
        prompting: Prompting,
        extraction: Extraction,
        seed: int,
        writer: RunWriter,
        closed: threading.Event,
    ) -> None:
        self._model = model
        self._wanted = {each.index: each for each in wanted}
        self._known = known
        self._seed = seed
        self._writer = writer
        self._closed = closed
        self._arrived: SimpleQueue[Completion | Exception | None] = SimpleQueue()
        self._questions = [
            Question(each.index, _prompt(each.problem, prompting, extraction), seed + each.index) for each in wanted
        ]

    def batches(self) -> Iterator[Sequence[Completion]]:
        """Everything that has arrived since the last batch; ends once no answer is wanted, or with a model's error."""
        if self._known:
            yield self._known
        if not self._questions:
            return
        asking = threading.Thread(target=self._ask, name="sandrl-answers", daemon=True)
        asking.start()
        try:
            end: Exception | None = None
            is_over = False
            while not is_over:
                batch: list[Completion] = []
                while not is_over and (not batch or not self._arrived.empty()):
                    arrived = self._arrived.get()
                    if isinstance(arrived, Completion):
                        batch.append(arrived)
                    else:
                        end, is_over = arrived, True
                if batch and not self._closed.is_set():
                    yield batch
            if end is not None:
                raise end
        finally:
            self._closed.set()
            asking.join()

    def _ask(self) -> None:
        try:
            self._ask_all()
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread that waits for answers
            if isinstance(error, SandrlError):
                error.hint = "; ".join(filter(None, (error.hint, resume_hint(self._writer.run_id))))
            self._arrived.put(error)
        else:
            self._arrived.put(None)

    def _ask_all(self) -> None:
        most = max(self._model.batch_size, _FEWEST_LOST)
        left = dict(self._wanted)
        lost = 0
        answer: Answer | None = None
        for answer in self._model.answers(self._questions):
            self._keep(left.pop(answer.number), answer)
            lost = lost + 1 if answer.is_lost else 0
            if lost == most:
                break
        if answer is not None and lost == most:
            reason = f"not sent, because {lost} requests in a row had no answer; the last one: {answer.failure}"
            for each in left.values():
                self._keep(each, Answer(each.index, None, reason))

    def _keep(self, wanted: EvalSample, answer: Answer) -> None:
        row = _row(wanted, answer, self._writer)
        self._writer.append(row)
        self._arrived.put(wanted.completion(row))


def _prompt(problem: Problem, prompting: Prompting, extraction: Extraction) -> Sequence[Message]:
    said = prompting.messages(problem, extraction=extraction)
    return [Message(each["role"], each["content"]) for each in said]


def _row(wanted: EvalSample, answer: Answer, writer: RunWriter) -> AnswerRow:
    reply = answer.reply
    row = AnswerRow(
        job_id=writer.job_id,
        index=wanted.index,
        id=wanted.id,
        task_id=wanted.task_id,
        failure=answer.failure,
    )
    if reply is None:
        return row
    return row.model_copy(
        update={
            "text": reply.message.content,
            "reasoning": reply.message.reasoning,
            "finish_reason": reply.message.finish_reason,
            "seconds": reply.message.seconds,
            "retries": reply.retries,
            "tokens": {"prompt": reply.prompt_tokens, "completion": reply.completion_tokens},
        }
    )


def in_order(wanted: Iterable[EvalSample], rows: Mapping[int, AnswerRow]) -> list[Completion]:
    return [each.completion(rows[each.index]) for each in wanted if each.index in rows]
