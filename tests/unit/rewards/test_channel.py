"""The channel between judge and completion: a deadline that interrupts a reader loses no byte of a message."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType

import pytest

from sandrl.judge.guest.channel import ANSWER, Channel


class Deadline(BaseException):
    pass


@pytest.fixture
def ends() -> Iterator[tuple[Channel, int]]:
    reading, writing = os.pipe()
    yield Channel(reading, writing), writing
    os.close(reading)
    with suppress(OSError):
        os.close(writing)


@pytest.fixture
def deadlines() -> Iterator[None]:
    """Raises an exception in the main thread a thousand times a second while its handler is armed."""

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise Deadline

    before = signal.signal(signal.SIGALRM, on_alarm)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("deadlines")
def test_messages_arrive_whole_however_often_their_reader_is_interrupted(ends: tuple[Channel, int]) -> None:
    channel, writing = ends
    chance = random.Random(7)
    messages = [chance.randbytes(chance.choice((0, 1, 5, 300, 70_000, 3_000_000))) for _ in range(60)]

    def write() -> None:
        for message in messages:
            data = len(message).to_bytes(4, "little") + ANSWER + message
            while data:
                size = chance.randrange(1, 50_000)
                os.write(writing, data[:size])
                data = data[size:]

    writer = threading.Thread(target=write)
    writer.start()
    arrived, interruptions = [], 0
    for _ in messages:
        message: tuple[bytes, bytes] | None = None
        while message is None:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0005))
                message = channel.receive()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Deadline:
                interruptions += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert message[0] == ANSWER
        arrived.append(message[1])
        channel.take()
    writer.join()
    assert arrived == messages
    assert interruptions > 50, "the test interrupts the reader"


def test_a_message_stays_until_it_is_taken(ends: tuple[Channel, int]) -> None:
    channel, _ = ends
    channel.send(ANSWER, b"one")
    channel.send(ANSWER, b"two")
    assert channel.receive() == channel.receive() == (ANSWER, b"one")
    channel.take()
    assert channel.arriving is None
    assert channel.receive() == (ANSWER, b"two")


def test_an_end_in_the_middle_of_a_message_is_one(ends: tuple[Channel, int]) -> None:
    channel, writing = ends
    os.write(writing, b"\x05\x00\x00\x00!abc")
    os.close(writing)
    with pytest.raises(EOFError):
        channel.receive()
