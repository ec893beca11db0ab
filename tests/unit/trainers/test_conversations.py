"""Conversations as TRL and transformers write them, as the messages that a run keeps."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.runs import MessageRow, ToolCallRow
from sandrl.trainers.episodes import episode_end, message_rows

PROMPT = [{"role": "system", "content": "Solve it."}, {"role": "user", "content": "Add one."}]


def test_an_episode_is_its_prompt_its_calls_and_their_results_in_order() -> None:
    call = {"type": "function", "function": {"name": "submit_solution", "arguments": {"code": "f = 'é'"}}}
    completion: list[Any] = [
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "name": "submit_solution", "content": "Submitted."},
        {"role": "assistant", "content": "Done."},
    ]
    messages = message_rows(PROMPT, completion)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2].tool_calls[0] == ToolCallRow(name="submit_solution", arguments='{"code": "f = \'é\'"}')
    assert messages[3] == MessageRow(role="tool", name="submit_solution", content="Submitted.")
    assert episode_end(messages) == "no tool calls"
    # What an episode with answers that were taken back, or without room for more, ends with.
    assert {episode_end(messages[:3]), episode_end(messages[:4])} == {"the conversation became too long"}


def test_plain_texts_are_a_question_and_an_answer() -> None:
    assert [(each.role, each.content) for each in message_rows("?", "!")] == [("user", "?"), ("assistant", "!")]


@pytest.mark.parametrize("name", ["reasoning_content", "thinking"])
def test_thoughts_come_before_what_is_said(name: str) -> None:
    (_, message) = message_rows("?", [{"role": "assistant", "content": "4", name: "2 + 2"}])
    assert message.content == "<think>\n2 + 2\n</think>\n4"


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("submit(", ToolCallRow(name="", arguments="submit(")),
        ({"function": "f"}, ToolCallRow(name="", arguments='{"function": "f"}')),
        ({"function": {"name": None, "arguments": "{broken"}}, ToolCallRow(name="", arguments="{broken")),
        ({"name": "f", "arguments": [1]}, ToolCallRow(name="f", arguments="[1]")),
        ({"id": 7, "function": {"name": "f"}}, ToolCallRow(name="f", id="7")),
        ({"function": {"name": "f", "arguments": {"": "{broken"}}}, ToolCallRow(name="f", arguments="{broken")),
    ],
)
def test_a_call_that_is_malformed_is_kept_as_it_is(call: Any, kept: ToolCallRow) -> None:
    (message,) = message_rows([], [{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert (message.content, message.tool_calls) == ("", (kept,))


def test_half_a_character_is_no_reason_to_lose_a_message() -> None:
    (message,) = message_rows([], "\ud83d")
    assert message.content == "\\ud83d"
