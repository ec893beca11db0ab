"""The channel to an agent or the gate, whose other end may read slowly."""

from __future__ import annotations

import asyncio
import os
import socket

from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel, discard

MESSAGES, FILLING = 200, "x" * 2000


def test_messages_wait_for_a_slow_reader_and_arrive_in_order_with_their_descriptors() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    theirs.setblocking(False)
    read, write = os.pipe()
    received: list[tuple[int, bytes]] = []

    async def exchange() -> None:
        channel = AgentChannel(ours, lambda *_: None, lambda: None)
        for number in range(MESSAGES):
            channel.send({"number": number, "filling": FILLING}, [write] if number % 2 else [])
        assert channel.unsent_bytes > 0
        frames = wire.FrameReader(theirs)
        while len(received) < MESSAGES:
            try:
                for message, descriptors in frames.receive():
                    for each in descriptors:
                        os.write(each, bytes([message["number"]]))
                    received.append((message["number"], os.read(read, 1) if descriptors else b""))
                    discard(descriptors)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert channel.unsent_bytes == 0
        channel.close()

    with theirs:
        asyncio.run(asyncio.wait_for(exchange(), 30))
    for each in (read, write):
        os.close(each)
    assert received == [(number, bytes([number]) if number % 2 else b"") for number in range(MESSAGES)]


def test_a_channel_that_closes_keeps_no_descriptor_of_what_it_has_not_sent() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    read, write = os.pipe()

    async def fill() -> None:
        channel = AgentChannel(ours, lambda *_: None, lambda: None)
        while not channel.unsent_bytes:
            channel.send({"filling": FILLING}, [write])
        channel.close()

    asyncio.run(fill())
    theirs.close()
    os.close(write)
    # The end of the file, because nobody holds the other end any more.
    assert os.read(read, 1) == b""
    os.close(read)
