"""A `sandrl serve` in a process of its own, for tests that ask it."""

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

import httpx

TOKEN = "a-token-of-the-tests-0123456789"
_FIRST_LINE = re.compile(r"Serving rewards on (?P<url>https?://\S+) \(token: (?P<place>[^,;)]+)")


@dataclass
class RunningService:
    url: str
    token_place: str
    process: subprocess.Popen[str]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def client(self, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {TOKEN}"} | options.pop("headers", {})
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=120, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def running_service(
    directory: Path, *words: str, environment: dict[str, str] | None = None
) -> Iterator[RunningService]:
    log = directory / f"serve-{os.urandom(4).hex()}.log"
    variables = {**os.environ, "SANDRL_SERVICE_TOKEN": TOKEN, **(environment or {})}
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandrl", "serve", "--port", "0", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=directory,
            env=variables,
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = _FIRST_LINE.match(first)
        assert found is not None, f"{first!r}; {log.read_text()}"
        yield RunningService(found["url"], found["place"], process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
