"""Problems made of rows that are sent repeatedly: the same row is parsed once, and becomes one object.

Rows are compared by their content, not by their names. So results that the judge has stored for a problem apply to
every sender of the row, and two rows of one name never share a verdict. The problems that were used longest ago are
removed first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from sandrl import forks
from sandrl.digests import digest_of
from sandrl.problems.problem import Problem
from sandrl.problems.store import memory_of

MOST_BYTES = 256 << 20
"""How much memory problems may take by default."""


class InternedProblems:
    """Keeps problems by the content that they were made of, and always the last one; several threads may ask."""

    def __init__(self, *, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: OrderedDict[bytes, tuple[Problem, int]] = OrderedDict()
        self._lock = threading.Lock()
        forks.watch(self)

    def after_fork(self) -> None:
        """Keeps what is known; another thread may have held the lock at the moment of the fork."""
        self._lock = threading.Lock()

    def of(self, content: Any, make: Callable[[], Problem]) -> Problem:
        """The problem that was made of this content before, or one made now; what no JSON can hold is not kept."""
        try:
            key = digest_of([content])
        except (TypeError, ValueError):
            return make()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known[0]
        problem = make()
        size = memory_of(problem)
        with self._lock:
            # Another thread may have made it meanwhile: there is to be one object.
            if key in self._known:
                return self._known[key][0]
            self._known[key] = problem, size
            self._bytes += size
            while self._bytes > self._max_bytes and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1][1]
        return problem
