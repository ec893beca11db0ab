"""The latest answers to expensive questions, as long as what they depend on stays the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The answers to the latest questions, at most so many; each is made once, and others who ask it wait."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, question: Hashable, make: Callable[[], T]) -> T:
        """The answer to a question, which names all that the answer depends on."""
        with self._mutex:
            if question not in self._known:
                self._known[question] = make()
            self._known.move_to_end(question)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
            return self._known[question]
