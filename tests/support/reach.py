"""Runs the probe of `reach_probe.py` in a sandbox: `python -m tests.support.reach OPTIONS [kill]` prints JSON.

The options are those of a `SandboxRequest` as JSON; the image `tree` is one with this machine's Python. With `kill`,
the gate is killed instead, while a sandbox uses it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from sandrl.runtime import daemon
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.protocol import Connection, Sandbox
from sandrl.sandboxes.request import SandboxRequest
from sandrl.settings import load_settings
from tests.support.image_trees import import_tree, make_python_tree
from tests.support.internet import PUBLIC

PROBE = (Path(__file__).parent / "reach_probe.py").read_text(encoding="utf-8")
_FETCH = (
    "import urllib.request as u\n"
    "try: print(u.urlopen('http://allowed.example:443/{path}', timeout=20).status)\n"
    "except OSError as error: print(type(error).__name__)"
)


def run(sandbox: Sandbox, program: str) -> str:
    result = sandbox.run(Command(("python3", "-c", program), timeout_seconds=250)).result()
    assert result.exit_code == 0, result.stdout + result.stderr
    return result.stdout.decode()


def probe(connection: Connection) -> dict[str, Any]:
    sandbox = connection.open().create(["tag-probe"])
    ways = json.loads(run(sandbox, PROBE))
    assert connection.reached is not None
    assert sandbox.id is not None
    reached = connection.reached(sandbox.id, 0)
    assert reached is None or connection.reached(sandbox.id, reached[1]) == ([], reached[1])
    sandbox.stop().result()
    with urllib.request.urlopen(f"http://{PUBLIC}/seen") as answer:
        seen = json.loads(answer.read())
    assert connection.connections is not None
    found, last = connection.connections(["tag-probe"], 0)
    assert connection.connections(["tag-probe"], last) == ([], last)
    assert connection.connections(["tag-other"], 0) == ([], last)
    return {"ways": ways, "seen": seen, "connections": found, "reached": reached and reached[0]}


def kill_gate(connection: Connection, state_dir: Path) -> dict[str, Any]:
    client = connection.open()
    sandbox = client.create([])
    before = run(sandbox, _FETCH.format(path="")).strip()
    waits = sandbox.run(Command(("python3", "-c", _FETCH.format(path="hang")), timeout_seconds=100))
    os.kill(gate_of(state_dir), signal.SIGKILL)
    waited = waits.result().stdout.decode().strip()
    after = run(sandbox, _FETCH.format(path="")).strip()
    another = run(client.create([]), _FETCH.format(path="")).strip()
    assert connection.connections is not None
    errors = [each["error"] for each in connection.connections([], 0)[0] if each["error"]]
    return {"before": before, "waited": waited, "after": after, "another": another, "errors": errors}


def gate_of(state_dir: Path) -> int:
    endpoint = daemon.find(state_dir)
    assert endpoint is not None
    children = Path(f"/proc/{endpoint.pid}/task/{endpoint.pid}/children").read_text().split()
    (pid,) = (int(each) for each in children if b"sandrl.runtime.gate" in Path(f"/proc/{each}/cmdline").read_bytes())
    return pid


def main(options: dict[str, Any], kills: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SANDRL_STATE_DIR": f"{folder}/state", "SANDRL_CACHE_DIR": f"{folder}/cache"}
        if options.get("image") == "tree":
            options["image"] = import_tree("tests/python:3", make_python_tree)
        settings = load_settings()
        try:
            connection = SandboxRequest(**options).connect(settings)
            found = kill_gate(connection, settings.state_dir) if kills else probe(connection)
            sys.stdout.write(json.dumps(found))
        finally:
            daemon.stop(settings.state_dir)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:] == ["kill"])
