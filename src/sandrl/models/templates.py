"""Chat templates: how the messages of a conversation become the text that a model continues.

Every model in this process has one, in the language of transformers (Jinja): its own, that of a file, or that of the
plain text by which a model without a template is asked. So training and evaluation render with one mechanism. A
template is tried before anything starts, on conversations with the roles of the real ones. An error names the line of
the template that fails.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandrl.config.words import PLAIN_TEMPLATE
from sandrl.deadlines import TookTooLong, answer_within
from sandrl.errors import InputError
from sandrl.models import libraries

PLAIN = "{%- for message in messages -%}{{- message.content + '\\n\\n' -}}{%- endfor -%}"
"""The messages as a text that a base model continues; it was never told of roles."""

_ANOTHER = "correct it, or choose another `chat_template`"
_WITHOUT_SYSTEM = "choose another `chat_template`, or leave the system message out (`system_prompt` none)"
_SECONDS = 10.0
_GIVEN = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
# What jinja2 calls a template without a file.
_PLACE = "<template>"


class _MissingVariable(Exception):
    """A template writes a variable that nobody gives: its name."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template.

    Attributes:
        name: `own`, `plain`, or the file that it is read from.
        text: The template (Jinja).
        owner: What messages call the place of the text.
    """

    name: str
    text: str
    owner: str

    @property
    def is_of_file(self) -> bool:
        return self.name == self.owner

    def check(
        self,
        conversations: Iterable[Sequence[str]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes sure that the template renders conversations, each given by the roles of its messages.

        Args:
            conversations: Each is continued by the assistant.
            tools: JSON schemas of functions; with some, a conversation with a call and its result is tried, too.
            variables: What the template is given besides: the tokenizer's special tokens, and the user's own.

        Raises:
            InputError: If it cannot be read, fails, takes too long, needs a variable that nobody gives, or leaves out
                a message or a tool.
        """
        given = dict(variables or {})
        with libraries.kept_quiet():
            compiled = self._compiled()
            if self.is_of_file:
                # A model's own template may name what its authors had; of a file, it is a mistake.
                given = {**_missing(compiled, self.text, given), **given}
            for roles in conversations:
                messages = [{"role": role, "content": _content(place)} for place, role in enumerate(roles)]
                self._try(compiled, messages, tools, given)
                if tools:
                    self._try(compiled, [*messages, *_use_of(tools[0], len(messages))], tools, given)

    def give_to(self, tokenizer: Any, *, has_tools: bool) -> None:
        """Has a tokenizer write its conversations by this template instead of its own.

        What parses answers written by its own template would take the question for part of the answer; only tools need
        it.
        """
        tokenizer.chat_template = self.text
        for name in ("response_template", "response_schema"):
            if not has_tools and getattr(tokenizer, name, None) is not None:
                setattr(tokenizer, name, None)

    def _compiled(self) -> Any:
        try:
            return libraries.load("transformers.utils.chat_template_utils")._compile_jinja_template(self.text)
        except Exception as error:
            message = f"is not a Jinja template: {libraries.first_line(error)}"
            raise self._error(message, line=getattr(error, "lineno", None)) from error

    def _try(
        self,
        compiled: Any,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        given: Mapping[str, Any],
    ) -> None:
        functions = [{"type": "function", "function": dict(tool)} for tool in tools] or None
        values = {"tools": functions, "documents": None, "add_generation_prompt": True, **given}
        try:
            text = answer_within(_SECONDS, lambda: compiled.render(messages=list(messages), **values))
        except TookTooLong as error:
            message = f"does not end within {_SECONDS:.0f} seconds"
            raise self._error(message) from error
        except Exception as error:
            raise self._failed(error, messages) from error
        for said in reversed(messages):
            if (said["content"] or said["tool_calls"][0]["function"]["name"]) not in text:
                raise self._left_out(said["role"])
        left_out = next((tool["name"] for tool in tools if tool["name"] not in text), None)
        if left_out is not None:
            message = f"does not show the tool {left_out}, so the model would not be offered it"
            hint = "choose a template with tools: `chat_template` FILE"
            raise self._error(message, hint=hint, fields=("chat_template", "rollout"))

    def _failed(self, error: Exception, messages: Sequence[Mapping[str, Any]]) -> InputError:
        roles = [message["role"] for message in messages]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _PLACE]
        line = lines[-1] if lines else None
        if isinstance(error, _MissingVariable):
            message = f"needs the variable {error}, which is not given"
            hint = f'give it with `extra_body`: {{"chat_template_kwargs": {{"{error}": …}}}}'
            return self._error(message, line=line, hint=hint, fields=("chat_template", "extra_body"))
        shown = ", ".join(roles)
        message = f"cannot render a conversation of {shown}: {libraries.first_line(error)}"
        if "system" in roles:
            return self._error(message, line=line, hint=_WITHOUT_SYSTEM, fields=("chat_template", "system_prompt"))
        return self._error(message, line=line, hint=_ANOTHER)

    def _left_out(self, role: str) -> InputError:
        if role == "system":
            message = "leaves out the system message, so the model would not see the form of an answer"
            return self._error(message, hint=_WITHOUT_SYSTEM, fields=("chat_template", "system_prompt"))
        what = "the question" if role == "user" else f"a message of the role {role}"
        message = f"leaves out {what}: it must write the content of every message"
        return self._error(message, hint=_ANOTHER)

    def _error(
        self,
        message: str,
        *,
        line: int | None = None,
        hint: str | None = None,
        fields: tuple[str, ...] = ("chat_template",),
    ) -> InputError:
        return InputError(message, path=self.owner, line=line, hint=hint, fields=fields)


def plain_template(owner: str, *, begins_with_token: bool) -> ChatTemplate:
    """The template of plain text; `begins_with_token`: after the first token, where a tokenizer writes one."""
    return ChatTemplate(PLAIN_TEMPLATE, ("{{- bos_token -}}" if begins_with_token else "") + PLAIN, owner)


def file_template(path: str, text: str) -> ChatTemplate:
    return ChatTemplate(path, text, path)


def _content(place: int) -> str:
    return f"message-{place}-of-sandrl"


def _use_of(tool: Mapping[str, Any], place: int) -> list[dict[str, Any]]:
    call = {"type": "function", "id": "call00000", "function": {"name": tool["name"], "arguments": {}}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": tool["name"], "tool_call_id": "call00000", "content": _content(place)},
    ]


def _missing(compiled: Any, text: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every variable of the template that nobody gives: it may be tested, and not written."""
    jinja2 = libraries.load("jinja2")

    class Missing(jinja2.Undefined):  # type: ignore[misc, name-defined]
        def __str__(self) -> str:
            raise _MissingVariable(str(self._undefined_name))

    environment = compiled.environment
    found = libraries.load("jinja2.meta").find_undeclared_variables(environment.parse(text))
    return {name: Missing(name=name) for name in found - environment.globals.keys() - given.keys() - _GIVEN}
