"""How conversations become tokens on Tinker: by a renderer of tinker_cookbook's and the model's tokenizer."""

from __future__ import annotations

from sandrl.errors import InputError, UsageError
from sandrl.trainers.art.config import ArtConfig
from sandrl.trainers.art.libraries import load
from sandrl.trainers.art.service import EXTRA, first_line

_HINT = "name one of tinker_cookbook's with --renderer, for example qwen3_instruct or llama3"


def renderer_name(config: ArtConfig) -> str:
    """The renderer that was asked for, or the one ART takes for the base model.

    Raises:
        UsageError: If ART knows none for it.
    """
    if config.renderer is not None:
        return config.renderer
    renderers = load("art.tinker.renderers", extra=EXTRA)
    try:
        return str(renderers.get_renderer_name(config.base_model))
    except ValueError as error:
        raise UsageError(f"ART knows no renderer for {config.base_model!r}", hint=_HINT) from error


def check_renderer(config: ArtConfig) -> str:
    """Makes sure that there is such a renderer, and that the model's tokenizer can be loaded; returns its name.

    Raises:
        UsageError: If there is no such renderer.
        InputError: If the tokenizer cannot be loaded.
    """
    name = renderer_name(config)
    utilities = load("tinker_cookbook.tokenizer_utils", extra=EXTRA)
    renderers = load("tinker_cookbook.renderers", extra=EXTRA)
    try:
        tokenizer = utilities.get_tokenizer(config.base_model)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the tokenizer of {config.base_model!r} cannot be loaded: {first_line(error)}",
            hint="is the model hub reachable? A directory of the model works without it",
        ) from error
    try:
        renderer = renderers.get_renderer(name, tokenizer, model_name=config.base_model)
        renderer.build_generation_prompt([{"role": "user", "content": "Hello."}])
        renderer.get_stop_sequences()
    except (ValueError, AssertionError, KeyError, TypeError) as error:
        why = first_line(error).partition(". If this")[0]
        raise UsageError(f"--renderer {name} does not suit {config.base_model!r}: {why}", hint=_HINT) from error
    return name
