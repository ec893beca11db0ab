"""The background daemon's entry point: `python -m sandrl.runtime.server STATE_DIR READY_DESCRIPTOR`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sandrl import forks
from sandrl.errors import RuntimeUnavailableError
from sandrl.runtime import limits
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory


def main() -> None:
    if os.fork():
        os._exit(0)
    # Only now: gRPC must not exist before a fork. Its own fork handlers could end a child that becomes bubblewrap.
    forks.begin_grpc()
    from sandrl.runtime.server.app import run

    directory = RuntimeDirectory(Path(sys.argv[1]))
    ready = int(sys.argv[2])

    def answer(reply: dict[str, str]) -> None:
        os.write(ready, json.dumps(reply).encode())
        os.close(ready)

    def announce(endpoint: DaemonEndpoint) -> None:
        answer({"base_url": endpoint.base_url})

    try:
        run(directory, idle_timeout_seconds=limits.IDLE_TIMEOUT_SECONDS, announce=announce)
    except RuntimeUnavailableError as error:
        answer({"error": error.message, **({"hint": error.hint} if error.hint else {})})
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
