"""`sandrl tinker serve`, between the two ends of a `with` block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.settings import load_settings

_STARTED = re.compile(r"Tinker service on (?P<url>\S+), base model (?P<model>\S+) \(key: (?P<key>\S+)\)\n")


@dataclass(frozen=True)
class Served:
    """A service that runs."""

    url: str
    model: str
    key_place: str
    key: str
    process: subprocess.Popen[str]

    def end(self) -> tuple[int, str]:
        """Ends it as an operator would; its exit code, and what it said."""
        self.process.send_signal(signal.SIGTERM)
        _, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stderr

    @property
    def client(self) -> Any:
        """A client of Tinker's SDK."""
        import tinker

        return tinker.ServiceClient(base_url=self.url, api_key=self.key)


@contextmanager
def served(state: Path, *words: str | Path, **environment: str) -> Iterator[Served]:
    """`sandrl tinker serve`, with a state directory of its own."""
    known = {**os.environ, "TINKER_API_KEY": "", "ART_TINKER_API_KEY": "", "SANDRL_STATE_DIR": str(state)}
    known["SANDRL_CACHE_DIR"] = str(load_settings().cache_dir)
    process = subprocess.Popen(
        [sys.executable, "-m", "sandrl", "tinker", "serve", "--port", "0", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**known, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _STARTED.fullmatch(line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        place = found["key"]
        key = Path(place).read_text() if place.startswith("/") else environment[place]
        yield Served(found["url"], found["model"], place, key, process)
    finally:
        process.kill()
        process.communicate()
