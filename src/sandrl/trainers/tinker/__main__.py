"""The process of an embedded service: `python -m sandrl.trainers.tinker`; see `sandrl.trainers.tinker.embedded`.

Standard input contains one line, with the options and the key as JSON. Standard output gets one line: an object with
the address, or with the error. The service ends when standard input is closed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from sandrl.errors import SandrlError
from sandrl.trainers.tinker.options import ServiceOptions
from sandrl.trainers.tinker.server import Server, listening, make_service


def main() -> None:
    """Serves until standard input ends."""
    # Ctrl-C is for the training; it decides when its service ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries print; the answer is a line of its own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.readline() or "null")
    if asked is None:
        return
    options = ServiceOptions(**asked["options"])
    options = replace(options, state=Path(options.state))
    try:
        service = make_service(options, is_offline=asked["is_offline"])
        with listening("127.0.0.1", 0) as listener:
            server = Server(service, asked["key"])
            server.end_after(sys.stdin.read)
            print(json.dumps({"address": f"http://127.0.0.1:{listener.getsockname()[1]}"}), file=answers)
            answers.close()
            server.run([listener])
    except SandrlError as error:
        about = {"error": error.message, "hint": error.hint, "fields": error.fields, "kind": type(error).__name__}
        print(json.dumps(about), file=answers, flush=True)


main()
