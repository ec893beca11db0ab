"""Fetches addresses in a sandbox that is attached to a recording: `python -m tests.support.recorded_sandbox OPTIONS`.

The options are JSON: `mode` and `directory` of the recording, `addresses`, and `request`, the fields of a `Network`.
Prints what curl gave for each address, and the connections of the sandbox.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from sandrl.runtime import daemon
from sandrl.runtime.network import Network
from sandrl.runtime.recording.attachment import attachment
from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.connection import connect
from sandrl.settings import NetworkMode, load_settings

_FETCH = 'for address in {}; do curl --silent --max-time 20 $address; echo " $?"; done'


def main(options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SANDRL_STATE_DIR": f"{folder}/state", "SANDRL_CACHE_DIR": f"{folder}/cache"}
        settings = load_settings()
        request = options["request"]
        network = Network.of(NetworkMode(request["mode"]), request.get("allowed", ()), request.get("private", ()))
        assert network is not None
        directory, mode = Path(options["directory"]), RecordingMode(options["mode"])
        try:
            with attachment(directory, mode, settings.state_dir, {}) as attached:
                network = dataclasses.replace(network, recording=attached.file)
                connection = connect(settings, runtime="local", network=network)
                sandbox = connection.open().create(["tag-recorded"])
                fetch = _FETCH.format(" ".join(options["addresses"]))
                result = sandbox.run(Command(("sh", "-c", fetch), timeout_seconds=100)).result()
                sandbox.stop().result()
                assert connection.connections is not None
                connections, _ = connection.connections(["tag-recorded"], 0)
        finally:
            daemon.stop(settings.state_dir)
    sys.stdout.write(json.dumps({"given": result.stdout.decode().splitlines(), "connections": connections}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
