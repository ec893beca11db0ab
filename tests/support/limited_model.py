"""Scripts of a server that limits requests, in the ways of the field: a window, a bucket, or so many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.support.scripted_model import Answer, Fault, Question, Says


class Limit:
    """Answers a question if there is room for it, and refuses it otherwise.

    A window takes `count` questions in so many seconds; a bucket holds `count` tokens and is full again after them. The
    refusal is made anew for each, from the seconds until there is room.
    """

    def __init__(
        self,
        answer: Callable[[Question], Answer],
        refusal: Callable[[float], Fault],
        *,
        count: int,
        seconds: float,
        has_bucket: bool = False,
    ) -> None:
        self.answered = self.refused = 0
        self._answer = answer
        self._refusal = refusal
        self._count = count
        self._seconds = seconds
        self._has_bucket = has_bucket
        self._lock = threading.Lock()
        self._room = float(count)
        self._since = time.monotonic()

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            left = self._refill()
            has_room = self._room >= 1
            self._room -= has_room
            self.answered += has_room
            self.refused += not has_room
        return self._answer(question) if has_room else self._refusal(left)

    def _refill(self) -> float:
        now = time.monotonic()
        if not self.refused:
            # Time begins with the first refusal: a slow machine is refused as well.
            self._since = now
        if self._has_bucket:
            rate = self._count / self._seconds
            self._room = min(self._room + (now - self._since) * rate, float(self._count))
            self._since = now
            return max(1 - self._room, 0.0) / rate
        if now - self._since >= self._seconds:
            self._room, self._since = float(self._count), now
        return self._since + self._seconds - now


class Crowd:
    """Answers so many questions at once, each after a moment, and breaks the connections of others."""

    def __init__(self, answer: Callable[[Question], Answer], *, at_once: int) -> None:
        self.refused = 0
        self._answer = answer
        self._at_once = at_once
        self._lock = threading.Lock()
        self._present = 0

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            has_room = self._present < self._at_once
            self._present += has_room
            self.refused += not has_room
        if not has_room:
            return Fault(reset=True)
        time.sleep(0.03)
        with self._lock:
            self._present -= 1
        return self._answer(question)


def says_its_number(question: Question) -> Answer:
    """Repeats the question, by which every answer is told from every other."""
    return Says(str(question.messages[-1]["content"]))
