"""The service as a command: `python -m tests.support.tinker_server --model DIRECTORY …`, until standard input ends.

The API key is in `TINKER_API_KEY`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sandrl.trainers.tinker.options import ServiceOptions
from sandrl.trainers.tinker.server import Server, listening, make_service
from tests.support.tinker_server.faults import Record
from tests.support.tinker_server.process import READY


def main() -> None:
    """Loads the model and serves it."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.tinker_server", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="what save_pretrained wrote, tokenizer included")
    parser.add_argument("--state", type=Path, required=True, help="where checkpoints are kept")
    parser.add_argument("--record", type=Path, help="a file that gets a line for everything done to a model")
    parser.add_argument("--full", action="store_true", help="train all weights instead of LoRA")
    parser.add_argument("--poll-seconds", type=float, default=20.0, help="how long a future is waited for at a time")
    parser.add_argument("--nan-after", type=int, metavar="N", help="after N steps losses are no numbers")
    arguments = parser.parse_args()
    record = Record(arguments.record, arguments.nan_after)
    options = ServiceOptions(str(arguments.model), arguments.state, trains_all=arguments.full)
    service = make_service(options, is_offline=True)
    record.watch(service)
    with listening("127.0.0.1", 0) as listener:
        server = Server(service, os.environ["TINKER_API_KEY"], arguments.poll_seconds)
        server.end_after(sys.stdin.read)
        print(f"{READY}http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        server.run([listener])


main()
