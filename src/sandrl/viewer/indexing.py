"""Indexes and counts large runs in the background, the run of the latest request first."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sandrl.errors import SandrlError

if TYPE_CHECKING:
    from sandrl.viewer.run import ViewedRun

_TURN_SECONDS = 1.0
_ENDING_SECONDS = 2.0
# Whoever waits for an answer meanwhile gets a turn, too.
_PAUSE_SECONDS = 0.01


class Indexer:
    """A thread that works on the indexes of runs, as long as there is something to do."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: list[ViewedRun] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, run: ViewedRun) -> None:
        """Works on a run, before all others."""
        with self._mutex:
            if self._is_closed:
                return
            if run in self._waiting:
                self._waiting.remove(run)
            self._waiting.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sandrl-index", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends after the turn that is in hand, if that takes no longer than a moment."""
        with self._mutex:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            # What it is at is rolled back if it takes longer: the index goes on from there next time.
            thread.join(_ENDING_SECONDS)

    def _work(self) -> None:
        while True:
            with self._mutex:
                if self._is_closed or not self._waiting:
                    self._thread = None
                    return
                run = self._waiting[-1]
            is_done = True
            with suppress(SandrlError, OSError, sqlite3.Error):
                is_done = run.work(_TURN_SECONDS)
            with self._mutex:
                if is_done and run in self._waiting:
                    self._waiting.remove(run)
            time.sleep(_PAUSE_SECONDS)
