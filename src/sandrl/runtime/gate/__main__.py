"""The entry point of the gate: `python -m sandrl.runtime.gate`, with a socket to its daemon as standard input."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from dataclasses import asdict
from typing import Any

from sandrl.runtime.gate.sandbox import Connection, Recorder, SandboxGate
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel
from sandrl.runtime.network import Network

_OTHER_FILES = 1024
_MOST_UNSENT_BYTES = 8 << 20


async def _serve(daemon: socket.socket) -> None:
    sandboxes: dict[int, SandboxGate] = {}
    ended = asyncio.Event()
    # Each has two descriptors; some are for sockets of sandboxes and for looking names up.
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    everyone = asyncio.Semaphore(max(most_files - _OTHER_FILES, _OTHER_FILES) // 2)

    def obey(message: wire.Message, descriptors: list[int]) -> None:
        number = int(message["id"])
        if message["op"] == "open":
            sockets = [socket.socket(fileno=each) for each in descriptors]
            try:
                network = Network.read(message["network"])
                recorder = recorder_of(network, number)
            except Exception as error:  # noqa: BLE001 - the other sandboxes keep their network
                # What it cannot have as it was asked for, it does not have at all.
                tell(number, asdict(Connection("", 0, error=str(error) or type(error).__name__)))
                for each in sockets:
                    each.close()
                return
            sandboxes[number] = SandboxGate(
                network,
                sockets,
                lambda record: tell(number, record),
                lambda host, port: send(number, reached=[host, port]),
                everyone,
                recorder,
            )
        elif number in sandboxes:
            closing = asyncio.ensure_future(sandboxes.pop(number).close())
            closing.add_done_callback(lambda _: channel.send({"id": number, "closed": True}))
        else:
            channel.send({"id": number, "closed": True})

    def recorder_of(network: Network, number: int) -> Recorder | None:
        if not network.recording:
            return None
        from sandrl.runtime.recording.attachment import AttachedRecorder

        def tell_missed(destination: tuple[str, int], what: str) -> None:
            tell(number, asdict(Connection(*destination, error=what)))

        return AttachedRecorder(network.recording, tell_missed)

    def tell(number: int, record: wire.Message) -> None:
        send(number, connection=record)

    def send(number: int, **message: Any) -> None:
        if channel.unsent_bytes < _MOST_UNSENT_BYTES:  # else the daemon is stopped, say
            channel.send({"id": number, **message})

    channel = AgentChannel(daemon, obey, ended.set, wire.MAX_FRAME_BYTES)
    await ended.wait()


def main() -> None:
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    daemon = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    asyncio.run(_serve(daemon))
    os._exit(0)  # not waiting for threads that look names up


if __name__ == "__main__":
    main()
