"""An endpoint that limits requests loses no answer, however it says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate

import pytest

from sandrl.errors import AuthenticationError
from sandrl.events import EndpointLimited, Event
from sandrl.models import Answer, EndpointModel, Message, ModelEndpoint, Question
from sandrl.models import pace as pace_module
from sandrl.models.pace import wait_seconds
from tests.support.limited_model import Crowd, Limit, says_its_number
from tests.support.scripted_model import MODEL, Fault, ScriptedModel

HTML = b"<html><body><h1>429 Too Many Requests</h1></body></html>"

REFUSALS: dict[str, Callable[[float], Fault]] = {
    "seconds": lambda left: Fault(429, {"Retry-After": f"{left:.3f}"}),
    "milliseconds": lambda left: Fault(429, {"retry-after-ms": f"{left * 1000:.0f}"}),
    "date": lambda left: Fault(429, {"Retry-After": formatdate(time.time() + 1, usegmt=True)}),
    "zero": lambda _: Fault(429, {"Retry-After": "0"}),
    "nothing": lambda _: Fault(429),
    "HTML": lambda _: Fault(429, {"Content-Type": "text/html"}, raw=HTML),
    "reset": lambda left: Fault(
        429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{left * 1000:.0f}ms"}
    ),
    # Without a time to wait it is a failure.
    "503": lambda left: Fault(503, {"Retry-After": f"{max(left, 0.001):.3f}"}),
    "529": lambda _: Fault(529, body={"error": {"type": "overloaded_error", "message": "Overloaded"}}),
}


def answers(server: ScriptedModel, count: int, **options: object) -> Sequence[Answer]:
    questions = [Question(number, [Message("user", f"question {number}")]) for number in range(count)]
    with EndpointModel(ModelEndpoint(server.base_url, retries=1), MODEL, **options) as model:  # type: ignore[arg-type]
        return list(model.answers(questions))


def check_all_are_there(found: Sequence[Answer], count: int) -> None:
    texts = {each.number: each.reply and each.reply.message.content for each in found}
    assert texts == {number: f"question {number}" for number in range(count)}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_FIRST_PAUSE_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("way", "has_bucket"), [*((way, False) for way in REFUSALS), ("seconds", True), ("nothing", True)]
)
def test_no_answer_is_lost_and_no_wait_is_a_failure(way: str, has_bucket: bool) -> None:
    told: list[Event] = []
    limit = Limit(says_its_number, REFUSALS[way], count=10, seconds=0.1, has_bucket=has_bucket)
    with ScriptedModel(limit) as server:
        found = answers(server, 40, emit=told.append)
    check_all_are_there(found, 40)
    assert sum(each.reply.retries for each in found if each.reply) == 0
    assert limit.refused
    (event,) = told
    assert isinstance(event, EndpointLimited)
    assert (event.address, event.seconds > 0) == (server.base_url, True)


def test_an_endpoint_that_breaks_connections_under_load_gets_fewer_at_once() -> None:
    crowd = Crowd(says_its_number, at_once=4)
    with ScriptedModel(crowd) as server:
        check_all_are_there(answers(server, 80), 80)
    assert 0 < crowd.refused < 160


def test_after_a_wish_to_stop_nobody_waits_for_a_limit() -> None:
    stopping = threading.Event()
    with ScriptedModel([Fault(429, {"Retry-After": "900"})]) as server:
        found = answers(server, 3, emit=lambda _: stopping.set(), is_stopping=stopping.is_set)
    assert [each.is_lost for each in found] == [True] * 3
    assert all("a stop was requested, and it asks to wait" in each.failure for each in found)


def test_an_endpoint_without_quota_or_with_a_wait_of_hours_is_not_waited_for() -> None:
    used_up = Fault(429, {"Retry-After": "1"}, {"error": {"type": "insufficient_quota", "message": "Pay first."}})
    for fault in (used_up, Fault(402, body={"error": {"message": "Insufficient Balance"}})):
        with ScriptedModel([fault]) as server, pytest.raises(AuthenticationError) as caught:
            answers(server, 3)
        assert "has no quota left" in caught.value.message
        assert "waiting does not help" in str(caught.value.hint)
    with ScriptedModel([Fault(429, {"Retry-After": "86400"}, {"error": {"message": "Daily limit"}})]) as server:
        found = answers(server, 3)
    assert [each.is_lost for each in found] == [True] * 3
    assert all("takes no requests for now: HTTP 429: Daily limit" in each.failure for each in found)


def test_an_endpoint_that_refuses_everything_for_long_counts_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "PATIENCE_SECONDS", 0.3)
    with ScriptedModel([Fault(429)]) as server:
        found = answers(server, 40)
        assert [each.is_lost for each in found] == [True] * 40


def test_clients_of_an_endpoint_wait_together() -> None:
    limit = Limit(says_its_number, REFUSALS["seconds"], count=10, seconds=0.25)
    with ScriptedModel(limit) as server:
        found: list[Sequence[Answer]] = []
        threads = [threading.Thread(target=lambda: found.append(answers(server, 30))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 3
    for each in found:
        check_all_are_there(each, 30)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 10.0),
        ({"retry-after": "0", "x-ratelimit-reset": "3"}, 3.0),
        ({"x-ratelimit-reset-requests": "1m2s", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        (
            {
                "x-ratelimit-reset-requests": "42s",
                "x-ratelimit-reset-tokens": "120ms",
                "x-ratelimit-remaining-requests": "0",
            },
            42.0,
        ),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T00:00:05Z", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 5.0),
        ({"x-ratelimit-reset": "1767225609000", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 9.0),
        ({"x-ratelimit-reset": "1767225609", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 9.0),
        ({"x-ratelimit-reset-requests": "6h"}, 60.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_wait_is_read_from_the_headers_of_every_kind_of_server(headers: dict[str, str], seconds: float) -> None:
    assert wait_seconds(headers) == pytest.approx(seconds, abs=0.01)
