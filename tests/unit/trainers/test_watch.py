"""The eye on a service that a training depends on."""

from __future__ import annotations

import threading

import pytest

from sandrl.errors import EndpointError
from sandrl.events import Event, Warned
from sandrl.trainers.art import loop


def test_a_service_that_stops_answering_is_said_once_and_so_is_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_PAUSE_SECONDS", 0.01)
    told: list[Event] = []
    answers = iter([True, False, True, False, False, False, False, True])
    asked_all = threading.Event()

    def check() -> None:
        answer = next(answers, None)
        if answer is None:
            asked_all.set()
        elif not answer:
            raise EndpointError("Tinker cannot be reached")

    with loop.watched(check, told.append):
        assert asked_all.wait(60)
    away, back = told
    assert isinstance(away, Warned)
    assert isinstance(back, Warned)
    assert away.message == "Tinker cannot be reached"
    assert away.hint is not None
    assert "`resume`" in away.hint
    assert back.message == "it answers again"
