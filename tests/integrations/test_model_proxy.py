"""Clients of agents through the proxy of models: the SDK of Anthropic, and LiteLLM with both of its protocols."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from sandrl.errors import EndpointError
from sandrl.models import Message, Reply, ToolCall
from sandrl.rollouts.proxy import Conversation, ModelProxy, ProxyLimits
from tests.integration.rollouts.test_model_proxy import BASH, TOOLS, Policy, address_of, echo

ANTHROPIC_TOOLS: Any = [{"name": "bash", "description": "Runs a command.", "input_schema": BASH["parameters"]}]


def use_a_tool(messages: Sequence[Message]) -> str | Message:
    if messages[-1].role == "tool":
        return f"it has {messages[-1].content}"
    call = ToolCall("toolu_1", "bash", '{"command":"ls"}')
    return Message("assistant", "looking", (call,), finish_reason="tool_calls")


def the_branch(conversation: Conversation) -> list[str]:
    (branch,) = conversation.recording.branches
    assert branch.is_trainable
    return [each.role for each in branch.messages]


@pytest.mark.parametrize("is_stream", [False, True])
def test_anthropics_client_calls_a_tool_and_continues(is_stream: bool) -> None:
    anthropic = pytest.importorskip("anthropic")
    conversation = ModelProxy(Policy(use_a_tool)).open()
    with address_of(conversation) as address:
        client = anthropic.Anthropic(base_url=address, api_key=conversation.token)

        def ask(messages: list[Any]) -> Any:
            asked = {"model": "any", "max_tokens": 100, "system": [{"type": "text", "text": "be quick"}]}
            asked |= {"messages": messages, "tools": ANTHROPIC_TOOLS}
            if not is_stream:
                return client.messages.create(**asked)
            with client.messages.stream(**asked) as stream:
                return stream.get_final_message()

        messages: list[Any] = [{"role": "user", "content": "what is there?"}]
        first = ask(messages)
        assert first.stop_reason == "tool_use"
        text, call = first.content
        assert (text.text, call.name, call.input) == ("looking", "bash", {"command": "ls"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "a.txt"}]}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = ask(messages)
        assert (second.stop_reason, second.content[0].text) == ("end_turn", "it has a.txt")
        assert client.messages.count_tokens(model="any", messages=messages).input_tokens > 0
        assert [each.id for each in client.models.list()] == ["policy"]
        client.close()
    assert the_branch(conversation) == ["system", "user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("fails", [False, True])
def test_anthropics_client_waits_for_a_model_that_thinks(fails: bool) -> None:
    anthropic = pytest.importorskip("anthropic")

    class Slow(Policy):
        def reply(self, *arguments: Any, **options: Any) -> Reply:
            time.sleep(0.2)
            if fails:
                raise EndpointError("gone")
            return super().reply(*arguments, **options)

    conversation = ModelProxy(Slow(echo), alive_seconds=0.02).open()
    asked: Any = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": "one"}]}
    with (
        address_of(conversation) as address,
        anthropic.Anthropic(base_url=address, api_key=conversation.token) as client,
    ):
        if not fails:
            with client.messages.stream(**asked) as stream:
                assert stream.get_final_text() == "answer 1"
            return
        with pytest.raises(anthropic.APIError, match="the model failed"), client.messages.stream(**asked) as stream:
            stream.get_final_text()


def test_anthropics_client_gets_errors_of_its_own_kinds_and_does_not_try_again() -> None:
    anthropic = pytest.importorskip("anthropic")
    conversation = ModelProxy(Policy(echo)).open(ProxyLimits(turns=1))
    asked: Any = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": "one"}]}
    with address_of(conversation) as address:
        stranger = anthropic.Anthropic(base_url=address, api_key="wrong")
        with stranger, pytest.raises(anthropic.AuthenticationError):
            stranger.messages.create(**asked)
        with anthropic.Anthropic(base_url=address, api_key=conversation.token) as client:
            client.messages.create(**asked)
            with pytest.raises(anthropic.AuthenticationError, match="more than 1 turns"):
                client.messages.create(**asked)
    assert conversation.recording.requests == 2


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_litellm_calls_a_tool_and_continues(vendor: str, is_stream: bool) -> None:
    litellm = pytest.importorskip("litellm")
    conversation = ModelProxy(Policy(use_a_tool)).open()
    with address_of(conversation) as address:

        def ask(messages: list[Any]) -> Any:
            found = litellm.completion(
                model=f"{vendor}/any",
                messages=messages,
                tools=TOOLS,
                stream=is_stream,
                api_key=conversation.token,
                api_base=f"{address}/v1" if vendor == "openai" else address,
            )
            return litellm.stream_chunk_builder(list(found), messages=messages) if is_stream else found

        messages: list[Any] = [{"role": "user", "content": "what is there?"}]
        said = ask(messages).choices[0].message
        (call,) = said.tool_calls
        assert (said.content, call.function.name) == ("looking", "bash")
        messages += [said.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "a.txt"}]
        assert ask(messages).choices[0].message.content == "it has a.txt"
    assert the_branch(conversation) == ["user", "assistant", "tool", "assistant"]
