"""The client against a server that speaks the real protocol, with every fault that servers have."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import pytest

from sandrl.errors import AuthenticationError, EndpointError, RequestRefusedError, UsageError
from sandrl.models import client
from sandrl.models.client import ModelEndpoint, Stopped
from sandrl.models.endpoint import EndpointModel
from sandrl.models.messages import Message, Reply, ToolCall
from sandrl.models.protocol import Sampling
from tests.support.scripted_model import MODEL, Answer, Fault, Question, Says, Script, ScriptedModel

HELLO = (Message("user", "Hello."),)
TOOL = {"name": "execute_code", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


def ask(
    script: Script | Sequence[Answer],
    messages: Sequence[Message] = HELLO,
    sampling: Sampling | None = None,
    **endpoint: object,
) -> tuple[Reply, list[Question]]:
    with ScriptedModel(script) as server:
        model = EndpointModel(ModelEndpoint(server.base_url, **endpoint), MODEL, sampling)  # type: ignore[arg-type]
        return model.reply(messages, (TOOL,)), server.questions


def test_an_answer_comes_with_its_tool_calls_its_tokens_and_their_logprobs() -> None:
    reply, questions = ask([Says("let me see", [("execute_code", {"code": "1"})])])
    assert reply.message.content == "let me see"
    assert reply.message.tool_calls == (ToolCall("call_0", "execute_code", '{"code": "1"}'),)
    assert reply.message.tokens == ("let", "me", "see")
    assert reply.message.logprobs == (-0.5, -0.5, -0.5)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.retries) == (10, 3, 0)
    assert questions[0].body["tools"] == [{"type": "function", "function": TOOL}]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500),
        Fault(503, body={"detail": "loading"}),
        Fault(cut=True),
        Fault(raw=b"<html>"),
        Fault(body={"choices": []}),
        Fault(pause_seconds=3.0),
    ],
    ids=["500", "503", "cut", "no-json", "no-choice", "slow"],
)
def test_what_may_pass_is_asked_again(fault: Fault) -> None:
    reply, questions = ask([fault, Says("here")], timeout_seconds=1.0)
    assert (reply.message.content, reply.retries, len(questions)) == ("here", 1, 2)


def test_an_endpoint_that_never_answers_is_the_endpoints_fault() -> None:
    with pytest.raises(EndpointError, match="did not answer after 3 tries: HTTP 500: tired"):
        ask([Fault(500, body={"error": {"message": "tired"}})], retries=2)


def test_a_refused_key_is_told_without_the_key() -> None:
    with pytest.raises(AuthenticationError, match="HTTP 401") as caught:
        ask([Fault(401, body={"error": {"message": "bad key"}})], key="sk-very-secret")
    assert (
        "sk-very-secret"
        not in f"{caught.value.message} {caught.value.hint} {ModelEndpoint('http://h/v1', 'sk-secret')}"
    )


def test_a_key_does_not_follow_a_redirection() -> None:
    seen: list[str | None] = []

    def elsewhere(question: Question) -> Answer:
        seen.append(question.headers.get("Authorization"))
        return Says("stolen")

    with ScriptedModel(elsewhere) as other:
        target = {"Location": f"{other.base_url}/chat/completions"}
        with pytest.raises(RequestRefusedError, match="HTTP 307"):
            ask([Fault(307, target)], key="sk-very-secret")
    assert seen == []


def test_what_a_model_does_not_take_is_left_out_from_then_on() -> None:
    def picky(question: Question) -> Answer:
        for name in ("max_tokens", "temperature", "logprobs"):
            if name in question.body:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                return Fault(400, body={"error": {"message": message, "param": name}})
        return Says("fine")

    reply, questions = ask(picky, sampling=Sampling(max_tokens=512))
    assert reply.message.content == "fine"
    assert len(questions) == 4
    assert questions[-1].body["max_completion_tokens"] == 512


def test_a_model_that_has_only_the_responses_api_is_asked_there() -> None:
    def newer(question: Question) -> Answer:
        if question.path.endswith("chat/completions"):
            message = "This model is only supported in v1/responses and not in v1/chat/completions."
            return Fault(404, body={"error": {"message": message, "param": "model"}})
        if question.turn:
            return Says("done")
        return Says("", [("execute_code", {"code": "1"})])

    with ScriptedModel(newer) as server:
        model = EndpointModel(ModelEndpoint(server.base_url), MODEL)
        first = model.reply(HELLO, (TOOL,)).message
        assert first.tool_calls == (ToolCall("call_0", "execute_code", '{"code": "1"}'),)
        result = Message("tool", "2", tool_call_id="call_0", name="execute_code")
        assert model.reply((*HELLO, first, result), (TOOL,)).message.content == "done"
        last = server.questions[-1]
    assert last.path == "/v1/responses"
    assert [item.get("type", item.get("role")) for item in last.body["input"]] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert last.body["store"] is False
    assert last.body["tools"] == [{"type": "function", **TOOL}]


def test_a_server_that_has_no_address_for_chat_is_told_as_such() -> None:
    with pytest.raises(EndpointError, match="neither chat completions nor the Responses API"):
        ask([Fault(404, body={"detail": "Not Found"})])


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(400, body={"error": {"message": "As of transformers v4.44, default chat template is no longer allowed"}}),
        Fault(404, body={"detail": "Not Found"}),
    ],
    ids=["no-template", "no-chat"],
)
def test_a_base_model_continues_the_text_of_the_conversation(refusal: Fault) -> None:
    told: list[object] = []
    with ScriptedModel(lambda question: Says("base") if question.path == "/v1/completions" else refusal) as server:
        sampling = Sampling(stop=("END",), top_k=3, extra_body={"chat_template_kwargs": {}})
        model = EndpointModel(ModelEndpoint(server.base_url), MODEL, sampling, emit=told.append)
        for _ in range(2):
            assert model.reply((Message("system", "Write code."), Message("user", "Add."))).message.content == "base"
    body = server.questions[-1].body
    assert (body["prompt"], body["max_tokens"]) == ("Write code.\n\nAdd.\n\n", 2048)
    assert (body["stop"], body["top_k"], "chat_template_kwargs" in body) == (["END"], 3, False)
    assert [str(each).count("continues the text") for each in told] == [1]


def test_an_unknown_model_is_told_with_those_there_are() -> None:
    with ScriptedModel([Says("")], models=("Qwen/Qwen3-8B", "other")) as server:
        with pytest.raises(UsageError, match="has no model 'Qwen/Qwen3-9B'") as caught:
            EndpointModel(ModelEndpoint(server.base_url), "Qwen/Qwen3-9B").check()
        assert caught.value.hint == "set `model` to one of its models: Qwen/Qwen3-8B, other"
    missing = {"error": {"message": "The model `m` does not exist", "type": "NotFoundError"}}
    with pytest.raises(UsageError, match="has no model"):
        ask([Fault(404, body=missing)])


def test_a_server_without_a_list_of_models_can_be_asked() -> None:
    with ScriptedModel([Says("")], models=None) as server:
        EndpointModel(ModelEndpoint(server.base_url), "anything").check()


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_an_address_that_is_none_is_a_usage_error(address: str) -> None:
    with pytest.raises(UsageError, match="base_url is not an address"):
        ModelEndpoint(address)


def test_a_key_in_an_address_is_refused_without_being_told() -> None:
    with pytest.raises(UsageError) as caught:
        ModelEndpoint("http://user:hunter22@host/v1")
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"function": {"name": "f", "arguments": {"a": 1}}}, ("f", '{"a": 1}')),
        ({"function": {"name": None, "arguments": None}}, ("", "")),
        ({"function": "f"}, ("", "")),
        ("f(1)", ("", "")),
        ({"id": "", "function": {"name": "f", "arguments": "{"}}, ("f", "{")),
    ],
)
def test_a_malformed_tool_call_is_a_tool_call(call: object, expected: tuple[str, str]) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply, _ = ask([Fault(body={"choices": [{"message": message}]})])
    (made,) = reply.message.tool_calls
    assert (made.name, made.arguments) == expected
    assert made.id


def test_logprobs_that_are_no_numbers_are_none_at_all() -> None:
    content = [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": None}]
    choice = {"message": {"content": "ab"}, "logprobs": {"content": content}}
    reply, _ = ask([Fault(body={"choices": [choice]})])
    assert (reply.message.tokens, reply.message.logprobs) == ((), ())


def test_arguments_that_are_no_json_are_sent_back_as_json() -> None:
    said = Message("assistant", "", (ToolCall("1", "f", "{broken"),))
    _, questions = ask([Says("ok")], (*HELLO, said, Message("tool", "no", tool_call_id="1")))
    assert questions[0].messages[1]["tool_calls"][0]["function"]["arguments"] == '{"malformed": "{broken"}'


@pytest.mark.parametrize("is_of_responses", [True, False])
def test_little_is_sent_back_of_megabytes_that_are_no_json(is_of_responses: bool) -> None:
    written = "{begin" + "x" * 1_750_000 + "end"
    item = {"type": "function_call", "call_id": "1", "name": "f", "arguments": written}
    said = Message("assistant", "", (ToolCall("1", "f", written),), items=(item,) if is_of_responses else ())
    script: list[Answer] = [Fault(404, body={"detail": "Not Found"}), Says("ok")] if is_of_responses else [Says("ok")]
    _, questions = ask(script, (*HELLO, said, Message("tool", "no", tool_call_id="1")))
    sent = questions[-1].messages[1]
    arguments = sent["arguments"] if is_of_responses else sent["tool_calls"][0]["function"]["arguments"]
    malformed = json.loads(arguments)["malformed"]
    assert len(malformed) < 2100
    assert (malformed[:6], malformed[-4:]) == ("{begin", "xend")
    assert "1,748,009 characters left out" in malformed


def test_who_wants_no_answer_any_more_waits_for_none() -> None:
    stop = threading.Event()
    with ScriptedModel([Fault(500, {"Retry-After": "50"})]) as server:
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(Stopped):
            EndpointModel(ModelEndpoint(server.base_url), MODEL, stop=stop).reply(HELLO)
