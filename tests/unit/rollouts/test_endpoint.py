"""A policy behind an endpoint, asked over real HTTP."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.support.chat_server import ChatServer

from sandrl.errors import AuthenticationError, InputError, ServiceError, UsageError
from sandrl.rollouts import EndpointPolicy, Question, Sampling


def questions(count: int) -> list[Question]:
    return [Question([{"role": "user", "content": f"say {number}"}], seed=number) for number in range(count)]


def echo(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"]).upper()


def never() -> bool:
    return False


def test_answers_come_in_the_order_of_the_questions_whatever_the_order_they_arrive_in() -> None:
    first_may_go = threading.Event()

    def answer(body: dict[str, Any]) -> str:
        if body["seed"] == 0:
            first_may_go.wait(10)
        elif body["seed"] == 4:
            first_may_go.set()
        return echo(body)

    with ChatServer(answer) as server:
        policy = EndpointPolicy(server.base_url)
        texts = policy.answer(questions(5), Sampling(), is_stopped=never)
    assert texts == [f"SAY {number}" for number in range(5)]


def test_a_request_says_how_to_sample() -> None:
    with ChatServer(echo) as server:
        policy = EndpointPolicy(server.base_url, model="other")
        policy.answer(questions(1), Sampling(temperature=0.7, max_tokens=9), is_stopped=never)
    [request] = server.requests
    said = {name: request[name] for name in ("model", "temperature", "max_tokens", "top_p", "seed")}
    assert said == {"model": "other", "temperature": 0.7, "max_tokens": 9, "top_p": 1.0, "seed": 0}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(status: int) -> None:
    failures = [status]
    with ChatServer(lambda body: failures.pop() if failures else echo(body)) as server:
        policy = EndpointPolicy(server.base_url)
        assert policy.answer(questions(1), Sampling(), is_stopped=never) == ["SAY 0"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, InputError, "refuses the request"),
        (404, InputError, "no such model or address"),
        (403, AuthenticationError, "refuses the credentials"),
        (503, ServiceError, "fails"),
    ],
)
def test_what_stays_is_an_error_that_names_the_endpoint(status: int, kind: type[Exception], message: str) -> None:
    with ChatServer(lambda _: status) as server:
        policy = EndpointPolicy(server.base_url, retries=0)
        with pytest.raises(kind, match=message) as caught:
            policy.answer(questions(3), Sampling(), is_stopped=never)
    assert server.base_url in str(caught.value)


def test_a_key_is_sent_and_a_missing_one_is_asked_for_by_name() -> None:
    with ChatServer(echo, key="sk-right") as server:
        assert EndpointPolicy(server.base_url, api_key="sk-right").name == "scripted"
        with pytest.raises(AuthenticationError) as caught:
            EndpointPolicy(server.base_url)
    assert caught.value.hint == "set OPENAI_API_KEY"


def test_of_several_models_one_must_be_named() -> None:
    with ChatServer(echo, models=("small", "large")) as server:
        with pytest.raises(InputError, match="offers 2 models: small, large"):
            EndpointPolicy(server.base_url)
        assert EndpointPolicy(server.base_url, model="large").name == "large"


def test_an_endpoint_that_is_not_there_is_said_to_be_silent() -> None:
    with ChatServer(echo) as server:
        gone = server.base_url
    with pytest.raises(ServiceError, match="does not answer"):
        EndpointPolicy(gone, retries=0)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="must begin with http"):
        EndpointPolicy("localhost:8000")


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="has a user or password in it") as caught:
        EndpointPolicy("http://me:hunter2@localhost:8000/v1")
    assert "hunter2" not in str(caught.value)


def test_a_stop_is_heard_while_requests_hang() -> None:
    may_end, asked = threading.Event(), threading.Event()

    def hang(body: dict[str, Any]) -> str:
        asked.set()
        may_end.wait(30)
        return echo(body)

    with ChatServer(hang) as server:
        policy = EndpointPolicy(server.base_url)
        assert policy.answer(questions(2), Sampling(), is_stopped=asked.is_set) is None
        may_end.set()


def test_an_answer_without_text_is_empty() -> None:
    with ChatServer(lambda _: "") as server:
        assert EndpointPolicy(server.base_url).answer(questions(1), Sampling(), is_stopped=never) == [""]
