"""Frames arrive whole and with their own descriptors, however the kernel cuts the stream."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandrl.runtime.guest import wire

MESSAGES = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.text())), max_size=5)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with left, right:
        yield left, right


@given(messages=MESSAGES, cut=st.integers(1, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_frames_survive_being_cut_anywhere(messages: list[wire.Message], cut: int) -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with left, right:
        reader = wire.FrameReader(right)
        received: list[wire.Message] = []
        data = b"".join(wire.encode(message) for message in messages)
        for start in range(0, len(data), cut):
            left.sendall(data[start : start + cut])
            received += [message for message, _ in reader.receive()]
        assert received == messages


def test_descriptors_come_with_their_own_frame(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    read, write = os.pipe()
    wire.send(left, {"number": 1})
    wire.send(left, {"number": 2}, [write])
    wire.send(left, {"number": 3})
    os.close(write)
    reader = wire.FrameReader(right)
    received: list[tuple[wire.Message, list[int]]] = []
    while len(received) < 3:
        received += list(reader.receive())
    assert [message["number"] for message, _ in received] == [1, 2, 3]
    assert [len(descriptors) for _, descriptors in received] == [0, 1, 0]
    os.write(received[1][1][0], b"through")
    assert os.read(read, 100) == b"through"
    os.close(received[1][1][0])
    os.close(read)


def test_the_end_is_seen(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    left.close()
    reader = wire.FrameReader(right)
    assert list(reader.receive()) == []
    assert reader.closed


@pytest.mark.parametrize(
    ("data", "most"),
    [
        (b"\xff\xff\xff\xff\x00", wire.MAX_FRAME_BYTES),
        (wire.encode({"text": "x" * 200}), 100),
        (wire.encode({"number": 1}, descriptor_count=2), 100),
    ],
    ids=["longer than any real one", "longer than the reader takes", "without the descriptors that it announces"],
)
def test_a_frame_that_no_agent_sends_is_refused(
    pair: tuple[socket.socket, socket.socket], data: bytes, most: int
) -> None:
    left, right = pair
    left.sendall(data)
    with pytest.raises(wire.ProtocolError):
        list(wire.FrameReader(right, most).receive())


def test_descriptors_without_a_frame_do_not_pile_up(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    read, write = os.pipe()
    reader = wire.FrameReader(right)
    left.sendall(b"\0\0\x10\0\0")  # the head of a frame that never comes
    list(reader.receive())

    def send_on_and_on() -> None:
        for _ in range(40):
            socket.send_fds(left, [b"x"], [read])
            list(reader.receive())

    with pytest.raises(wire.ProtocolError):
        send_on_and_on()
    for descriptor in (read, write, *reader.unclaimed()):
        os.close(descriptor)
