"""The background daemon's entry point: `python -m sandrl.runtime.server STATE_DIR READY_DESCRIPTOR`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sandrl.errors import RuntimeUnavailableError
from sandrl.runtime.daemon import serve


def main() -> None:
    # gRPC must not exist before a fork: its own fork handlers could end a child that becomes bubblewrap.
    if os.fork():
        os._exit(0)
    ready = int(sys.argv[2])

    def answer(**reply: str | None) -> None:
        os.write(ready, json.dumps(reply).encode())
        os.close(ready)

    try:
        serve(Path(sys.argv[1]), announce=lambda endpoint: answer(base_url=endpoint.base_url))
    except RuntimeUnavailableError as error:
        answer(error=error.message, hint=error.hint)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
