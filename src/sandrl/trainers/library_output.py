"""Redirects the output of libraries to a file in the run directory.

Standard output is reserved for results. Unsloth prints many lines there (banners, notes on the model), which are not
results but help with diagnosis.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

FILE = "printed.log"


class PrintedFile(io.TextIOBase):
    """A stream into a file that exists from the first line on.

    Args:
        path: The file; lines are appended, so that several processes may share it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Appends text; a disk that is full loses it, and stops no training."""
        data = text.encode("utf-8", "backslashreplace")
        if data:
            with contextlib.suppress(OSError), self._path.open("ab") as file:
                file.write(data)
        return len(text)
