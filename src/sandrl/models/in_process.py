"""A model in this process, loaded and run in batches with transformers.

It samples as in training, from the whole distribution (`generation.py`).
"""

from __future__ import annotations

import inspect
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from sandrl.errors import RequestRefusedError, SandrlError, UsageError
from sandrl.models import libraries
from sandrl.models.client import Stopped
from sandrl.models.description import ModelDescription, describe
from sandrl.models.endpoint import chat_message
from sandrl.models.generation import NEUTRAL, own_length, own_limit
from sandrl.models.messages import TOKEN_ID, Message, Reply, ToolCall
from sandrl.models.places import ModelPlace, find_model
from sandrl.models.protocol import Answer, Question, Sampling, TokenLimit

BATCH_SIZE = 64

# The field of a request that a chat template is given.
_TEMPLATE = "chat_template_kwargs"
# Below this size a second thread costs more than it brings.
_SMALL = 10_000_000


class InProcessModel:
    """A model on this machine's GPU, or its processors.

    Args:
        model: What `--model` may name, or a description of it.
        name: What to call it; the model's own name unless given.
        tells_logprobs: Return the tokens of prompts and answers, and the logprobs of answers.
        offers_tools: Offer tools, if the model's tokenizer can read calls (`response_template` of transformers).

    Attributes:
        positions: The longest conversation, answer included, in tokens; None if the model names no limit.

    Raises:
        MissingExtraError: If transformers or torch are not installed.
        InputError: If there is no such model, or it cannot be loaded.
        ServiceError: If it is on the hub, which does not answer, and not in the hub's cache.
    """

    def __init__(
        self,
        model: str | ModelDescription,
        sampling: Sampling | None = None,
        *,
        name: str | None = None,
        batch_size: int | None = None,
        stop: threading.Event | None = None,
        tells_logprobs: bool = False,
        offers_tools: bool = False,
    ) -> None:
        self._tells_logprobs = tells_logprobs
        self._torch = libraries.load("torch")
        self._transformers = libraries.load("transformers")
        description = describe(find_model(model), has_tools=offers_tools) if isinstance(model, str) else model
        self.name = name or Path(description.place.name).name
        self.batch_size = batch_size or BATCH_SIZE
        self.device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._sampling = sampling or Sampling()
        other = next((name for name in self._sampling.extra_body if name != _TEMPLATE), None)
        if other is not None:
            message = f"extra_body: a model in this process takes only {_TEMPLATE}, not {other}"
            raise UsageError(message, hint="serve the model and name its address with base_url", fields=("extra_body",))
        self._stop = stop or threading.Event()
        self._description = description
        self._tokenizer = description.tokenizer
        self.has_tools = offers_tools and _reads_calls(self._tokenizer)
        with libraries.kept_quiet():
            self._model = self._load(description.place)
        self.own_settings = description.own_settings
        self._is_small = self._model.num_parameters() < _SMALL
        self.positions = description.positions
        asked = self._sampling.max_tokens
        settings = self._model.generation_config
        self.limit = own_limit(settings, self.positions, self.name) if asked is None else TokenLimit(asked, "requested")
        # Prompt and answer together, where no length of the answer alone is set.
        lengths = [each for each in (self.positions, own_length(settings)) if each is not None]
        self._most_tokens = min(lengths) if lengths else None

    def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        stop: threading.Event | None = None,
    ) -> Reply:
        self.check_tools(tools)
        stops = (self._stop,) if stop is None else (self._stop, stop)
        (reply,) = self._generate([Question(0, messages, tools=tools)], lambda: any(event.is_set() for event in stops))
        if any(event.is_set() for event in stops):
            raise Stopped
        return reply

    def answers(self, questions: Sequence[Question]) -> Iterator[Answer]:
        """Answers questions batch by batch; the first one's seed decides for a batch. See `Model.answers`."""
        for start in range(0, len(questions), self.batch_size):
            batch = questions[start : start + self.batch_size]
            replies = self._generate(batch, self._stop.is_set)
            if self._stop.is_set():
                return
            yield from (Answer(question.number, reply) for question, reply in zip(batch, replies, strict=True))

    def answer_tokens(self, prompt_tokens: int) -> int:
        """How many tokens an answer to a prompt of so many may have; 0 or less if there is no room for one."""
        if self.limit.tokens is not None:
            return self.limit.tokens
        assert self._most_tokens is not None, "one of the two limits is known"
        return self._most_tokens - prompt_tokens

    def check_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Refuses tools that cannot be offered.

        Raises:
            UsageError: If there are some, and the model has none.
        """
        if tools and not self.has_tools:
            message = f"{self.name} cannot use tools in this process"
            raise UsageError(message, hint="serve the model and name its address with base_url", fields=("base_url",))

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """How many tokens a conversation has, up to where the model answers."""
        text = self._rendered(Question(0, messages, tools=tools))
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def close(self) -> None:
        pass

    def _generate(self, questions: Sequence[Question], is_stopped: Callable[[], bool]) -> list[Reply]:
        tokenizer, torch, sampling = self._tokenizer, self._torch, self._sampling
        began = time.monotonic()
        prompts = [self._rendered(question) for question in questions]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(self.device)
        settings: dict[str, Any] = {**NEUTRAL, **(self.own_settings if sampling.use_own else {}), "do_sample": True}
        settings |= {"temperature": sampling.temperature, **sampling.chosen}
        if not settings["min_p"]:
            settings["min_p"] = None
        if sampling.stop:
            settings |= {"stop_strings": list(sampling.stop), "tokenizer": tokenizer}
        if sampling.is_greedy:
            # Without sampling these decide nothing, and transformers warns of them.
            unused = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
            settings |= {**dict.fromkeys(unused), "do_sample": False}

        def stops(tokens: Any, scores: Any, **_: Any) -> Any:
            return torch.full((tokens.shape[0],), is_stopped(), dtype=torch.bool, device=tokens.device)

        with libraries.kept_quiet(), torch.no_grad(), self._prepared(questions[0].seed):
            outputs = self._model.generate(
                **inputs,
                max_new_tokens=max(self.answer_tokens(inputs["input_ids"].shape[1]), 1),
                return_dict_in_generate=True,
                output_logits=self._tells_logprobs,
                eos_token_id=list(self._description.ends),
                pad_token_id=tokenizer.pad_token_id,
                stopping_criteria=self._transformers.StoppingCriteriaList([stops]),
                **settings,
            )
        sampled = outputs.sequences[:, inputs["input_ids"].shape[1] :]
        # What is behind the end of a shorter answer is padding, and its end itself is not text.
        texts: list[str] = tokenizer.batch_decode(sampled, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        seconds = time.monotonic() - began
        rows = sampled.tolist()
        told = self._logprobs(outputs.logits, sampled).tolist() if self._tells_logprobs else [None] * len(rows)
        masks = inputs["attention_mask"].bool()
        asked = [ids[mask].tolist() for ids, mask in zip(inputs["input_ids"], masks, strict=True)]
        return [
            self._with_calls(self._told(text, row, logprobs, prompt, seconds), question, before, row)
            for text, row, logprobs, prompt, question, before in zip(
                texts, rows, told, asked, questions, prompts, strict=True
            )
        ]

    # An answer with its calls of the tools that were offered, read from its tokens.
    def _with_calls(self, reply: Reply, question: Question, prompt: str, tokens: list[int]) -> Reply:
        if not question.tools:
            return reply
        written = self._tokenizer.decode(tokens[: reply.completion_tokens], clean_up_tokenization_spaces=False)
        try:
            parsed = self._tokenizer.parse_response(written, prefix=prompt, tools=_functions(question.tools))
            calls = tuple(_call(each) for each in parsed.get("tool_calls") or ())
            content = str(parsed.get("content") or "")
        except Exception:  # noqa: BLE001 - a model may write anything: what cannot be read is text
            return reply
        if not calls:
            return reply
        reason = "tool_calls" if reply.message.finish_reason == "stop" else reply.message.finish_reason
        return replace(reply, message=replace(reply.message, content=content, tool_calls=calls, finish_reason=reason))

    # The logprob of every sampled token, at its temperature, before `top_p` and others cut the distribution.
    def _logprobs(self, logits: Sequence[Any], sampled: Any) -> Any:
        torch = self._torch
        temperature = self._sampling.temperature or 1.0
        columns = [
            torch.log_softmax(scores.float() / temperature, dim=-1).gather(-1, drawn[:, None])
            for scores, drawn in zip(logits, sampled.T, strict=True)
        ]
        return torch.cat(columns, dim=1)

    # An answer and why it ended; with its tokens, up to the one that ends it, where it is to tell logprobs.
    def _told(
        self, text: str, tokens: list[int], logprobs: list[float] | None, prompt: list[int], seconds: float
    ) -> Reply:
        stops = [at for stop in self._sampling.stop if (at := text.find(stop)) >= 0]
        text = text[: min(stops)] if stops else text
        ends = self._description.ends
        place = next((place for place, token in enumerate(tokens) if token in ends), None)
        size = len(tokens) if place is None else place + 1
        if place is None and stops and self._tokenizer.pad_token_id in tokens:
            # It has no end token, and padding follows it.
            size = tokens.index(self._tokenizer.pad_token_id)
        message = Message(
            "assistant",
            text,
            tokens=() if logprobs is None else tuple(f"{TOKEN_ID}{token}" for token in tokens[:size]),
            logprobs=() if logprobs is None else tuple(logprobs[:size]),
            finish_reason="length" if place is None and not stops else "stop",
            seconds=seconds,
        )
        return Reply(message, len(prompt), size, prompt=() if logprobs is None else tuple(prompt))

    def _rendered(self, question: Question) -> str:
        said = [_document(message) for message in question.messages]
        tools = _functions(question.tools)
        try:
            return self._description.rendered(said, template_variables(self._sampling.extra_body), tools=tools)
        except Exception as error:
            # Templates raise whatever they like, such as where a user speaks twice.
            message = f"the chat template cannot render the conversation: {libraries.first_line(error)}"
            raise RequestRefusedError(message, status=400) from error

    @contextmanager
    def _prepared(self, seed: int) -> Iterator[None]:
        torch = self._torch
        threads = torch.get_num_threads()
        if self._is_small and self.device == "cpu":
            torch.set_num_threads(1)
        try:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                yield
        finally:
            torch.set_num_threads(threads)

    def _load(self, place: ModelPlace) -> Any:
        try:
            network = self._transformers.AutoModelForCausalLM.from_pretrained(
                place.name, dtype="auto", local_files_only=place.is_offline, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise place.explain(error) from error
        return network.to(self.device).eval()


def _reads_calls(tokenizer: Any) -> bool:
    parse = getattr(tokenizer, "parse_response", None)
    has_template = getattr(tokenizer, "response_template", None) is not None
    # Earlier releases of transformers read answers in another way.
    return has_template and parse is not None and "prefix" in inspect.signature(parse).parameters


def _functions(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    return [{"type": "function", "function": dict(tool)} for tool in tools] or None


def _document(message: Message) -> dict[str, Any]:
    document = chat_message(message)
    for call in document.get("tool_calls", ()):
        # Templates take arguments as an object.
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return document


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(f"call_{secrets.token_hex(8)}", str(function["name"]), written)


def template_variables(extra_body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the fields of a request give to the chat template."""
    given = extra_body.get(_TEMPLATE)
    return given if isinstance(given, Mapping) else {}


_GATHERING_SECONDS = 0.01
_LOOK_SECONDS = 0.1


@dataclass(eq=False)
class _Request:
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    stops: tuple[threading.Event, ...]
    reply: Future[Reply] = field(default_factory=Future)

    @property
    def is_stopped(self) -> bool:
        return any(event.is_set() for event in self.stops)


class GatheringModel:
    """A model in this process that threads share.

    Each episode asks one question and waits for the answer. The thread that generates takes all waiting questions at
    once, so the episodes of a step are answered in a few passes, in any order.
    """

    def __init__(self, model: InProcessModel, *, seed: int, stop: threading.Event) -> None:
        self.name = model.name
        self.has_tools = model.has_tools
        self._model = model
        self._stop = stop
        self._chances = random.Random(f"episodes {seed}")
        self._asked: SimpleQueue[_Request] = SimpleQueue()
        self._thread = threading.Thread(target=self._generate, name="sandrl-model", daemon=True)
        self._thread.start()

    def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        stop: threading.Event | None = None,
    ) -> Reply:
        self._model.check_tools(tools)
        asked = _Request(messages, tools, (self._stop,) if stop is None else (self._stop, stop))
        self._asked.put(asked)
        while not asked.reply.done():
            if asked.is_stopped:
                raise Stopped
            try:
                return asked.reply.result(_LOOK_SECONDS)
            except TimeoutError:
                continue
        return asked.reply.result()

    def close(self) -> None:
        """Ends the thread; questions that wait are not answered."""
        self._stop.set()
        self._thread.join()

    def _generate(self) -> None:
        while not self._stop.is_set():
            batch = self._gathered()
            try:
                batch = [each for each in batch if not each.is_stopped and self._fits(each)]
                self._answer(batch)
            except Exception as error:  # noqa: BLE001 - each that waits raises it
                failure = error if isinstance(error, SandrlError) else SandrlError(f"{self.name} fails: {error}")
                for each in batch:
                    if not each.reply.done():
                        each.reply.set_exception(failure)

    # Whether the model can read a conversation; refuses a longer one. Tokenizers are of one thread at a time.
    def _fits(self, asked: _Request) -> bool:
        positions = self._model.positions
        try:
            tokens = self._model.prompt_tokens(asked.messages, asked.tools)
        except RequestRefusedError as refusal:
            asked.reply.set_exception(refusal)
            return False
        answer = max(self._model.answer_tokens(tokens), 1)
        if positions is None or tokens + answer <= positions:
            return True
        message = f"{tokens} tokens and an answer of {answer} exceed the context of {positions} tokens"
        asked.reply.set_exception(RequestRefusedError(message, status=400))
        return False

    def _answer(self, batch: Sequence[_Request]) -> None:
        questions = [
            Question(number, each.messages, self._chances.getrandbits(32), each.tools)
            for number, each in enumerate(batch)
        ]
        for answer in self._model.answers(questions):
            assert answer.reply is not None, "what is generated is an answer"
            batch[answer.number].reply.set_result(answer.reply)

    def _gathered(self) -> list[_Request]:
        try:
            batch = [self._asked.get(timeout=_LOOK_SECONDS)]
        except Empty:
            return []
        time.sleep(_GATHERING_SECONDS)
        while len(batch) < self._model.batch_size:
            try:
                batch.append(self._asked.get_nowait())
            except Empty:
                break
        return batch
