from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sandrl.cli.sandboxes.ls import repeat
from sandrl.errors import InterruptedRunError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandrl.sandboxes.listing import OwnedSandbox


@pytest.fixture(autouse=True)
def kept_handlers() -> Iterator[None]:
    """Restores the handlers: a command that was interrupted ignores further signals until its process ends."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def _strike_and_swallow(number: int) -> None:
    """Receives a signal where a library catches every exception."""
    with suppress(Exception):
        os.kill(os.getpid(), number)
        time.sleep(5)


def _watch_with_signal(number: int) -> int:
    looks = 0

    def look(*, quiet: bool = False) -> list[OwnedSandbox]:
        nonlocal looks
        looks += 1
        assert looks < 10, "the signal is lost"
        if looks == 3:
            _strike_and_swallow(number)
        return []

    repeat(look, lambda listed: None, 0.001, live=False)
    return looks


def test_ctrl_c_ends_watching_also_where_its_exception_was_swallowed() -> None:
    assert _watch_with_signal(signal.SIGINT) == 3


def test_another_signal_ends_watching_with_its_exit_code() -> None:
    with pytest.raises(InterruptedRunError) as caught:
        _watch_with_signal(signal.SIGTERM)
    assert caught.value.exit_code == 128 + signal.SIGTERM


def test_what_a_look_could_not_see_is_said_once_and_again_when_that_changes(capsys: pytest.CaptureFixture[str]) -> None:
    seen = iter(["", "not asked: two", "not asked: two", ""])
    gap = ""

    def look(*, quiet: bool = False) -> list[OwnedSandbox]:
        nonlocal gap
        found = next(seen, None)
        if found is None:
            _strike_and_swallow(signal.SIGINT)
        else:
            gap = found
        return []

    repeat(look, lambda listed: None, 0.001, live=False, gaps=lambda: gap)
    assert capsys.readouterr().err.splitlines() == ["sandrl: not asked: two", "sandrl: all answer again"]
