"""A real `sandrl serve` on this machine, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.service import running_service


@dataclass(frozen=True)
class Serving:
    url: str
    token: str
    process: subprocess.Popen[str]

    def requests(self) -> int:
        asked = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            text = answer.read().decode()
        counts = re.findall(r'^sandrl_requests_total\{route="/v1/score",[^}]*\} ([\d.]+)$', text, re.MULTILINE)
        return round(sum(map(float, counts)))


@contextmanager
def serving(*words: str) -> Iterator[Serving]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        own = {"SANDRL_SERVICE_TOKEN": ""}
        running = stack.enter_context(running_service(directory, "--runtime", "local", *words, environment=own))
        token = Path(running.token_place).read_text("ascii").strip()
        yield Serving(running.url, token, running.process)
