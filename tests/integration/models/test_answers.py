"""Many questions at once to a model behind an endpoint, over real HTTP."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from sandrl.errors import AuthenticationError, EndpointError, InputError, UsageError
from sandrl.models import Answer, EndpointModel, Message, ModelEndpoint, Question, Sampling
from tests.support.chat_server import ChatServer
from tests.support.scripted_model import Fault, Says, ScriptedModel
from tests.support.scripted_model import Question as Asked


def questions(count: int) -> list[Question]:
    return [Question(number, [Message("user", f"say {number}")], seed=number) for number in range(count)]


def echo(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"]).upper()


def texts(answers: list[Answer]) -> dict[int, str | None]:
    return {each.number: None if each.reply is None else each.reply.message.content for each in answers}


def ask(server: ScriptedModel, count: int, name: str | None = "scripted", **options: Any) -> list[Answer]:
    with EndpointModel(ModelEndpoint(server.base_url, retries=0), name, **options) as model:
        return list(model.answers(questions(count)))


def test_an_answer_is_heard_of_while_others_are_still_awaited() -> None:
    first_may_go = threading.Event()

    def answer(body: dict[str, Any]) -> str:
        if body["seed"] == 0:
            first_may_go.wait(10)
        return echo(body)

    with ChatServer(answer) as server, EndpointModel(ModelEndpoint(server.base_url), "scripted") as model:
        heard = []
        for each in model.answers(questions(5)):
            heard.append(each)
            if len(heard) == 4:
                first_may_go.set()
    assert heard[-1].number == 0
    assert texts(heard) == {number: f"SAY {number}" for number in range(5)}


def test_a_question_says_how_to_sample() -> None:
    with ChatServer(echo) as server:
        ask(server, 1, "other", sampling=Sampling(temperature=0.7, max_tokens=9))
    [request] = server.requests
    said = {name: request[name] for name in ("model", "temperature", "max_tokens", "top_p", "seed")}
    assert said == {"model": "other", "temperature": 0.7, "max_tokens": 9, "top_p": 1.0, "seed": 0}
    assert "logprobs" not in request


def test_no_more_requests_are_in_flight_than_there_may_be() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def answer(body: dict[str, Any]) -> str:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
        return echo(body)

    with ChatServer(answer) as server:
        assert len(ask(server, 12, batch_size=3)) == 12
    assert most == [3]


def test_a_failed_answer_is_a_value_and_the_others_come() -> None:
    too_long = {"error": {"message": "maximum context length", "code": "context_length_exceeded"}}
    faults = {1: Fault(500), 2: Fault(400, body=too_long), 4: Fault(body={"choices": []})}
    with ScriptedModel(lambda asked: faults.get(asked.body["seed"], Says("here"))) as server:
        found = ask(server, 6)
    assert texts(found) == {number: None if number in faults else "here" for number in range(6)}
    failed = {each.number: each for each in found if each.reply is None}
    assert "maximum context length" in failed[2].failure
    assert {number: each.is_lost for number, each in failed.items()} == {1: True, 2: False, 4: True}


def test_what_concurrent_questions_are_refused_for_is_learned_once_for_all() -> None:
    together = threading.Barrier(4, timeout=10)

    def picky(asked: Asked) -> Says | Fault:
        if "temperature" in asked.body:
            together.wait()
            return Fault(400, body={"error": {"message": "not supported: 'temperature'", "param": "temperature"}})
        return Says("fine")

    with ScriptedModel(picky) as server:
        assert texts(ask(server, 4, batch_size=4)) == dict.fromkeys(range(4), "fine")
    assert len(server.questions) == 8


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthenticationError), (403, AuthenticationError), (404, UsageError)]
)
def test_what_no_further_question_can_change_is_raised(status: int, kind: type[Exception]) -> None:
    with ChatServer(lambda _: status) as server, pytest.raises(kind) as caught:
        ask(server, 3)
    assert server.base_url in str(caught.value)


def test_a_key_is_sent_and_a_missing_one_is_asked_for_by_name() -> None:
    with ChatServer(echo, key="sk-right") as server:
        with EndpointModel(ModelEndpoint(server.base_url, "sk-right"), None) as model:
            model.check()
            assert model.name == "scripted"
        with EndpointModel(ModelEndpoint(server.base_url), None) as model, pytest.raises(AuthenticationError) as caught:
            model.check()
    assert caught.value.hint == "set OPENAI_API_KEY to a key of that endpoint"


def test_nothing_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "sk-of-someone-else")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway-Key: sk-of-someone-else")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with ScriptedModel([Says("here")]) as server:
        ask(server, 1)
        ask(server, 1, "scripted")
        with EndpointModel(ModelEndpoint(server.base_url, "sk-own"), "scripted") as model:
            model.check()
            list(model.answers(questions(1)))
    sent = [dict(asked.headers) for asked in server.questions]
    assert "someone-else" not in str(sent)
    assert [each.get("Authorization") for each in sent] == [None, None, "Bearer sk-own"]


@pytest.mark.parametrize("proxy", ["nonsense://me:hunter2@host:1", "http://me:hunter2@host:port"])
def test_a_proxy_that_is_none_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    nameless = EndpointModel(ModelEndpoint("http://192.0.2.1/v1"), None)
    with nameless as model, pytest.raises(UsageError, match="the proxy that is set in environment variables") as caught:
        model.check()
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_of_several_models_one_must_be_named() -> None:
    with ChatServer(echo, models=("small", "large")) as server:
        nameless = EndpointModel(ModelEndpoint(server.base_url), None)
        with nameless as model, pytest.raises(InputError, match="offers 2 models: small, large"):
            model.check()
        with EndpointModel(ModelEndpoint(server.base_url), "large") as model:
            model.check()


def test_questions_to_an_endpoint_that_is_not_there_fail_soon() -> None:
    with ChatServer(echo) as server:
        pass
    assert "Connection refused" in ask(server, 1)[0].failure
    with (
        EndpointModel(ModelEndpoint(server.base_url), None) as model,
        pytest.raises(EndpointError, match="cannot be reached"),
    ):
        model.check()


@pytest.mark.parametrize("pause", [Fault(pause_seconds=30), Fault(429, {"Retry-After": "50"})], ids=["hang", "pause"])
def test_a_stop_is_heard_within_a_second_while_requests_hang(pause: Fault) -> None:
    stop = threading.Event()
    with (
        ScriptedModel(lambda asked: Says("here") if asked.body["seed"] == 0 else pause) as server,
        EndpointModel(ModelEndpoint(server.base_url), "scripted", stop=stop) as model,
    ):
        heard, began = [], 0.0
        for each in model.answers(questions(5)):
            heard.append(each.number)
            began = time.monotonic()
            stop.set()
        seconds = time.monotonic() - began
    # Less than a request hangs, or a pause lasts.
    assert (heard, seconds < 25.0) == ([0], True)


def test_a_forked_child_asks_for_itself() -> None:
    import os

    with ChatServer(echo) as server, EndpointModel(ModelEndpoint(server.base_url), "scripted") as model:
        model.check()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            text = texts(list(model.answers(questions(1))))[0] or ""
            os.write(writing, text.encode())
            os._exit(0)
        os.close(writing)
        assert os.read(reading, 100) == b"SAY 0"
        os.close(reading)
        os.waitpid(child, 0)
        assert texts(list(model.answers(questions(1)))) == {0: "SAY 0"}
