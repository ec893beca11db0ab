"""Sandboxes that are ended from outside while something uses them, as an operator or a failing node would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cwsandbox import AuthHeaders, Sandbox

from sandrl.integrations.backend import local_backend
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection

SANDBOXES = (sys.executable, "-m", "sandrl", "sandboxes")


def stop_sandboxes(tag: str) -> None:
    """Waits for a sandbox with this tag, and ends all that have it."""
    stop = [*SANDBOXES, "cleanup", "--tag", tag, "--force", "--yes"]
    until = time.monotonic() + 120
    while not re.search("stopped [1-9]", subprocess.run(stop, capture_output=True, text=True).stdout):
        assert time.monotonic() < until, f"there was no sandbox {tag}"
        time.sleep(0.2)


def living(tag: str) -> list[str]:
    """The ids of the sandboxes with this tag that `sandboxes ls` shows."""
    listed = subprocess.run([*SANDBOXES, "ls", "--json"], check=True, capture_output=True)
    return [each["id"] for each in json.loads(listed.stdout)["sandboxes"] if tag in each["tags"]]


def kill_with_sandboxes(process: subprocess.Popen[bytes], tag: str) -> None:
    """Kills a process as soon as it has a sandbox with this tag; what it leaves is seen, and ended as an orphan."""
    until = time.monotonic() + 60
    while not living(tag):
        assert process.poll() is None
        assert time.monotonic() < until
    process.kill()
    process.wait()
    assert living(tag)
    subprocess.run([*SANDBOXES, "cleanup", "--orphans", "--yes"], check=True, capture_output=True)
    assert living(tag) == []


@contextmanager
def stopping_sandboxes(tag: str) -> Iterator[None]:
    """Ends all sandboxes of this process that have this tag as soon as they are there."""
    connection = local_backend({"tags": (tag,)}).place.connection
    assert isinstance(connection, SdkConnection)
    auth = AuthHeaders(headers={"Authorization": f"Bearer {connection.token}"}, strategy="test")
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            for sandbox in Sandbox.list(tags=[tag], base_url=connection.address, auth=auth).result(30):
                Sandbox.delete(
                    sandbox.sandbox_id or "", base_url=connection.address, auth=auth, missing_ok=True
                ).result(30)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
