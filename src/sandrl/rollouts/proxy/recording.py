"""The recording of a conversation with an agent: chains of messages that can be trained on.

An agent sends the whole history with each request, and may have changed it. A *branch* is a chain in which each
request continued the messages that were recorded before, and their tokens where the model returns those. Any other
request begins a branch of its own: of a sub-agent, of a history that was rewritten or shortened, of one that the
model's template writes with other tokens, or of a second answer to one request. Each answer is sampled, and so trained
on, in one branch only; in the others it is given (`Message.is_given`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sandrl.models.endpoint import json_arguments
from sandrl.models.messages import TOKEN_ID, Message, Reply
from sandrl.runs.rows import BranchRow


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What an agent may ask in an episode; a request beyond ends the conversation, except beyond `parallel`.

    Attributes:
        turns: How many answers of the model.
        requests: How many requests, those that were refused included.
        tokens: How many tokens of prompts and answers together; the answer that exceeds them is the last one.
        body_bytes: The largest request.
        kept_bytes: How much is kept of all branches, as JSON; with more, nobody could read the row of the episode.
        parallel: How many requests are read and answered at once; one more is to come again later.
        connections: How many connections are open at once; one more is closed.
    """

    turns: int = 500
    requests: int = 5000
    tokens: int | None = None
    body_bytes: int = 8 << 20
    kept_bytes: int = 48 << 20
    parallel: int = 16
    connections: int = 64


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of messages, the last of which the model said.

    Attributes:
        messages: Prompts, answers and results of tools; answers that were not sampled in this branch are given.
        tools: The tools that were offered, JSON schemas of functions.
        prompts: The token ids of the prompt of each sampled message, in order; empty where the model does not tell.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    prompts: tuple[tuple[int, ...], ...] = ()

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages that were sampled in this branch."""
        return tuple(each for each in self.messages if each.role == "assistant" and not each.is_given)

    @property
    def is_trainable(self) -> bool:
        """Whether every sampled message has its tokens as ids, and a logprob for each of them."""
        return all(token_ids(each) and len(each.tokens) == len(each.logprobs) for each in self.turns)

    def to_row(self) -> BranchRow:
        return BranchRow(
            messages=tuple(message.to_row() for message in self.messages), tools=tuple(map(dict, self.tools))
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages that a model is asked with: of them, `known` are those of the branch of a number (None: of none)."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    branch: int | None
    known: int


class Refused(Exception):
    """A request is not answered; `is_over`: nor is any after it."""

    def __init__(self, reason: str, *, is_over: bool = True) -> None:
        super().__init__(reason)
        self.is_over = is_over


@dataclass(eq=False)
class Recording:
    """What was asked and answered in a conversation; threads may use it at once.

    Attributes:
        end: Why no further request is answered; empty while requests are.
        loss: Why the model failed; empty if it did not. The episode is then lost.
        error: What no episode can go on with, such as a refused key; None if there is nothing.
        refusal: Why the proxy or the model refused the last request that was refused before the end; empty if none was.
            Where the model has never answered, it or the agent may have been set up wrongly.
        first: What was answered first; None before.
        requests: How many requests there were, those that were refused included.
        questions: How many of them the model was asked.
        turns: How many answers.
        prompt_tokens: How many tokens the prompts of all answers have.
        seconds: How long the model took for all answers.
        kept_bytes: How much all branches have, as JSON.
    """

    limits: ProxyLimits = field(default_factory=ProxyLimits)
    end: str = ""
    loss: str = ""
    error: Exception | None = None
    refusal: str = ""
    first: Prompt | None = None
    requests: int = 0
    questions: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    seconds: float = 0.0
    kept_bytes: int = 0
    _branches: list[Branch] = field(default_factory=list)
    _open: int = 0
    _asking: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches, in the order of their first answers."""
        with self._lock:
            return tuple(self._branches)

    @property
    def silence(self) -> str:
        """That the model has answered no question; empty if it has answered one, or has none."""
        if self.turns or not self.questions:
            return ""
        return f"the model answered none of the {self.questions} questions of the agent"

    def finish(self, reason: str, *, loss: str = "", error: Exception | None = None) -> None:
        """Has no further request answered; the first reason counts."""
        with self._lock:
            if not self.end:
                self.end, self.loss, self.error = reason, loss, error

    @contextmanager
    def admitting(self) -> Iterator[None]:
        """Counts a request while it is read and answered.

        Raises:
            Refused: If the conversation is over, or too many requests are open.
        """
        with self._lock:
            self.requests += 1
            if not self.end and self.requests > self.limits.requests:
                self.end = f"the agent made more than {self.limits.requests} requests"
            if self.end:
                raise Refused(self.end)
            if self._open >= self.limits.parallel:
                raise Refused(f"{self._open} other requests wait for an answer", is_over=False)
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a model is asked.

        Raises:
            Refused: If it may not be.
        """
        with self._lock:
            limits = self.limits
            used = self.prompt_tokens + self.completion_tokens
            if not self.end and self.turns >= limits.turns:
                self.end = f"the agent asked for more than {limits.turns} turns"
            if not self.end and limits.tokens is not None and used >= limits.tokens:
                self.end = f"the agent used {used} tokens, and {limits.tokens} are allowed"
            if not self.end and self.kept_bytes >= limits.kept_bytes:
                self.end = f"the conversations of the agent have more than {limits.kept_bytes} bytes"
            if self.end:
                raise Refused(self.end)
            if self.turns + self._asking >= limits.turns:
                raise Refused("the last turn that is allowed is being sampled", is_over=False)
            self._asking += 1
            self.questions += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Prompt:
        """What to ask a model for a request: messages that are recorded replace the agent's copies of them."""
        with self._lock:
            branches = tuple(self._branches)
        keys = [message_key(message) for message in messages]
        offered = tuple(tools)
        best, known, shared = None, 0, 0
        source: tuple[Message, ...] = ()
        for number, branch in enumerate(branches):
            same = _common(keys, branch.messages)
            if same == len(branch.messages) and same > known and branch.tools == offered:
                best, known = number, same
            if same > shared:
                shared, source = same, branch.messages
        if best is not None:
            recorded = branches[best].messages
            return Prompt((*recorded, *_given(messages[known:])), offered, best, known)
        return Prompt(_given((*source[:shared], *messages[shared:])), offered, None, 0)

    def record(self, prompt: Prompt, reply: Reply) -> None:
        """Adds an answer; one that comes after the end is kept, because the agent may have had it."""
        message = reply.message
        with self._lock:
            self.first = self.first or prompt
            self.turns += 1
            self.prompt_tokens += reply.prompt_tokens
            self.completion_tokens += reply.completion_tokens
            self.retries += reply.retries
            self.seconds += message.seconds or 0.0
            number = prompt.branch
            if number is not None:
                branch = self._branches[number]
                if len(branch.messages) == prompt.known and _continues(branch, reply.prompt):
                    self.kept_bytes += _size(*prompt.messages[prompt.known :], message)
                    self._branches[number] = replace(
                        branch, messages=(*prompt.messages, message), prompts=(*branch.prompts, reply.prompt)
                    )
                    return
            messages = (*_given(prompt.messages), message)
            self.kept_bytes += _size(*messages) + len(json.dumps(prompt.tools, ensure_ascii=False).encode())
            self._branches.append(Branch(messages, prompt.tools, (reply.prompt,)))


def message_key(message: Message) -> tuple[object, ...]:
    """What two messages have in common that are the same one, whichever protocol has carried them."""
    calls = tuple((call.id, call.name, _canonical(call.arguments)) for call in message.tool_calls)
    return message.role, message.content, calls, message.tool_call_id


def token_ids(message: Message) -> tuple[int, ...]:
    """The ids of a message's tokens; none if they are not told as ids."""
    if not all(token.startswith(TOKEN_ID) for token in message.tokens):
        return ()
    return tuple(int(token.removeprefix(TOKEN_ID)) for token in message.tokens)


def _size(*messages: Message) -> int:
    rows = (message.to_row().model_dump_json() for message in messages)
    return sum(len(row.encode()) for row in rows)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(json_arguments(arguments or "{}")), sort_keys=True)
    except RecursionError:
        return arguments


def _common(keys: Sequence[tuple[object, ...]], recorded: Sequence[Message]) -> int:
    pairs = zip(keys, recorded, strict=False)
    return next(
        (place for place, (key, each) in enumerate(pairs) if key != message_key(each)), min(len(keys), len(recorded))
    )


def _given(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(replace(each, is_given=True) if each.role == "assistant" else each for each in messages)


# Whether a prompt begins with the tokens of the branch's last turn; where these are not known, its messages decide.
def _continues(branch: Branch, prompt: Sequence[int]) -> bool:
    before, sampled = branch.prompts[-1], token_ids(branch.messages[-1])
    if not (before and sampled and prompt):
        return True
    known = (*before, *sampled)
    return tuple(prompt[: len(known)]) == known
