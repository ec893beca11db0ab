"""A log stream has no gap and no repetition, wherever a client was cut off."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from sandrl.runtime import limits
from sandrl.runtime.server.logs import Log, LogSession

CHUNKS = st.lists(st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"x", b"\n")), max_size=10)


async def collect(log: Log, session: LogSession, offset: int = 0) -> bytes:
    return b"".join([data async for data, _, _ in log.stream(session, offset)])


@given(chunks=CHUNKS, timestamps=st.booleans(), cut=st.integers(0, 10))
@settings(deadline=None, max_examples=50)
def test_a_stream_resumed_at_any_frame_is_the_stream_uncut(chunks: list[bytes], timestamps: bool, cut: int) -> None:
    async def scenario() -> None:
        log = Log()
        for chunk in chunks:
            log.append(chunk)
        session = log.open_session(timestamps=timestamps)
        whole = await collect(log, session)
        offsets = sorted(session.positions)
        offset = offsets[min(cut, len(offsets) - 1)]
        assert whole[:offset] + await collect(log, session, offset) == whole
        if not timestamps:
            assert whole == b"".join(chunks)

    asyncio.run(scenario())


async def test_following_waits_for_more_and_ends_with_the_program() -> None:
    log = Log()
    session = log.open_session()
    seen: list[bytes] = []

    async def follow() -> None:
        async for data, _, _ in log.stream(session, follow=True):
            seen.append(data)

    following = asyncio.create_task(follow())
    for text in (b"a\n", b"b\n"):
        log.append(text)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    log.close()
    await asyncio.wait_for(following, 5)
    assert b"".join(seen) == b"a\nb\n"


async def test_tail_counts_lines_and_since_counts_time() -> None:
    log = Log()
    log.append(b"one\ntwo\n")
    log.append(b"three\nfour")
    assert await collect(log, log.open_session(tail_lines=2)) == b"three\nfour"
    assert await collect(log, log.open_session(tail_lines=0)) == b""
    assert await collect(log, log.open_session(tail_lines=99)) == b"one\ntwo\nthree\nfour"
    assert await collect(log, log.open_session(since=4e9)) == b""


async def test_only_the_end_of_a_very_long_log_is_kept() -> None:
    log = Log()
    for _ in range(20):
        log.append(b"x" * (1 << 20))
    kept = await collect(log, log.open_session())
    assert limits.LOG_MAX_BYTES <= len(kept) <= limits.LOG_MAX_BYTES + (1 << 20)
