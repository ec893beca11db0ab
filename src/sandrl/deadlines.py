"""Calls on threads of their own, and calls with a time limit.

A library call that waits for minutes cannot be stopped from outside, so it runs in a daemon thread, which is abandoned
when the time limit is over and does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

Answer = TypeVar("Answer")


class TookTooLong(Exception):
    """There is no answer yet."""


def answer_within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """Asks in a thread of its own; whatever the question raises is raised here.

    Raises:
        TookTooLong: If there is no answer by then; nobody hears it any more.
    """
    answer = in_background(ask)
    try:
        error = answer.exception(seconds)
    except FutureTimeoutError:
        raise TookTooLong from None
    if error is not None:
        raise error
    return answer.result()


def in_background(work: Callable[[], Answer]) -> Future[Answer]:
    """Does something on a thread of its own, which keeps no process alive."""
    end: Future[Answer] = Future()

    def do() -> None:
        try:
            end.set_result(work())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again where it is waited for
            end.set_exception(error)

    threading.Thread(target=do, name="sandrl-background", daemon=True).start()
    return end
