"""Answers of the viewer that are kept: each is made once, and a slow one holds up no other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.viewer.recent import Recent


def test_a_slow_answer_is_made_once_and_holds_up_no_other_question() -> None:
    recent, begun, goes_on, made = Recent[str](2), threading.Event(), threading.Event(), list[str]()

    def make_slowly() -> str:
        begun.set()
        assert goes_on.wait(30)
        made.append("slow")
        return "slow"

    with ThreadPoolExecutor() as pool:
        first = pool.submit(recent.get, 1, make_slowly)
        assert begun.wait(30)
        second = pool.submit(recent.get, 1, make_slowly)
        assert recent.get(2, lambda: "quick") == "quick"
        goes_on.set()
        assert (first.result(30), second.result(30), made) == ("slow", "slow", ["slow"])


def test_an_answer_that_failed_is_made_again() -> None:
    recent = Recent[int]()
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 1) == 1


def test_the_oldest_answer_goes_first() -> None:
    recent = Recent[int](2)
    for question in ("a", "b", "a", "c"):
        recent.get(question, lambda: 1)
    assert [recent.get(question, lambda: 2) for question in ("a", "c", "b")] == [1, 1, 2]
