"""The server as a process of its own, between the two ends of a `with` block."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
READY = "Tinker server at "


@dataclass(frozen=True)
class TinkerServer:
    """A server that runs.

    Attributes:
        base_url: Its address.
        key: The API key it asks for.
        model: The directory of its model, which is the name of its base model too.
        record: The file with a line for everything that was done to a model.
        process: It.
    """

    base_url: str
    key: str
    model: Path
    record: Path
    process: subprocess.Popen[str]

    @property
    def environment(self) -> dict[str, str]:
        """What a client finds it by."""
        return {"TINKER_BASE_URL": self.base_url, "TINKER_API_KEY": self.key}

    def records(self, operation: str | None = None) -> list[dict[str, Any]]:
        """What was done to models, all of it or one kind."""
        lines = self.record.read_text(encoding="utf-8").splitlines() if self.record.exists() else []
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [row for row in rows if operation in (None, row["op"])]


def made(client: Any) -> Any:
    """A client for training or sampling, of which later versions of the SDK return a future."""
    return client.result() if hasattr(client, "result") else client


@contextmanager
def running_server(model: Path, record: Path, *words: str | Path) -> Iterator[TinkerServer]:
    """Starts a server, with further options of its command, and ends it, however the block ends."""
    if "--state" not in words:
        # Not the server's own, so that one that is killed leaves nothing behind either.
        with tempfile.TemporaryDirectory(prefix="tinker-server-") as state:
            with running_server(model, record, "--state", state, *words) as server:
                yield server
            return
    key = f"tml-{secrets.token_hex(16)}"
    options = ["--model", model, "--record", record, *words]
    argv = [sys.executable, "-m", "tests.support.tinker_server", *map(str, options)]
    environment = {**os.environ, "TINKER_API_KEY": key, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(READY), f"the Tinker server did not start: {line!r}"
            yield TinkerServer(line.removeprefix(READY).strip(), key, model, record, process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
