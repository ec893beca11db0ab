"""The entry point of the gate: `python -m sandrl.runtime.gate`, with a socket to its daemon as standard input."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from dataclasses import asdict

from sandrl.errors import SandrlError
from sandrl.runtime.gate.sandbox import Connection, Recorder, SandboxGate, adopt
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel
from sandrl.runtime.network import Network


async def _serve(daemon: socket.socket) -> None:
    sandboxes: dict[int, SandboxGate] = {}
    ended = asyncio.Event()

    def obey(message: wire.Message, descriptors: list[int]) -> None:
        number = int(message["id"])
        if message["op"] == "open":
            network, sockets = Network.read(message["network"]), adopt(descriptors)
            try:
                recorder = recorder_of(network, number)
            except SandrlError as error:
                # Without it, the sandbox has no network.
                tell(number, asdict(Connection(network.recording, 0, error=error.message)))
                for each in sockets:
                    each.close()
                return
            sandboxes[number] = SandboxGate(network, sockets, lambda record: tell(number, record), recorder)
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
        channel.send({"id": number, "connection": record})

    channel = AgentChannel(daemon, obey, ended.set)
    await ended.wait()


def main() -> None:
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    daemon = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    asyncio.run(_serve(daemon))
    os._exit(0)  # not waiting for threads that look names up


if __name__ == "__main__":
    main()
