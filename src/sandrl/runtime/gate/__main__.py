"""The entry point of the gate: `python -m sandrl.runtime.gate`, with a socket to its daemon as standard input."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys

from sandrl.runtime.gate.sandbox import SandboxGate, adopt
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel
from sandrl.runtime.network import Network


async def _serve(daemon: socket.socket) -> None:
    sandboxes: dict[int, SandboxGate] = {}
    ended = asyncio.Event()

    def obey(message: wire.Message, descriptors: list[int]) -> None:
        number = int(message["id"])
        if message["op"] == "open":
            sandboxes[number] = SandboxGate(
                Network.read(message["network"]), adopt(descriptors), lambda record: tell(number, record)
            )
        elif number in sandboxes:
            closing = asyncio.ensure_future(sandboxes.pop(number).close())
            closing.add_done_callback(lambda _: channel.send({"id": number, "closed": True}))

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
