"""The service as a command: `python -m tests.support.tinker_server --model DIRECTORY`.

It prints one line, with its address, once it answers, and listens on this machine alone. The API key it asks for comes
from an environment variable, never from the command line, where everyone could read it.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.support.tinker_server.process import READY


def main() -> None:
    """Serves until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.tinker_server", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="what save_pretrained wrote, tokenizer included")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0, help="0 for any that is free")
    parser.add_argument("--state", type=Path, help="where checkpoints are kept after the end")
    parser.add_argument("--record", type=Path, help="a file that gets a line for everything done to a model")
    parser.add_argument("--key-variable", default="TINKER_API_KEY", help="the variable with the API key")
    parser.add_argument("--full", action="store_true", help="train all weights instead of LoRA")
    parser.add_argument("--poll-seconds", type=float, default=20.0, help="how long a future is waited for at a time")
    parser.add_argument("--max-queue", type=int, default=4096, help="how many requests may wait")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input does")
    parser.add_argument("--nan-after", type=int, metavar="N", help="after N steps losses are no numbers")
    parser.add_argument("--crash-before-save", type=int, metavar="N", help="end at once before the N-th save")
    arguments = parser.parse_args()
    key = os.environ.get(arguments.key_variable)
    if not key:
        parser.error(f"{arguments.key_variable} must hold the API key")
    if arguments.host != "localhost" and not ipaddress.ip_address(arguments.host).is_loopback:
        parser.error("--host must be a loopback address")
    serve(arguments, key)


def serve(arguments: argparse.Namespace, key: str) -> None:
    """Loads the model and serves it."""
    # Seconds of imports: what is wrong with the arguments is said before.
    from sandrl.trainers.tinker.options import ServiceOptions
    from sandrl.trainers.tinker.server import Server, listening, make_service
    from tests.support.tinker_server.faults import Record, crash_before_save

    # The server passes on the signal that ended it, which must not keep the directory below from being removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        state = arguments.state or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tinker-server-")))
        record = Record(arguments.record, arguments.nan_after)
        options = ServiceOptions(str(arguments.model), state, trains_all=arguments.full, max_queue=arguments.max_queue)
        service = make_service(options, is_offline=True, observe=record)
        crash_before_save(service.checkpoints, arguments.crash_before_save)
        record.spoil(service)
        listener = stack.enter_context(listening(arguments.host, arguments.port))
        server = Server(service, key, arguments.poll_seconds)
        if arguments.while_stdin:
            server.end_after(sys.stdin.read)
        print(f"{READY}http://{arguments.host}:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        server.run([listener])


main()
