"""Prompts that are conversations: the messages of the user are the task.

System messages are left out: they say how to answer, and every command here says that itself. A conversation with
answers in it asks something else than a problem does, and is refused.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


# The text of a prompt; what is neither text nor messages stays for the type to refuse.
def _text_of(value: object) -> object:
    if not isinstance(value, list):
        return value
    texts = [_user_text(message) for message in value]
    said = [text for text in texts if text]
    if not said:
        raise ValueError("has no message of a user")
    return "\n\n".join(said)


def _user_text(message: Any) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ValueError('must be a string, or messages {"role", "content"}')
    match message["role"]:
        case "system" | "developer":
            return ""
        case "user":
            return _content(message.get("content"))
        case role:
            raise ValueError(f"has a message of the role {role!r:.40}: a prompt may have system and user messages only")


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("has a message whose content is not text")
    return "\n".join(map(str, texts))


Prompt = Annotated[str, BeforeValidator(_text_of)]
"""A string, or messages."""
