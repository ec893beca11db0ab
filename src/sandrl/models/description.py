"""A model of this machine or of the hub, described without its weights.

All commands use this one description: template, tokenizer, context, generation settings, adapters. So all commands
refuse the same models, and `--dry-run` refuses what the command would. Code that comes with a model is never executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from sandrl.config.words import OWN_TEMPLATE, PLAIN_TEMPLATE
from sandrl.errors import InputError, UsageError
from sandrl.models import libraries
from sandrl.models.adapters import Adapters, base_of, find_adapters
from sandrl.models.generation import own_settings
from sandrl.models.places import ModelPlace
from sandrl.models.templates import ChatTemplate, file_template, plain_template

Conversation = Sequence[Mapping[str, Any]]
"""Messages, each with `role` and `content`, and with what belongs to calls of tools."""

_OF_MESSAGES = ("role", "content", "tool_calls", "tool_call_id")

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_WEIGHTS_OF_ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model, without its weights.

    Attributes:
        name: What the user calls it.
        place: Where it is; of adapters, where these are.
        adapters: The adapters that it is, over the base that they name; None for a whole model.
        config: Its configuration, of transformers; of adapters, that of their base.
        tokenizer: Its tokenizer, which has `template`, an end and padding; sequences are padded on the left.
        template: Its chat template, or what stands for one.
        has_template: Whether the model has a chat template of its own.
        own_settings: Its generation settings that would change a distribution (`models/generation.py`).
        positions: The longest conversation, answer included, in tokens; None if it names no limit.
        vocabulary: How many tokens the model knows.
        ends: The tokens that end an answer.
    """

    name: str
    place: ModelPlace
    adapters: Adapters | None
    config: Any
    tokenizer: Any
    template: ChatTemplate
    has_template: bool
    own_settings: Mapping[str, JsonValue]
    positions: int | None
    vocabulary: int | None
    ends: tuple[int, ...]

    def check(
        self,
        questions: Iterable[tuple[str, Conversation]],
        *,
        max_tokens: int | None,
        variables: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        has_feedback: bool = False,
    ) -> None:
        """Makes sure that the model can be asked, and that answers have room.

        Args:
            questions: Each with the name of its problem.
            max_tokens: The longest answer; None for what is left of the context.
            variables: What the user gives to the chat template.
            tools: JSON schemas of functions that are offered with each question.
            has_feedback: Whether answers are followed by further messages of the user.

        Raises:
            UsageError: If not.
        """
        if tools and self.template.name == PLAIN_TEMPLATE:
            raise UsageError(
                f"rollout: tools need a chat template, and {self.name} has none",
                hint="name a file with a template that supports tools: `chat_template` FILE",
                fields=("rollout", "chat_template"),
            )
        given = dict(variables or {})
        answer = max_tokens or 1
        overheads: dict[tuple[str, ...], int] = {}
        for name, conversation in questions:
            roles = tuple(message["role"] for message in conversation)
            size = sum(len(message["content"].encode(errors="replace")) for message in conversation)
            is_new = roles not in overheads
            if is_new:
                asked = [roles, (*roles, "assistant", "user")] if has_feedback else [roles]
                self.template.check(asked, tools=tools, variables={**self.tokenizer.special_tokens_map, **given})
                overheads[roles] = max(len(self.rendered(conversation, given).encode(errors="replace")) - size, 0)
            # A token is a byte at least, so the tokens of most questions need not be counted.
            is_long = self.positions is not None and size + overheads[roles] + answer > self.positions
            if is_new or is_long:
                self._check_room(name, self.rendered(conversation, given), answer)

    def remark(self, asked: str | None) -> str | None:
        """What a user should know of the template that was taken; `asked`: which one they chose, if they did."""
        if self.has_template or asked is not None:
            return None
        return f"{self.name} has no chat template, so it is asked in plain text (chat_template plain)"

    def rendered(
        self,
        conversation: Conversation,
        variables: Mapping[str, Any] | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """The text of a conversation, up to where the model answers; tools are given as a chat completion has them."""
        said = [{name: message[name] for name in _OF_MESSAGES if name in message} for message in conversation]
        text = self.tokenizer.apply_chat_template(
            said, tools=tools, tokenize=False, add_generation_prompt=True, **dict(variables or {})
        )
        return str(text)

    def _check_room(self, name: str, text: str, answer: int) -> None:
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        last = max(tokens, default=0)
        if self.vocabulary is not None and last >= self.vocabulary:
            message = f"its tokenizer writes token {last}, and the model has {self.vocabulary} tokens"
            raise InputError(message, path=self.name, hint="use the tokenizer with which the model was trained")
        if self.positions is not None and len(tokens) + answer > self.positions:
            raise UsageError(
                f"max_tokens: the question of {name} has {len(tokens)} tokens, so an answer of {answer} does not fit"
                f" into the context of {self.name}, {self.positions} tokens",
                hint="use a smaller max_tokens, or leave the problem out",
                fields=("max_tokens",),
            )


def check_template_alone(
    name: str | None,
    text: str | None,
    questions: Iterable[tuple[str, Conversation]],
    *,
    variables: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The same check of the template of a file, if there is one, for a model that is yet to be made.

    Raises:
        InputError: If it cannot be used.
    """
    if name is not None and text is not None:
        roles = dict.fromkeys(tuple(message["role"] for message in said) for _, said in questions)
        file_template(name, text).check(roles, tools=tools, variables=variables)


def describe(
    place: ModelPlace,
    *,
    name: str | None = None,
    chat_template: str | None = None,
    template_text: str | None = None,
    has_tools: bool = False,
) -> ModelDescription:
    """Describes a model; from the hub, its small files are fetched.

    Args:
        place: Where it is.
        name: What the user calls it.
        chat_template: `own`, `plain`, or the file of a template; None for its own, or plain text if it has none.
        template_text: The content of that file.
        has_tools: Whether it is to be offered tools: some models have a template of its own for these.

    Raises:
        InputError: If it cannot be loaded, cannot continue text, or lacks what was asked for.
        ServiceError: If it is on the hub, which does not answer, and not in the hub's cache.
    """
    name = name or place.name
    adapters = find_adapters(place.name) if place.is_directory else None
    base = base_of(place)
    _check_weights(base, _WEIGHTS)
    if base is not place:
        _check_weights(place, _WEIGHTS_OF_ADAPTERS)
    transformers = libraries.load("transformers")
    source = place if adapters is None or _has_tokenizer(place) else base
    if source.is_directory and not _has_tokenizer(source):
        # transformers would make one without a vocabulary.
        raise InputError(f"has no tokenizer: it has no file {' or '.join(_TOKENIZER_FILES)}", path=source.name)
    with libraries.kept_quiet():
        try:
            config = _loaded(transformers.AutoConfig, base)
            tokenizer = _loaded(transformers.AutoTokenizer, source, padding_side="left", truncation_side="left")
        except Exception as error:
            raise base.explain(error) from error
        generation = _generation(transformers, base)
    _check_kind(config, name)
    text_config = config.get_text_config()
    ends = _complete(tokenizer, generation, name)
    template, has_template = _template(tokenizer, source, name, chat_template, template_text, has_tools=has_tools)
    positions, vocabulary = (getattr(text_config, each, None) for each in ("max_position_embeddings", "vocab_size"))
    return ModelDescription(
        name,
        place,
        adapters,
        config,
        tokenizer,
        template,
        has_template,
        own_settings(generation),
        positions if isinstance(positions, int) and positions > 0 else None,
        vocabulary if isinstance(vocabulary, int) else None,
        ends,
    )


def _loaded(kind: Any, place: ModelPlace, **options: Any) -> Any:
    # Without the last word, a library asks on the terminal whether it may execute code of the model.
    return kind.from_pretrained(place.name, local_files_only=place.is_offline, trust_remote_code=False, **options)


def _generation(transformers: Any, place: ModelPlace) -> Any:
    try:
        return transformers.GenerationConfig.from_pretrained(place.name, local_files_only=place.is_offline)
    except (OSError, ValueError):
        # Many models have none.
        return None


def _check_weights(place: ModelPlace, names: Sequence[str]) -> None:
    # The files of a directory are there and whole; those of the hub are fetched and checked by its client.
    if not place.is_directory:
        return
    path = Path(place.name)
    file = next((path / each for each in names if (path / each).is_file()), None)
    if file is None:
        raise InputError(f"has no weights: it has no file {' or '.join(names)}", path=place.name)
    parts = [file]
    if file.suffix == ".json":
        try:
            parts = [path / part for part in dict.fromkeys(json.loads(file.read_bytes())["weight_map"].values())]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError("is not an index of weights", path=file) from error
    open_weights = libraries.load("safetensors").safe_open
    for part in parts:
        if not part.is_file():
            raise InputError(f"has no weights {part.name}, which {file.name} names", path=place.name)
        if part.suffix == ".safetensors":
            try:
                open_weights(str(part), framework="pt")
            except Exception as error:
                message = f"the weights cannot be read: {libraries.first_line(error)}"
                raise InputError(message, path=part, hint="copy or download the file again") from error


def _has_tokenizer(place: ModelPlace) -> bool:
    return any((Path(place.name) / file).is_file() for file in _TOKENIZER_FILES)


def _check_kind(config: Any, name: str) -> None:
    names = libraries.load("transformers.models.auto.modeling_auto")
    known = (names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, names.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    if not any(config.model_type in each for each in known):
        message = f"is a model of the type {config.model_type}, which does not continue text"
        raise InputError(message, path=name, hint="choose a causal language model")


def _complete(tokenizer: Any, generation: Any, name: str) -> tuple[int, ...]:
    # Gives the tokenizer an end and padding where it lacks them; the tokens that end an answer.
    own = getattr(generation, "eos_token_id", None)
    ends = [own] if isinstance(own, int) else list(own or ())
    if tokenizer.eos_token_id is None and ends:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(ends[0])
    if tokenizer.eos_token_id is None:
        message = "its tokenizer has no token that ends a text (eos_token), so no answer would end"
        raise InputError(message, path=name, hint="set eos_token in tokenizer_config.json")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tuple(dict.fromkeys((*ends, tokenizer.eos_token_id)))


def _template(
    tokenizer: Any,
    source: ModelPlace,
    name: str,
    wanted: str | None,
    text: str | None,
    *,
    has_tools: bool,
) -> tuple[ChatTemplate, bool]:
    own = tokenizer.chat_template
    if isinstance(own, dict):
        own = own.get("tool_use") if has_tools and "tool_use" in own else own.get("default")
    has_own = isinstance(own, str) and bool(own)
    if wanted == OWN_TEMPLATE and not has_own:
        hint = "use `chat_template` plain, or name a file with a template"
        raise InputError("has no chat template of its own", path=name, hint=hint, fields=("chat_template",))
    if wanted in (None, OWN_TEMPLATE) and has_own:
        file = Path(source.name) / _TEMPLATE_FILE
        owner = str(file) if source.is_directory and file.is_file() else f"the chat template of {name}"
        return ChatTemplate(OWN_TEMPLATE, str(own), owner), True
    if text is not None and wanted is not None:
        template = file_template(wanted, text)
    else:
        first = tokenizer("a").get("input_ids") or [None]
        begins = tokenizer.bos_token_id is not None and first[0] == tokenizer.bos_token_id
        template = plain_template(f"the plain text of {name}", begins_with_token=begins)
    template.give_to(tokenizer, has_tools=has_tools)
    return template, has_own
