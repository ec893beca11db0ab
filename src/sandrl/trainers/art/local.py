"""A model that is trained on a GPU of this machine, by ART's `LocalBackend` with Unsloth and vLLM.

The backend runs in this process, because the separate launcher of vLLM puts its token on a command line that every user
of the machine can read; here the token is in the environment. The messages of a teacher are scored by the same vLLM
before the training: ART skips messages without logprobs, or, if configured otherwise, trains earlier turns again with
each later one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandrl.config.art import ArtTrainConfig
from sandrl.errors import RequestRefusedError, ServiceError, TrainingError
from sandrl.models.client import Client
from sandrl.models.libraries import first_line
from sandrl.trainers.art.backend import UNTRAINABLE, StepResult, TrainedModel, regrouped, scored_message
from sandrl.trainers.art.groups import Group, Sample, context, openai_tools
from sandrl.trainers.art.libraries import environment, load, model_names
from sandrl.trainers.art.loop import EventLoop

EXTRA = "art-local"

_GRADIENT_STEPS = "data/step_num_gradient_steps"
# What the releases call them.
_TOKENS = ("data/step_trainable_assistant_tokens", "data/step_trainer_tokens")
_SCORED_AT_ONCE = 16


class LocalModel(TrainedModel):
    """A model, named after its run, that is trained on this machine; ART's directory has its checkpoints.

    `chat_template` replaces the model's own.

    Raises:
        ServiceError: If it cannot be loaded, or served.
    """

    extra = EXTRA

    def __init__(
        self, config: ArtTrainConfig, *, name: str, path: Path, loop: EventLoop, chat_template: str | None = None
    ) -> None:
        super().__init__(config, loop)
        self._tokenizer: Any = None
        self._chat_template = chat_template
        template = {} if chat_template is None else {"chat_template": chat_template}
        # Unsloth changes what is imported after it.
        os.environ.setdefault("IMPORT_UNSLOTH", "1")
        art = load("art", extra=EXTRA)
        local = load("art.local", extra=EXTRA)
        hide_token(load("art.unsloth.service", extra=EXTRA))
        self._model = art.TrainableModel(
            **model_names(name),
            project=config.project,
            base_model=config.base_model,
            _internal_config={"peft_args": {"r": config.lora_rank}, **template},
        )
        self._backend = local.LocalBackend(in_process=True, path=str(path))
        # Metrics are sandrl's own to report; and vLLM finds its token where nobody else looks.
        with environment(WANDB_API_KEY=None, VLLM_API_KEY=self._token):
            try:
                self._register()
            except (OSError, ImportError, *UNTRAINABLE) as error:
                self.close()
                raise ServiceError(
                    f"{config.base_model!r} cannot be loaded for training: {first_line(error)}",
                    hint=f"see the logs in {path}; a smaller base model needs less memory",
                ) from error
            except BaseException:
                self.close()
                raise

    @property
    def step(self) -> int:
        return int(self._loop.run(self._model.get_step(), is_step=True))

    def check_alive(self) -> None:
        Client(self.endpoint).look("models")

    def score(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> list[Group]:
        if self._tokenizer is None:
            transformers = load("transformers", extra=EXTRA)
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(self._config.base_model)
            if self._chat_template is not None:
                self._tokenizer.chat_template = self._chat_template
        stop = threading.Event()
        scoring = asyncio.to_thread(self._scored, groups, tools, Client(self.endpoint, stop), self.name)
        try:
            return self._loop.run(scoring, is_step=True)
        finally:
            stop.set()

    def train(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], *, learning_rate: float) -> StepResult:
        before = self.step
        try:
            with environment(WANDB_API_KEY=None):
                result = self._trained(groups, tools, learning_rate=learning_rate)
        except (OSError, *UNTRAINABLE) as error:
            raise TrainingError(f"ART cannot train step {before + 1}: {first_line(error)}") from error
        metrics = dict(result.metrics)
        # It counts a step that trained nothing, too; the gradient steps tell.
        tokens = next((int(metrics[name]) for name in _TOKENS if name in metrics), 0)
        return StepResult(int(result.step), int(metrics.get(_GRADIENT_STEPS, 0)), tokens, metrics)

    def _scored(
        self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], client: Client, name: str
    ) -> list[Group]:
        def score(sample: Sample) -> Sample:
            messages, offered = list(sample.messages), openai_tools(sample.tools or tools)
            for turn in sample.turns:
                prompt, spoken = spoken_tokens(self._tokenizer, context(sample, turn + 1), offered)
                logprobs: Sequence[float] = ()
                # A refused request is longer than the model can read, as a rule: a teacher may well read more.
                with suppress(RequestRefusedError):
                    logprobs = score_tokens(client, name, prompt, spoken)
                messages[turn] = scored_message(messages[turn], spoken, logprobs)
            return replace(sample, messages=tuple(messages), branches=tuple(map(score, sample.branches)))

        with ThreadPoolExecutor(_SCORED_AT_ONCE) as pool:
            samples = [sample for group in groups for sample in group.samples]
            return regrouped(groups, list(pool.map(score, samples)))


def hide_token(service: Any) -> None:
    """Keeps the token of the vLLM that this module of ART starts off its command line, for `VLLM_API_KEY`."""
    build = service.build_vllm_runtime_server_cmd

    def without_token(config: Any) -> list[str]:
        arguments = {name: value for name, value in config.server_args.items() if name != "api_key"}
        return list(build(config.model_copy(update={"server_args": arguments})))

    if not getattr(build, "hides_token", False):
        without_token.hides_token = True  # type: ignore[attr-defined]
        service.build_vllm_runtime_server_cmd = without_token


def spoken_tokens(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: list[dict[str, Any]] | None
) -> tuple[list[int], list[int]]:
    """The tokens of a conversation up to where its last message begins, and those of that message, its end included."""
    # Templates write things of their own before a message, such as an empty thought: those are no words of its.
    mark = "\u241f"
    spoken_text = tokenizer.apply_chat_template([*messages], tools=tools, tokenize=False)
    marked = tokenizer.apply_chat_template(
        [*messages[:-1], {"role": "assistant", "content": mark}], tools=tools, tokenize=False
    )
    begins_at = marked.rindex(mark)
    prompt = list(tokenizer.encode(spoken_text[:begins_at], add_special_tokens=False))
    spoken = list(tokenizer.encode(spoken_text[begins_at:], add_special_tokens=False))
    end = tokenizer.eos_token_id
    if end in spoken:
        spoken = spoken[: len(spoken) - spoken[::-1].index(end)]
    return prompt, spoken


def score_tokens(client: Client, name: str, prompt: Sequence[int], spoken: Sequence[int]) -> tuple[float, ...]:
    """The logprobs (T) that a model behind vLLM gives to tokens (T) it did not sample, after a prompt.

    Raises:
        EndpointError: If vLLM gives none.
    """
    tokens = [*prompt, *spoken]
    question = {"model": name, "prompt": tokens, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}

    def read(document: Mapping[str, Any]) -> tuple[float, ...]:
        try:
            found = document["choices"][0]["prompt_logprobs"][len(prompt) :]
            return tuple(float(each[str(token)]["logprob"]) for token, each in zip(spoken, found, strict=True))
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError("the answer has no logprobs of the prompt") from error

    return client.ask("completions", question, read).answer
