"""stub"""
from __future__ import annotations
from collections.abc import Iterator
from contextlib import contextmanager
class Capacity:
    @contextmanager
    def take(self, memory_bytes: int, processors: float) -> Iterator[None]:
        yield
