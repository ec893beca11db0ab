"""Replies that outlive the connections they are sent on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sandrl.events.results import ScoredCompletion, Status
from sandrl.service.failures import Failure
from sandrl.service.replies import Replies, Reply

ONE, OTHER = b"digest of one request", b"digest of another one"


def result(index: int) -> ScoredCompletion:
    return ScoredCompletion(index, str(index), "p", 1.0, Status.PASSED, None, 1, 1, 0.0, None, "")


async def test_results_are_read_as_they_come_and_returned_in_order() -> None:
    reply = Reply(3)

    async def fill() -> None:
        for index in (2, 0, 1):
            await asyncio.sleep(0)
            reply.add(result(index))

    task = asyncio.create_task(fill())
    assert [each.index async for each in reply.read()] == [2, 0, 1]
    assert [each.index for each in await reply.wait()] == [0, 1, 2]
    await task


async def test_an_error_ends_a_reply_for_all_readers() -> None:
    reply = Reply(2)
    reply.add(result(0))
    waiting = asyncio.create_task(reply.wait())
    await asyncio.sleep(0)
    reply.fail(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        await waiting
    with pytest.raises(ValueError, match="lost"):
        [each async for each in reply.read()]


async def test_the_same_request_finds_its_reply_and_another_one_is_refused() -> None:
    replies, reply = Replies(), Reply(1)
    assert replies.find("key", ONE) is None
    replies.keep("key", ONE, reply)
    assert replies.find("key", ONE) is reply
    with pytest.raises(Failure, match="another request"):
        replies.find("key", OTHER)
    reply.fail(ValueError())
    assert replies.find("key", ONE) is None, "a request that failed is tried again"


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb"])
async def test_a_key_is_a_short_line(key: str) -> None:
    with pytest.raises(Failure, match="Idempotency-Key"):
        Replies().find(key, ONE)


async def test_without_a_client_a_reply_is_given_up_at_once_and_with_a_key_after_a_while() -> None:
    replies = Replies(grace_seconds=0.05)
    given_up: list[str] = []
    bare, named, asked = Reply(1), Reply(1), Reply(1)
    for name, reply in (("bare", bare), ("named", named), ("asked", asked)):
        reply.owns(lambda name=name: given_up.append(name))  # type: ignore[misc]
        replies.join(reply)
    replies.leave(bare, has_key=False)
    assert given_up == ["bare"]
    replies.leave(named, has_key=True)
    replies.leave(asked, has_key=True)
    replies.join(asked)
    assert given_up == ["bare"]
    await asyncio.sleep(0.2)
    assert given_up == ["bare", "named"]


async def test_replies_are_forgotten_in_time() -> None:
    replies, reply = Replies(kept_seconds=0.0), Reply(1)
    replies.keep("key", ONE, reply)
    assert replies.find("key", ONE) is reply, "it is not done"
    reply.add(result(0))
    assert replies.find("key", ONE) is None
    assert len(replies) == 0


async def test_a_reply_is_kept_from_its_end_and_not_from_its_beginning() -> None:
    replies, reply = Replies(kept_seconds=1.0), Reply(1)
    replies.keep("key", ONE, reply)
    await asyncio.sleep(1.1)
    reply.add(result(0))
    assert replies.find("key", ONE) is reply
    await asyncio.sleep(1.2)
    assert replies.find("key", ONE) is None


async def test_replies_that_take_too_much_memory_make_room() -> None:
    replies = Replies(kept_bytes=100_000)
    for number in range(50):
        reply = Reply(1)
        replies.keep(str(number), ONE, reply)
        reply.add(replace(result(0), detail="x" * 10_000))
    assert replies.find("0", ONE) is None
    assert replies.find("49", ONE) is not None
    assert len(replies) < 12
