"""Checks within seconds that a Tinker service is reachable, accepts the key and has the model, and its renderer.

The Tinker SDK retries for minutes if the service is not reachable, so this module sends one plain request first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

from sandrl.addresses import check_address, refuse_password
from sandrl.config.art import ArtTrainConfig
from sandrl.deadlines import TookTooLong, answer_within
from sandrl.errors import AuthenticationError, EndpointError, InputError, UsageError
from sandrl.models.client import Client, ModelEndpoint
from sandrl.models.endpoint import nearest_names
from sandrl.models.libraries import first_line
from sandrl.settings import Settings
from sandrl.trainers.art.groups import openai_tools
from sandrl.trainers.art.libraries import environment, load
from sandrl.trainers.tinker.options import EXTRA

TINY_RENDERER = "qwen3_instruct"
"""Writes conversations as the template of the tiny policy does, token for token."""

_RENDERER_HINT = "set `renderer` to a renderer of tinker_cookbook, for example qwen3_instruct"
_CONVERSATION = [
    {"role": "system", "content": "Solve the task."},
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello."},
]

TINKER_BASE_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"

# Less than the 15 s within which a user is to know.
_PROBE_SECONDS = 10.0
_SDK_SECONDS = 14.0
_LATER = "once it answers, resume the run with --resume"
_KEY_HINT = "set ART_TINKER_API_KEY (or TINKER_API_KEY) to a key of https://tinker-console.thinkingmachines.ai"


def tinker_address(settings: Settings) -> str:
    return settings.tinker_base_url or TINKER_BASE_URL


def check_tinker(settings: Settings) -> None:
    """Makes sure that there is a key, and that the service answers.

    Raises:
        AuthenticationError: If there is no key, or it cannot be one.
        UsageError: If the address is none.
        EndpointError: If the service does not answer.
    """
    if settings.tinker_api_key is None:
        raise AuthenticationError(
            "backend tinker needs an API key, and no key is set", hint=_KEY_HINT, fields=("backend",)
        )
    if not settings.tinker_api_key.startswith(("tml-", "eyJ")):
        raise AuthenticationError(
            f"{settings.tinker_api_key_source} does not contain a Tinker key: Tinker keys begin with tml-",
            hint=_KEY_HINT,
        )
    address = tinker_address(settings)
    check_address(address, "TINKER_BASE_URL")
    refuse_password(address, "TINKER_BASE_URL", hint=_KEY_HINT)
    endpoint = ModelEndpoint(address, retries=0)
    try:
        if Client(endpoint).look("api/v1/healthz", timeout_seconds=_PROBE_SECONDS) is None:
            raise UsageError(f"{address} answers, but is not a Tinker service", hint="check TINKER_BASE_URL")
    except EndpointError as error:
        reason = error.message.partition(" cannot be reached: ")[2]
        raise EndpointError(
            f"Tinker at {address} cannot be reached: {reason}",
            hint="start that server, or unset TINKER_BASE_URL" if endpoint.is_local else "check the network",
        ) from error
    except AuthenticationError:
        # It is there. Whether it takes the key, its SDK will say, which knows how to show one.
        pass


@contextmanager
def key_shown(settings: Settings) -> Iterator[None]:
    """Lets Tinker's SDK find the key and the address in the environment for the length of a `with` block."""
    with environment(TINKER_API_KEY=settings.tinker_api_key, TINKER_BASE_URL=settings.tinker_base_url):
        yield


def check_base_model(base_model: str, settings: Settings, *, scores: bool) -> None:
    """Makes sure that the service lets us in and trains a model; with `scores`, also that it scores three tokens.

    Raises:
        AuthenticationError: If it refuses the key.
        UsageError: If it does not offer the model, or does not score.
        EndpointError: If it fails.
    """
    tinker = load("tinker", extra=EXTRA)

    def ask() -> tuple[list[str], bool]:
        client = tinker.ServiceClient()
        try:
            offered = [str(each.model_name) for each in client.get_server_capabilities().supported_models]
            return offered, base_model not in offered or not scores or _scores(client, base_model)
        finally:
            client.holder.close()

    with key_shown(settings), translated(settings):
        try:
            offered, can_score = answer_within(_SDK_SECONDS, ask)
        except TookTooLong as error:
            raise EndpointError(
                f"Tinker at {tinker_address(settings)} answers, but not within {_SDK_SECONDS:.0f} s",
                hint="try again later",
            ) from error
    if base_model not in offered:
        shown = nearest_names(base_model, offered)
        raise UsageError(
            f"Tinker at {tinker_address(settings)} has no model {base_model!r}",
            hint=f"set base_model to one of its models: {shown}" if shown else None,
            fields=("base_model",),
        )
    if not can_score:
        raise UsageError(
            f"Tinker at {tinker_address(settings)} cannot score tokens of other models, which `policy` teacher needs",
            hint="use `policy` trained, or `backend` local",
            fields=("policy", "backend"),
        )


def _scores(client: Any, base_model: str) -> bool:
    tinker = load("tinker", extra=EXTRA)
    tokens = [0, 1, 2]
    try:
        found = client.create_sampling_client(base_model=base_model).compute_logprobs(
            tinker.ModelInput.from_ints(tokens)
        )
        return len(found.result() or ()) == len(tokens)
    except (tinker.APIStatusError, tinker.RequestFailedError) as error:
        if not is_of_question(error):
            raise
        return False


@contextmanager
def translated(settings: Settings) -> Iterator[None]:
    """Turns the SDK's errors into ours.

    Raises:
        AuthenticationError: If the key is refused.
        EndpointError: If the service does not answer, or fails.
    """
    tinker = load("tinker", extra=EXTRA)
    try:
        yield
    except (tinker.AuthenticationError, tinker.PermissionDeniedError) as error:
        raise AuthenticationError(
            f"Tinker refuses the key in {settings.tinker_api_key_source}", hint=_KEY_HINT
        ) from error
    except tinker.APIConnectionError as error:
        raise EndpointError(f"Tinker at {tinker_address(settings)} does not answer anymore", hint=_LATER) from error
    except tinker.TinkerError as error:
        message = f"Tinker at {tinker_address(settings)} fails: {first_line(error)}"
        raise EndpointError(message, hint=_LATER) from error


def is_of_question(error: Exception) -> bool:
    """Whether an error of the SDK says that the question cannot be answered, not that the service fails."""
    category = str(getattr(error, "category", "")).lower()
    return getattr(error, "status_code", 500) in (400, 413, 422) or "user" in category


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
        raise UsageError(message, hint=_RENDERER_HINT, fields=("renderer",)) from error


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
        raise UsageError(message, hint=_RENDERER_HINT, fields=("renderer",)) from error
    return name
