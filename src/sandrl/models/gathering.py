"""Batches the questions of many threads to a model in this process.

Each episode asks one question and waits for the answer. The thread that generates takes all waiting questions at once,
so the episodes of a step are answered in a few passes, in any order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from sandrl.errors import RequestRefusedError, SandrlError
from sandrl.models.client import Stopped
from sandrl.models.in_process import InProcessModel
from sandrl.models.messages import Message, Reply
from sandrl.models.protocol import Question

_GATHERING_SECONDS = 0.01
_LOOK_SECONDS = 0.1


@dataclass(eq=False)
class _Request:
    messages: Sequence[Message]
    reply: Future[Reply] = field(default_factory=Future)


class GatheringModel:
    """A model in this process that threads share."""

    def __init__(self, model: InProcessModel, *, seed: int, stop: threading.Event) -> None:
        self.name = model.name
        self._model = model
        self._stop = stop
        self._chances = random.Random(f"episodes {seed}")
        self._asked: SimpleQueue[_Request] = SimpleQueue()
        self._thread = threading.Thread(target=self._generate, name="sandrl-model", daemon=True)
        self._thread.start()

    def reply(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        if tools:
            return self._model.reply(messages, tools)
        asked = _Request(messages)
        self._asked.put(asked)
        while not asked.reply.done():
            if self._stop.is_set():
                raise Stopped
            try:
                return asked.reply.result(_LOOK_SECONDS)
            except TimeoutError:
                continue
        return asked.reply.result()

    def close(self) -> None:
        """Ends the thread; questions that wait are not answered."""
        self._stop.set()
        self._thread.join()

    def _generate(self) -> None:
        while not self._stop.is_set():
            batch = self._gathered()
            try:
                batch = [each for each in batch if self._fits(each)]
                self._answer(batch)
            except Exception as error:  # noqa: BLE001 - each that waits raises it
                failure = error if isinstance(error, SandrlError) else SandrlError(f"{self.name} fails: {error}")
                for each in batch:
                    if not each.reply.done():
                        each.reply.set_exception(failure)

    # Whether the model can read a conversation; refuses a longer one. Tokenizers are of one thread at a time.
    def _fits(self, asked: _Request) -> bool:
        positions = self._model.positions
        tokens = self._model.prompt_tokens(asked.messages)
        answer = max(self._model.answer_tokens(tokens), 1)
        if positions is None or tokens + answer <= positions:
            return True
        message = f"{tokens} tokens and an answer of {answer} exceed the context of {positions} tokens"
        asked.reply.set_exception(RequestRefusedError(message, status=400))
        return False

    def _answer(self, batch: Sequence[_Request]) -> None:
        questions = [
            Question(number, each.messages, seed=self._chances.getrandbits(32)) for number, each in enumerate(batch)
        ]
        for answer in self._model.answers(questions):
            assert answer.reply is not None, "what is generated is an answer"
            batch[answer.number].reply.set_result(answer.reply)

    def _gathered(self) -> list[_Request]:
        try:
            batch = [self._asked.get(timeout=_LOOK_SECONDS)]
        except Empty:
            return []
        time.sleep(_GATHERING_SECONDS)
        while len(batch) < self._model.batch_size:
            try:
                batch.append(self._asked.get_nowait())
            except Empty:
                break
        return batch
