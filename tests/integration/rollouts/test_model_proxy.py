"""The proxy through which an agent uses a model: what it answers, what it records, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import openai
import pytest

from sandrl.errors import EndpointError
from sandrl.models import EndpointModel, Message, ModelEndpoint, Reply, Stopped, ToolCall
from sandrl.models.messages import TOKEN_ID
from sandrl.problems import Problem
from sandrl.rollouts.episodes import EpisodeOptions, new_episode
from sandrl.rollouts.proxy import Conversation, ModelProxy, ProxyLimits
from sandrl.rollouts.results import episode_row, result_of
from sandrl.runs import TrajectoryRow
from sandrl.scoring.records import Place
from tests.support.scripted_model import Fault, Question, Says, ScriptedModel

SECRET = "sk-of-the-upstream-endpoint"
BASH = {
    "name": "bash",
    "description": "Runs a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
TOOLS = [{"type": "function", "function": BASH}]


class Policy:
    """A model whose tokens are the bytes of what it reads and says, after a mark for the role of each message."""

    name = "policy"
    has_tools = True

    def __init__(self, say: Callable[[Sequence[Message]], str | Message], *, tells: bool = True) -> None:
        self.say = say
        self.tells = tells
        self.asked: list[tuple[Message, ...]] = []

    def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        stop: threading.Event | None = None,
    ) -> Reply:
        self.asked.append(tuple(messages))
        said = self.say(messages)
        message = said if isinstance(said, Message) else Message("assistant", said, finish_reason="stop")
        prompt = tuple(token for each in messages for token in tokens_of(each))
        sampled = tokens_of(message)[1:]
        if self.tells:
            ids = tuple(f"{TOKEN_ID}{token}" for token in sampled)
            values = {each: getattr(message, each) for each in ("content", "tool_calls", "finish_reason")}
            message = Message("assistant", **values, tokens=ids, logprobs=tuple(-token / 256 for token in sampled))
        return Reply(message, len(prompt) + 1, len(sampled), prompt=(*prompt, 1000) if self.tells else ())

    def close(self) -> None:
        pass


def tokens_of(message: Message) -> tuple[int, ...]:
    mark = {"system": 1001, "user": 1002, "tool": 1003, "assistant": 1000}[message.role]
    calls = "".join(f"<{call.name} {call.arguments}>" for call in message.tool_calls)
    return (mark, *(message.content + calls).encode(), 999)


def echo(messages: Sequence[Message]) -> str:
    return f"answer {sum(each.role == 'assistant' for each in messages) + 1}"


@contextmanager
def address_of(conversation: Conversation) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    conversation.listen(listener)
    with conversation:
        yield f"http://{host}:{port}"


@contextmanager
def client_of(conversation: Conversation, **options: Any) -> Iterator[openai.OpenAI]:
    with (
        address_of(conversation) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key=conversation.token, **options) as client,
    ):
        yield client


def said_in(conversation: Conversation) -> list[list[str]]:
    return [[turn.content for turn in branch.turns] for branch in conversation.recording.branches]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


def ask(client: openai.OpenAI, *messages: Any, **options: Any) -> Any:
    found = client.chat.completions.create(model="any", messages=list(messages), **options)
    return found.choices[0].message


def raw(conversation: Conversation, request: bytes) -> bytes:
    """What comes back for some bytes, until the proxy closes the connection or is quiet."""
    with conversation.connect() as connection:
        connection.settimeout(2)
        with suppress(OSError):
            connection.sendall(request)
        got = b""
        with suppress(OSError):
            while piece := connection.recv(65536):
                got += piece
        return got


def post(
    conversation: Conversation, body: bytes, *, path: str = "/v1/chat/completions", token: str | None = None
) -> tuple[int, dict[str, Any]]:
    given = conversation.token if token is None else token
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {given}\r\nContent-Length: {len(body)}\r\n"
    with conversation.connect() as connection:
        with suppress(OSError):
            connection.sendall(f"{head}\r\n".encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, json.loads(response.read())


def test_a_history_that_is_sent_back_unchanged_is_one_branch_with_the_ids_and_logprobs_of_the_model() -> None:
    policy = Policy(echo)
    conversation = ModelProxy(policy).open()
    with client_of(conversation) as client:
        first = ask(client, user("one"))
        assert ask(client, user("one"), first.model_dump(exclude_none=True), user("two")).content == "answer 2"
    (branch,) = conversation.recording.branches
    assert [each.role for each in branch.messages] == ["user", "assistant", "user", "assistant"]
    assert branch.is_trainable
    prompts = [(*(token for each in asked for token in tokens_of(each)), 1000) for asked in policy.asked]
    assert list(branch.prompts) == prompts
    for turn in branch.turns:
        sampled = [*turn.content.encode(), 999]
        assert [int(token.removeprefix(TOKEN_ID)) for token in turn.tokens] == sampled
        assert list(turn.logprobs) == [-token / 256 for token in sampled]
    assert conversation.recording.turns == 2


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([user("one"), assistant("answer 1, rewritten"), user("two")], [["answer 1"], ["answer 2"]]),
        ([user("two")], [["answer 1"], ["answer 1"]]),
        ([user("one")], [["answer 1"], ["answer 1"]]),
        ([{"role": "system", "content": "another agent"}, user("one")], [["answer 1"], ["answer 1"]]),
        ([user("one"), user("two")], [["answer 1"], ["answer 1"]]),
    ],
    ids=["rewritten", "shortened", "asked again", "another system prompt", "answer left out"],
)
def test_a_history_that_was_changed_begins_a_branch_in_which_only_the_new_answer_is_trained_on(
    history: list[Any], expected: list[list[str]]
) -> None:
    conversation = ModelProxy(Policy(echo)).open()
    with client_of(conversation) as client:
        ask(client, user("one"))
        ask(client, *history)
    assert said_in(conversation) == expected


def test_a_branch_that_was_left_is_continued_where_its_history_comes_back() -> None:
    conversation = ModelProxy(Policy(echo)).open()
    with client_of(conversation) as client:
        ask(client, user("main"))
        ask(client, {"role": "system", "content": "sub-agent"}, user("find it"))
        ask(client, user("main"), assistant("answer 1"), user("go on"))
    assert said_in(conversation) == [["answer 1", "answer 2"], ["answer 1"]]


def test_a_history_that_the_model_reads_with_other_tokens_begins_a_branch() -> None:
    def say(messages: Sequence[Message]) -> Message:
        return Message("assistant", "same text", finish_reason="stop")

    class Retokenised(Policy):
        def reply(self, *arguments: Any, **options: Any) -> Reply:
            reply = super().reply(*arguments, **options)
            message = Message("assistant", "same text", tokens=(f"{TOKEN_ID}7",), logprobs=(-1.0,))
            return Reply(message, reply.prompt_tokens, 1, prompt=reply.prompt)

    conversation = ModelProxy(Retokenised(say)).open()
    with client_of(conversation) as client:
        ask(client, user("one"))
        ask(client, user("one"), assistant("same text"), user("two"))
    first, second = conversation.recording.branches
    assert [each.is_given for each in second.messages] == [False, True, False, False]
    assert len(first.turns) == len(second.turns) == 1


def test_answers_to_equal_requests_at_once_are_separate_branches() -> None:
    together = threading.Barrier(4)

    def say(messages: Sequence[Message]) -> str:
        together.wait(20)
        return "same"

    conversation = ModelProxy(Policy(say)).open()
    with client_of(conversation) as client:
        threads = [threading.Thread(target=ask, args=(client, user("one"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said_in(conversation) == [["same"]] * 4


def test_without_tokens_of_the_model_a_branch_is_not_trainable() -> None:
    conversation = ModelProxy(Policy(echo, tells=False)).open()
    with client_of(conversation) as client:
        ask(client, user("one"))
        ask(client, user("one"), assistant("answer 1"), user("two"))
    (branch,) = conversation.recording.branches
    assert (len(branch.turns), branch.is_trainable) == (2, False)


def test_tool_calls_are_answered_and_recognised_when_they_come_back() -> None:
    def say(messages: Sequence[Message]) -> str | Message:
        if messages[-1].role == "tool":
            return messages[-1].content
        return Message("assistant", "", (ToolCall("c1", "bash", '{"command":  "ls"}'),), finish_reason="tool_calls")

    policy = Policy(say)
    conversation = ModelProxy(policy).open()
    with client_of(conversation) as client:
        said = ask(client, user("one"), tools=TOOLS)
        (call,) = said.tool_calls
        # As a client writes it that reads arguments and writes them anew.
        call.function.arguments = json.dumps(json.loads(call.function.arguments))
        result = {"role": "tool", "tool_call_id": call.id, "content": "a.txt"}
        assert ask(client, user("one"), said.model_dump(exclude_none=True), result, tools=TOOLS).content == "a.txt"
    (branch,) = conversation.recording.branches
    assert branch.tools == (BASH,)
    # The model reads its own words again, not the client's copy.
    assert policy.asked[1][1].tool_calls[0].arguments == '{"command":  "ls"}'


def test_a_model_without_tools_refuses_them_by_name() -> None:
    policy = Policy(echo)
    policy.has_tools = False
    conversation = ModelProxy(policy).open()
    with client_of(conversation) as client:
        with pytest.raises(openai.BadRequestError, match="policy cannot use tools; use a text mode"):
            ask(client, user("one"), tools=TOOLS)
        assert ask(client, user("one")).content == "answer 1"


def test_a_stream_has_the_same_answer() -> None:
    conversation = ModelProxy(Policy(echo)).open()
    with client_of(conversation) as client:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(client.chat.completions.create(model="any", messages=[user("one")], **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "answer 1"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == len(b"answer 1") + 1


def test_responses_are_answered_streamed_and_continued() -> None:
    def say(messages: Sequence[Message]) -> str | Message:
        if messages[-1].role == "tool":
            return "done"
        call = ToolCall("c1", "bash", '{"command": "ls"}')
        return Message("assistant", "looking", (call,), finish_reason="tool_calls")

    conversation = ModelProxy(Policy(say)).open()
    tools: Any = [{"type": "function", "strict": False, **BASH}]
    with client_of(conversation) as client:
        asked: list[Any] = [user("one")]
        with client.responses.stream(model="any", input=asked, instructions="be quick", tools=tools) as stream:
            kinds = [event.type for event in stream]
            first = stream.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert first.output_text == "looking"
        asked += [item.model_dump(exclude_none=True) for item in first.output]
        asked.append({"type": "function_call_output", "call_id": "c1", "output": "a.txt"})
        second = client.responses.create(model="any", input=asked, instructions="be quick", tools=tools)
    assert second.output_text == "done"
    (branch,) = conversation.recording.branches
    assert [each.role for each in branch.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert branch.is_trainable


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ProxyLimits(turns=1), "more than 1 turns"),
        (ProxyLimits(requests=1), "more than 1 requests"),
        (ProxyLimits(tokens=1), "1 are allowed"),
        (ProxyLimits(kept_bytes=1), "conversations of the agent have more than 1 bytes"),
    ],
)
def test_a_request_beyond_a_limit_ends_the_conversation_with_a_reason(limits: ProxyLimits, reason: str) -> None:
    policy = Policy(echo)
    conversation = ModelProxy(policy).open(limits)
    with client_of(conversation) as client:
        ask(client, user("one"))
        for _ in range(2):
            with pytest.raises(openai.AuthenticationError, match=reason):
                ask(client, user("two"))
    assert reason in conversation.recording.end
    assert len(policy.asked) == 1


def test_what_is_kept_is_counted_as_it_is_written() -> None:
    conversation = ModelProxy(Policy(echo)).open()
    with client_of(conversation) as client:
        asked = [user("\u00e9\0" * 1000)]
        for _ in range(3):
            asked += [assistant(ask(client, *asked, tools=TOOLS).content), user("go on")]
        ask(client, user("\u00e9\0" * 1000))
    recording = conversation.recording
    written = sum(len(branch.to_row().model_dump_json().encode()) for branch in recording.branches)
    assert abs(recording.kept_bytes - written) < 200


def test_a_body_beyond_the_limit_ends_the_conversation_before_it_is_read() -> None:
    conversation = ModelProxy(Policy(echo)).open(ProxyLimits(body_bytes=1000))
    with conversation:
        status, _ = post(conversation, b"x" * 1001)
        assert status == 413
        assert "more than 1000 bytes" in conversation.recording.end
        status, document = post(conversation, json.dumps({"messages": [user("one")]}).encode())
    assert (status, "the episode is over" in document["error"]["message"]) == (401, True)


def test_chunks_beyond_the_limit_end_the_conversation() -> None:
    conversation = ModelProxy(Policy(echo)).open(ProxyLimits(body_bytes=1000))
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: {conversation.token}\r\n"
    with conversation:
        chunks = b"400\r\n" + b"x" * 1024 + b"\r\n"
        assert b" 413 " in raw(conversation, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
    assert "more than 1000 bytes" in conversation.recording.end


def test_more_requests_at_once_than_allowed_are_to_come_again() -> None:
    begun, go = threading.Event(), threading.Event()

    def say(messages: Sequence[Message]) -> str:
        begun.set()
        go.wait(20)
        return "late"

    conversation = ModelProxy(Policy(say)).open(ProxyLimits(parallel=1))
    with client_of(conversation, max_retries=0) as client:
        thread = threading.Thread(target=ask, args=(client, user("one")))
        thread.start()
        assert begun.wait(20)
        with pytest.raises(openai.RateLimitError):
            ask(client, user("two"))
        go.set()
        thread.join()
        assert ask(client, user("two")).content == "late"
    assert said_in(conversation) == [["late"], ["late"]]


def test_only_the_token_of_the_conversation_opens_it() -> None:
    proxy = ModelProxy(Policy(echo))
    body = json.dumps({"messages": [user("one")]}).encode()
    with proxy.open() as one, proxy.open() as other:
        for token in ("", "wrong", other.token, f"{one.token}x", "\xff"):
            status, document = post(one, body, token=token)
            assert (status, document["error"]["type"]) == (401, "authentication_error")
        assert post(one, body)[0] == 200
        assert other.recording.turns == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"messages": NaN}',
        b"[" * 200_000,
        b'{"messages": [' + b"[]," * 100_000 + b"[]]}",
        b'{"messages":' * 50_000,
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        '{"messages": []}'.encode("utf-16"),
        b'{"messages": ' + b"9" * 10_000 + b"}",
        b'{"messages": []}',
        b'{"messages": [1]}',
        b'{"messages": [{"role": "root", "content": "x"}]}',
        b'{"messages": [{"role": ["user"], "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"messages": [{"role": "assistant", "content": [{"type": {}}]}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "web_search"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": ["required"]}',
        b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}',
        b'{"messages": [{"role": "user", "content": "x"}], "stream": "yes"}',
        b'{"input": {"a": 1}, "instructions": 3}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_a_body_that_is_no_request_is_refused_in_the_form_of_the_protocol(body: bytes, path: str) -> None:
    policy = Policy(echo)
    with ModelProxy(policy).open() as conversation:
        status, document = post(conversation, body, path=path)
        assert (status, document["error"]["type"]) == (400, "invalid_request_error")
        assert document.get("type") == ("error" if path == "/v1/messages" else None)
        assert (policy.asked, conversation.recording.end) == ([], "")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"n": 2}),
        ("/v1/chat/completions", {"stop": ["a"]}),
        ("/v1/chat/completions", {"response_format": {"type": "json_object"}}),
        ("/v1/messages", {"stop_sequences": ["a"]}),
        ("/v1/messages", {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}}),
        ("/v1/responses", {"text": {"format": {"type": "json_object"}}}),
        ("/v1/responses", {"tools": [{"type": "web_search"}]}),
        ("/v1/responses", {"previous_response_id": "resp_1"}),
    ],
)
def test_a_field_that_the_policy_cannot_be_held_to_is_refused_by_its_name(path: str, fields: dict[str, Any]) -> None:
    with ModelProxy(Policy(echo)).open() as conversation:
        asked = {"messages": [user("x")], "input": "x"}
        assert post(conversation, json.dumps(asked).encode(), path=path)[0] == 200
        status, document = post(conversation, json.dumps({**asked, **fields}).encode(), path=path)
    assert (status, document["error"]["message"].startswith(tuple(fields))) == (400, True)


PICTURE = "data:image/png;base64,AAAA"
CALLED = {"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (
            "/v1/chat/completions",
            {
                "messages": [
                    user("look"),
                    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
                    {
                        "role": "tool",
                        "tool_call_id": "c",
                        "content": [
                            {"type": "text", "text": "a.png: "},
                            {"type": "image_url", "image_url": {"url": PICTURE}},
                        ],
                    },
                ]
            },
        ),
        (
            "/v1/responses",
            {
                "input": [
                    {"role": "user", "content": "look"},
                    {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [
                            {"type": "input_text", "text": "a.png: "},
                            {"type": "input_image", "image_url": PICTURE},
                        ],
                    },
                ]
            },
        ),
        (
            "/v1/messages",
            {
                "messages": [
                    user("look"),
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "see", "input": {}}]},
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "c",
                                "content": [{"type": "text", "text": "a.png: "}, {"type": "image", "source": {}}],
                            }
                        ],
                    },
                ]
            },
        ),
    ],
)
def test_words_replace_an_image_of_a_tool_and_others_are_refused(path: str, asked: dict[str, Any]) -> None:
    policy = Policy(echo)
    with ModelProxy(policy).open() as conversation:
        assert post(conversation, json.dumps(asked).encode(), path=path)[0] == 200
        [said] = policy.asked
        assert (said[-1].role, said[-1].content) == ("tool", "a.png: (an image, which this model cannot see)")
        text = json.dumps(asked).replace('"look"', '[{"type": "image", "source": {}}]')
        status, document = post(conversation, text.encode(), path=path)
    assert (status, "reads text only, not 'image'" in document["error"]["message"]) == (400, True)


def test_nul_and_halves_of_characters_are_text_like_other_text() -> None:
    policy = Policy(lambda messages: messages[-1].content)
    with ModelProxy(policy).open() as conversation:
        status, document = post(conversation, b'{"messages": [{"role": "user", "content": "a\\u0000b\\ud800"}]}')
    assert (status, document["choices"][0]["message"]["content"]) == (200, "a\0b?")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/embeddings", "/v1/../etc/passwd", "/v1/chat/completions/"])
def test_other_paths_are_not_there(path: str) -> None:
    with ModelProxy(Policy(echo)).open() as conversation:
        assert post(conversation, b"{}", path=path)[0] == 404


def test_a_request_that_is_hidden_behind_two_lengths_is_never_answered() -> None:
    policy = Policy(echo)
    hidden = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n"
    with ModelProxy(policy).open() as conversation:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {conversation.token}\r\n".encode()
        )
        for lengths in (
            b"Content-Length: 2\r\nContent-Length: 90\r\n",
            b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: gzip, chunked\r\n",
            b"Content-Length: -1\r\n",
        ):
            assert b" 200 " not in raw(conversation, head + lengths + b"\r\n{}" + hidden)
    assert policy.asked == []


def test_connections_beyond_the_limit_are_closed_and_others_still_answered() -> None:
    conversation = ModelProxy(Policy(echo)).open(ProxyLimits(connections=3))
    with conversation:
        held = [conversation.connect() for _ in range(2)]
        many = [conversation.connect() for _ in range(200)]
        for connection in many[1:]:
            connection.settimeout(10)
            assert connection.recv(1) == b""
        many[0].close()
        body = json.dumps({"messages": [user("one")]}).encode()
        deadline = time.monotonic() + 20
        while True:
            try:
                assert post(conversation, body)[0] == 200
                break
            except (http.client.HTTPException, OSError):
                assert time.monotonic() < deadline
        for connection in (*held, *many):
            connection.close()


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    conversation = ModelProxy(Policy(echo), body_seconds=0.2).open()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: {conversation.token}\r\nContent-Length: 10\r\n\r\n{{"
    with conversation:
        assert b" 408 " in raw(conversation, head.encode())


def test_the_end_of_a_conversation_answers_those_that_wait_with_its_reason() -> None:
    began = threading.Event()

    class Waiting(Policy):
        def reply(self, *arguments: Any, stop: threading.Event | None = None, **options: Any) -> Reply:
            began.set()
            assert stop is not None
            while not stop.is_set():
                time.sleep(0.01)
            raise Stopped

    conversation = ModelProxy(Waiting(echo)).open()
    found: list[tuple[int, dict[str, Any]]] = []
    body = json.dumps({"messages": [user("one")]}).encode()
    with conversation:
        thread = threading.Thread(target=lambda: found.append(post(conversation, body)))
        thread.start()
        assert began.wait(20)
        conversation.end("time limit")
        thread.join()
    ((status, document),) = found
    assert (status, "time limit" in document["error"]["message"]) == (401, True)


def test_a_mistake_of_the_proxy_ends_the_conversation_and_does_not_lose_the_episode() -> None:
    class Odd(Policy):
        def reply(self, *arguments: Any, **options: Any) -> Reply:
            reply = super().reply(*arguments, **options)
            return Reply(Message("assistant", b"no text"), 1, 1, prompt=reply.prompt)  # type: ignore[arg-type]

    with ModelProxy(Odd(echo)).open() as conversation:
        status, document = post(conversation, json.dumps({"messages": [user("one")]}).encode())
        assert (status, document["error"]["type"]) == (401, "authentication_error")
        assert conversation.recording.end == "the proxy failed: TypeError"
        assert conversation.recording.loss == ""


def test_after_the_end_nothing_is_answered_and_open_connections_are_closed() -> None:
    conversation = ModelProxy(Policy(echo)).open()
    body = json.dumps({"messages": [user("one")]}).encode()
    connection = conversation.connect()
    conversation.end("time limit")
    status, document = post(conversation, body)
    assert (status, "time limit" in document["error"]["message"]) == (401, True)
    conversation.close()
    with connection:
        connection.settimeout(10)
        assert connection.recv(1) == b""
    assert conversation.recording.end == "time limit"


def endpoint(model: ScriptedModel, **options: Any) -> EndpointModel:
    return EndpointModel(ModelEndpoint(model.base_url, SECRET, retries=0), "scripted", **options)


class Thinking(Policy):
    """A policy that answers, or fails, once the agent has been sent something while it waits."""

    def __init__(self, fails: bool) -> None:
        super().__init__(echo)
        self.fails = fails
        self.go = threading.Event()

    def reply(self, *arguments: Any, stop: threading.Event | None = None, **options: Any) -> Reply:
        assert self.go.wait(10)
        if self.fails:
            raise EndpointError("secret words of the endpoint")
        return super().reply(*arguments, stop=stop, **options)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("path", "sign", "end", "error"),
    [
        ("chat/completions", b": the model is thinking\n\n", b"data: [DONE]\n\n", b'data: {"error": {"message": '),
        ("responses", b": the model is thinking\n\n", b"response.completed", b'event: error\ndata: {"type": "error"'),
        ("messages", b'event: ping\ndata: {"type": "ping"}\n\n', b"message_stop", b"event: error\ndata: "),
    ],
)
def test_a_stream_stays_alive_while_the_model_thinks(
    path: str, sign: bytes, end: bytes, error: bytes, fails: bool
) -> None:
    policy = Thinking(fails)
    conversation = ModelProxy(policy, alive_seconds=0.01).open()
    body = json.dumps({"stream": True, "messages": [user("hi")], "input": "hi"}).encode()
    with conversation, conversation.connect() as connection:
        connection.settimeout(10)
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: x\r\nx-api-key: {conversation.token}\r\nContent-Length: {len(body)}"
        connection.sendall(f"{head}\r\n\r\n".encode() + body)
        got = b""
        while got.count(sign) < 2:
            got += connection.recv(1 << 16)
        policy.go.set()
        while not got.endswith(b"0\r\n\r\n"):
            got += connection.recv(1 << 16)
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert (error if fails else end) in got
    assert b"secret" not in got


def test_clients_read_what_keeps_a_stream_alive_over() -> None:
    class Slow(Policy):
        def reply(self, *arguments: Any, **options: Any) -> Reply:
            time.sleep(0.2)
            return super().reply(*arguments, **options)

    conversation = ModelProxy(Slow(echo), alive_seconds=0.02).open()
    with client_of(conversation) as client:
        stream = client.chat.completions.create(model="any", messages=[user("hi")], stream=True)
        said = "".join(each.choices[0].delta.content or "" for each in stream)
        with client.responses.stream(model="any", input="hello") as events:
            told = events.get_final_response().output_text
    assert (said, told) == ("answer 1", "answer 1")


def test_clients_are_told_of_a_failure_in_a_stream_that_has_begun() -> None:
    class Failing(Policy):
        def reply(self, *arguments: Any, **options: Any) -> Reply:
            time.sleep(0.2)
            raise EndpointError("gone")

    conversation = ModelProxy(Failing(echo), alive_seconds=0.02).open()
    with client_of(conversation) as client, pytest.raises(openai.APIError, match="the model failed"):
        list(client.chat.completions.create(model="any", messages=[user("hi")], stream=True))
    assert conversation.recording.requests == 1


def test_an_agent_that_goes_away_takes_its_request_to_the_endpoint_with_it() -> None:
    began = threading.Event()
    stopped: list[bool] = []

    class Slow(Policy):
        def reply(self, *arguments: Any, stop: threading.Event | None = None, **options: Any) -> Reply:
            began.set()
            assert stop is not None
            deadline = time.monotonic() + 20
            while not stop.is_set() and time.monotonic() < deadline:
                time.sleep(0.01)
            stopped.append(stop.is_set())
            raise Stopped

    conversation = ModelProxy(Slow(echo)).open()
    body = json.dumps({"messages": [user("one")]}).encode()
    with conversation:
        connection = conversation.connect()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {conversation.token}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert began.wait(20)
        connection.close()
        deadline = time.monotonic() + 20
        while not stopped and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stopped == [True]
    assert conversation.recording.branches == ()


def test_a_request_that_is_not_wanted_any_more_is_cancelled_at_the_endpoint() -> None:
    stop = threading.Event()

    def script(question: Question) -> Fault:
        stop.set()
        return Fault(500, pause_seconds=30)

    with ScriptedModel(script) as model, endpoint(model) as upstream, pytest.raises(Stopped):
        upstream.reply([Message("user", "one")], stop=stop)


def test_the_ids_that_an_endpoint_returns_are_asked_for_and_recorded() -> None:
    class Vllm(ScriptedModel):
        def chat_document(self, answer: Says) -> dict[str, Any]:
            document = super().chat_document(answer)
            document["prompt_token_ids"] = [5, 6, 7]
            choice = document["choices"][0]
            choice["token_ids"] = [8 + place for place, _ in enumerate(choice["logprobs"]["content"])]
            return document

    with Vllm([Says("one two")]) as model:
        conversation = ModelProxy(endpoint(model, tells_tokens=True)).open()
        with client_of(conversation) as client:
            ask(client, user("one"))
        assert model.questions[0].body["return_token_ids"] is True
    (branch,) = conversation.recording.branches
    assert branch.prompts == ((5, 6, 7),)
    assert branch.turns[0].tokens[0] == f"{TOKEN_ID}8"
    assert branch.is_trainable


@pytest.mark.parametrize(
    ("fault", "status", "is_lost"),
    [
        (Fault(500, body={"error": {"message": f"crashed with {SECRET}"}}), 502, True),
        (Fault(404, body={"error": {"message": "no such model any more"}}), 502, True),
        (Fault(401, body={"error": {"message": f"Incorrect API key provided: {SECRET}"}}), 502, True),
        (Fault(400, body={"error": {"message": f"bad request of {SECRET}"}}), 400, False),
        (Fault(400, body={"error": {"message": "maximum context length is 10 tokens"}}), 400, False),
    ],
)
def test_a_failure_of_the_endpoint_reaches_the_agent_without_its_address_and_key(
    fault: Fault, status: int, is_lost: bool
) -> None:
    with ScriptedModel(lambda _: fault) as model:
        conversation = ModelProxy(endpoint(model)).open()
        with conversation:
            got, document = post(conversation, json.dumps({"messages": [user("one")]}).encode())
        told = json.dumps(document)
        assert got == status
        assert SECRET not in told
        assert model.base_url not in told
    assert bool(conversation.recording.loss) is is_lost
    assert bool(conversation.recording.refusal) is not is_lost
    assert (conversation.recording.error is not None) is (fault.status in (401, 404))


@pytest.mark.parametrize("is_outage", [False, True])
def test_a_conversation_that_the_model_fails_at_is_refused_and_an_outage_loses_the_episode(is_outage: bool) -> None:
    def script(question: Question) -> Says | Fault:
        is_poison = "poison" in json.dumps(question.messages)
        return Fault(500) if is_poison or (is_outage and question.number) else Says("fine")

    with ScriptedModel(script) as model:
        conversation = ModelProxy(endpoint(model)).open()
        with client_of(conversation) as client:
            ask(client, user("one"))
            with pytest.raises(openai.InternalServerError if is_outage else openai.BadRequestError):
                ask(client, user("one"), assistant("fine"), user("poison"))
            if not is_outage:
                assert ask(client, user("two")).content == "fine"
    recording = conversation.recording
    assert (bool(recording.loss), recording.turns) == ((True, 1) if is_outage else (False, 2))


def test_a_refusal_in_the_words_of_an_agent_does_not_change_how_the_others_are_asked() -> None:
    def script(question: Question) -> Says | Fault:
        if "chat template" in json.dumps(question.messages):
            return Fault(400, body={"error": {"message": "no chat template 'temperature' chat/completions responses"}})
        return Says("fine")

    with ScriptedModel(script) as model:
        conversation = ModelProxy(endpoint(model)).open()
        with client_of(conversation) as client:
            ask(client, user("one"))
            with pytest.raises(openai.BadRequestError):
                ask(client, user("chat template"))
            ask(client, user("two"))
        assert {question.path for question in model.questions} == {"/v1/chat/completions"}
        assert "temperature" in model.questions[-1].body


def test_an_episode_takes_the_longest_branch_for_its_conversation_and_keeps_the_others() -> None:
    conversation = ModelProxy(Policy(echo)).open()
    with client_of(conversation) as client:
        ask(client, user("title?"))
        ask(client, user("main"), tools=TOOLS)
        ask(client, user("main"), assistant("answer 1"), user("go on"), tools=TOOLS)
    episode = new_episode(0, "e", Problem("a", "p", tests=("assert p(1) == 2",)), EpisodeOptions())
    episode.take(conversation.recording)
    row = episode_row(episode, result_of(episode), Place("job-0"), seconds=1.0)
    kept = TrajectoryRow.model_validate_json(row.model_dump_json())
    assert [each.content for each in kept.messages] == ["main", "answer 1", "go on", "answer 2"]
    assert [dict(tool) for tool in kept.tools] == [BASH]
    (branch,) = kept.branches
    assert [each.content for each in branch.messages] == ["title?", "answer 1"]
    assert branch.messages[1].tokens == conversation.recording.branches[0].turns[0].tokens
    turns = [turn for each in conversation.recording.branches for turn in each.turns]
    assert kept.tokens["completion"] == sum(len(turn.tokens) for turn in turns)
