"""Sandboxes that are ended from outside while something uses them, as an operator or a failing node would."""

from __future__ import annotations

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


def stop_sandboxes(tag: str) -> None:
    """Waits for a sandbox with this tag, and ends all that have it."""
    stop = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--tag", tag, "--force", "--yes"]
    until = time.monotonic() + 120
    while not re.search("stopped [1-9]", subprocess.run(stop, capture_output=True, text=True).stdout):
        assert time.monotonic() < until, f"there was no sandbox {tag}"
        time.sleep(0.2)


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
