"""A program on a real terminal (tmux), typed into and read off the screen, as a person sees it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.programs import require_program


class Screen:
    """A terminal with one program, between the two ends of a `with` block."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        columns: int = 100,
        rows: int = 40,
    ) -> None:
        self._tmux = [require_program("tmux"), "-S", str(folder / "tmux.sock"), "-f", os.devnull]
        program = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *argv]
        self._start = ["new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), *program]

    def __enter__(self) -> Self:
        self._run(*self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run("kill-server")

    def type(self, text: str) -> None:
        """Types a text as it is."""
        self._run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Presses keys by tmux's names: `Tab`, `Enter`, `C-c`."""
        self._run("send-keys", *keys)

    def text(self) -> str:
        """What the screen shows, without trailing blanks."""
        return self._run("capture-pane", "-p").rstrip()

    def wait(self, condition: Callable[[str], bool], what: str, seconds: float = 20) -> str:
        """Waits until the screen fulfils a condition; returns what it shows then."""
        deadline = time.monotonic() + seconds
        while not condition(shown := self.text()):
            assert time.monotonic() < deadline, f"{what} never appeared on:\n{shown}"
            time.sleep(0.05)
        return shown

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout
