"""Converts conversations to tokens for Tinker, with a renderer of tinker_cookbook and the tokenizer of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from sandrl.config.art import ArtTrainConfig
from sandrl.errors import InputError, UsageError
from sandrl.models.libraries import first_line
from sandrl.trainers.art.groups import openai_tools
from sandrl.trainers.art.libraries import load
from sandrl.trainers.tinker.options import EXTRA

TINY_RENDERER = "qwen3_instruct"
"""Writes conversations as the template of the tiny policy does, token for token."""

_HINT = "set `renderer` to a renderer of tinker_cookbook, for example qwen3_instruct"
_CONVERSATION = [
    {"role": "system", "content": "Solve the task."},
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello."},
]


def renderer_name(config: ArtTrainConfig) -> str:
    """The renderer that was asked for, or the one ART takes for the base model.

    Raises:
        UsageError: If ART knows none for it.
    """
    if config.renderer is not None:
        return config.renderer
    if config.is_tiny:
        return TINY_RENDERER
    renderers = load("art.tinker.renderers", extra=EXTRA)
    try:
        # It prints what it thinks of its choice.
        with redirect_stdout(StringIO()):
            return str(renderers.get_renderer_name(config.base_model))
    except ValueError as error:
        message = f"ART has no renderer for {config.base_model!r}"
        raise UsageError(message, hint=_HINT, fields=("renderer",)) from error


def check_renderer(config: ArtTrainConfig, model: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The name of the renderer, once it writes what will be said and the model's tokenizer can be loaded.

    `model` is what `from_pretrained` of transformers takes, and the tools are JSON schemas of functions.

    Raises:
        UsageError: If there is no such renderer, or it does not support tool calls that are offered.
        InputError: If the tokenizer cannot be loaded.
    """
    name = renderer_name(config)
    utilities = load("tinker_cookbook.tokenizer_utils", extra=EXTRA)
    renderers = load("tinker_cookbook.renderers", extra=EXTRA)
    data = load("art.tinker_native.data", extra=EXTRA)
    try:
        tokenizer = utilities.get_tokenizer(model)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the tokenizer of {config.base_model!r} cannot be loaded: {first_line(error)}",
            hint="check that the model hub is reachable, or give a local directory of the model",
        ) from error
    try:
        renderer = renderers.get_renderer(name, tokenizer, model_name=model)
        messages = data.convert_openai_messages_to_renderer_format(_CONVERSATION, openai_tools(tools), renderer)
        renderer.build_generation_prompt(messages[:-1])
        renderer.build_supervised_example(messages, train_on_what=renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE)
        renderer.get_stop_sequences()
    except NotImplementedError as error:
        raise UsageError(
            f"the renderer {name} of {config.base_model!r} does not support tool calls",
            hint="use `rollout` attempts, or another renderer",
            fields=("rollout",),
        ) from error
    except (ValueError, AssertionError, KeyError, TypeError) as error:
        why = first_line(error).partition(". If this")[0]
        message = f"renderer {name} does not suit {config.base_model!r}: {why}"
        raise UsageError(message, hint=_HINT, fields=("renderer",)) from error
    return name
