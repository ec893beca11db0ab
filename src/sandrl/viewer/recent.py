"""The latest answers to expensive questions, as long as what they depend on stays the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The answers to the latest questions, at most so many; each is made once, and others who ask it wait."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, question: Hashable, make: Callable[[], T]) -> T:
        """The answer to a question, which names all that the answer depends on; no other question waits for it."""
        with self._mutex:
            answer = self._known.get(question)
            is_new = answer is None
            if answer is None:
                answer = self._known[question] = Future()
            self._known.move_to_end(question)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        if is_new:
            try:
                answer.set_result(make())
            except BaseException as error:  # noqa: BLE001 - everybody who waits for the answer gets it
                with self._mutex:
                    if self._known.get(question) is answer:
                        del self._known[question]
                answer.set_exception(error)
        return answer.result()
