"""What the routes ask for: sessions, models in training, samplers and their checkpoints.

The design decision: what can be told at once is refused at once; whatever touches weights becomes a job of the queue,
and what goes wrong there is the answer to the future. Models in training and samplers belong to the process; a
checkpoint belongs to the directory it lies in.

Every model of the service is a LoRA, so this says so of its own even where it trains all weights.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from tinker import types

from tests.support.tinker_server.checkpoints import Checkpoints
from tests.support.tinker_server.models import (
    Example,
    ModelInTraining,
    as_tokens,
    checked_tokens,
    listed,
    target_logprobs,
)
from tests.support.tinker_server.refusals import NotThere, Refused
from tests.support.tinker_server.sampling import Sample, draw, samples
from tests.support.tinker_server.weights import Base, Weights
from tests.support.tinker_server.work import Answer, Job, Work

BASE = "base"
"""The sampler weights that were never trained."""

SAMPLERS_LOADED = 4


@dataclass(frozen=True)
class Options:
    """How the server behaves.

    Attributes:
        everything: Train all weights instead of LoRA.
        record: Where a line is written for everything that was done to a model; None for nowhere.
        nan_after: After so many steps, of all models together, losses are no numbers; None for never.
        crash_before_save: The save, counted over all models, before which the process ends; None for none.
    """

    everything: bool = False
    record: Path | None = None
    nan_after: int | None = None
    crash_before_save: int | None = None


class _Numbered(Protocol):
    """A request for a model, with the number its client gave it."""

    model_id: str
    seq_id: int | None


class Service:
    """The state of the server.

    Args:
        base: The one model it offers.
        checkpoints: Where it keeps what clients save.
        options: How it behaves.
    """

    def __init__(self, base: Base, checkpoints: Checkpoints, options: Options) -> None:
        self.base = base
        self.checkpoints = checkpoints
        self.samplers: dict[str, types.GetSamplerResponse] = {}
        self._options = options
        self._models: dict[str, ModelInTraining] = {}
        self._model_ids: set[str] = set()
        self._kept: dict[str, Weights] = {BASE: base.weights}
        self._loaded: OrderedDict[str, Weights] = OrderedDict()
        self._steps = self._saves = 0
        self._writing = threading.Lock()
        self.work = Work(self._draw)

    def create_model(self, request: types.CreateModelRequest) -> types.UntypedAPIFuture:
        """Makes a model in training; a client has its own."""
        self._check_base(request.base_model)
        config = request.lora_config or types.LoraConfig(rank=32)
        if config.rank < 1:
            raise Refused("the rank must be at least 1")
        model_id = f"{request.session_id}:train:{request.model_seq_id}"
        self._model_ids.add(model_id)

        def run() -> Answer:
            model = ModelInTraining(self.base, config, everything=self._options.everything)
            self._models[model_id] = model
            self._record("create_model", model_id, rank=config.rank, weights=model.digest)
            return {"model_id": model_id, "type": "create_model"}

        return self._submit(f"{model_id}:create", model_id, Job(run))

    def model_info(self, model_id: str) -> types.GetInfoResponse:
        """What is known of a model in training."""
        model = self._model(model_id)
        name = self.base.name
        data = types.ModelData(arch=self.base.module.config.model_type, model_name=name, tokenizer_id=name)
        return types.GetInfoResponse(
            type="get_info",
            model_data=data,
            model_id=model_id,
            is_lora=True,
            lora_rank=model.config.rank,
            model_name=name,
        )

    def unload_model(self, model_id: str) -> types.UntypedAPIFuture:
        """Forgets a model; its checkpoints stay."""
        self._check_model(model_id)

        def run() -> Answer:
            self._models.pop(model_id, None)
            self._model_ids.discard(model_id)
            return {"model_id": model_id, "type": "unload_model"}

        return self._submit(f"{model_id}:unload", model_id, Job(run))

    def forward(
        self, request: _Numbered, given: types.ForwardBackwardInput, *, backward: bool
    ) -> types.UntypedAPIFuture:
        """Computes a loss, and with `backward` its gradients."""

        def run() -> Answer:
            model, config = self._model(request.model_id), given.loss_fn_config or {}
            is_late = self._options.nan_after is not None and self._steps >= self._options.nan_after
            factor = float("nan") if is_late else 1.0
            output = model.run(given.data, given.loss_fn, config, backward=backward, factor=factor)
            self._record(
                "forward_backward" if backward else "forward",
                request.model_id,
                loss_fn=given.loss_fn,
                loss_fn_config=config,
                data=[listed(datum) for datum in given.data],
                metrics=output.metrics,
            )
            return output.model_dump(mode="json")

        return self._ask(request, run)

    def optim_step(self, request: types.OptimStepRequest) -> types.UntypedAPIFuture:
        """Changes the weights by the gradients there are."""

        def run() -> Answer:
            model = self._model(request.model_id)
            metrics = model.step(request.adam_params)
            self._steps += 1
            adam = request.adam_params.model_dump()
            self._record(
                "optim_step", request.model_id, step=model.steps, adam=adam, metrics=metrics, weights=model.digest
            )
            return {"metrics": metrics}

        return self._ask(request, run)

    def save_weights(self, request: types.SaveWeightsRequest) -> types.UntypedAPIFuture:
        """Saves what a model's training can go on from."""
        return self._save(request, "training", request.path)

    def save_weights_for_sampler(self, request: types.SaveWeightsForSamplerRequest) -> types.UntypedAPIFuture:
        """Saves what a model can be sampled from; without a name only for this process, as a sampler at once."""
        if request.path is not None or request.sampling_session_seq_id is None:
            return self._save(request, "sampler", request.path)
        sampler_id = f"{request.model_id.split(':')[0]}:sample:{request.sampling_session_seq_id}"

        def run() -> Answer:
            model = self._model(request.model_id)
            self._kept[sampler_id] = model.frozen()
            self._add_sampler(sampler_id, None)
            self._record("save_weights_for_sampler", request.model_id, path=None, weights=model.digest)
            return {"path": None, "sampling_session_id": sampler_id, "type": "save_weights_for_sampler"}

        return self._ask(request, run)

    def load_weights(self, request: types.LoadWeightsRequest) -> types.UntypedAPIFuture:
        """Takes a model back, or over, to a checkpoint of any run."""

        def run() -> Answer:
            model = self._model(request.model_id)
            model.load(self.checkpoints.read(request.path), optimizer=request.optimizer)
            self._record(
                "load_weights", request.model_id, path=request.path, optimizer=request.optimizer, weights=model.digest
            )
            return {"path": request.path, "type": "load_weights"}

        return self._ask(request, run)

    def weights_info(self, path: str) -> types.WeightsInfoResponse:
        """What a training client needs to know to load a checkpoint."""
        about = self.checkpoints.about(path)
        config = about.config.model_dump(include={"train_unembed", "train_mlp", "train_attn"})
        return types.WeightsInfoResponse(
            base_model=about.base_model, is_lora=True, lora_rank=about.config.rank, **config
        )

    def run_checkpoints(self, model_id: str) -> types.CheckpointsListResponse:
        """All checkpoints of a training run."""
        found = self.checkpoints.of_run(model_id)
        if not found:
            self._check_model(model_id)
        return types.CheckpointsListResponse(checkpoints=found)

    def create_sampler(self, request: types.CreateSamplingSessionRequest) -> str:
        """Makes a sampler of a checkpoint or of the base model."""
        if request.model_path is not None:
            self.checkpoints.about(request.model_path)
        else:
            self._check_base(request.base_model or "")
        sampler_id = f"{request.session_id}:sample:{request.sampling_session_seq_id}"
        self._add_sampler(sampler_id, request.model_path)
        return sampler_id

    def sample(self, request: types.SampleRequest) -> types.UntypedAPIFuture:
        """Draws samples; with prompt logprobs, also says how likely the prompt was."""
        if request.sampling_session_id is None:
            raise Refused("sampling needs a sampling session")
        sampler = self.samplers.get(request.sampling_session_id)
        if sampler is None:
            raise NotThere(f"there is no sampler {request.sampling_session_id}")
        key = sampler.sampler_id if sampler.sampler_id in self._kept else sampler.model_path or BASE
        prompt = checked_tokens(as_tokens(request.prompt), self.base)
        drawn = samples(prompt, request.sampling_params, request.num_samples, self.base)

        def run() -> Answer:
            sequences = [
                {"stop_reason": each.stop_reason, "tokens": each.tokens, "logprobs": each.logprobs} for each in drawn
            ]
            answer: Answer = {"type": "sample", "sequences": sequences}
            if request.prompt_logprobs or request.topk_prompt_logprobs:
                answer |= self._prompt_logprobs(key, prompt, request.topk_prompt_logprobs)
            return answer

        number = f"{sampler.sampler_id}:{uuid.uuid4() if request.seq_id is None else request.seq_id}"
        return self._submit(number, None, Job(run, key, drawn))

    def _save(
        self, request: types.SaveWeightsRequest | types.SaveWeightsForSamplerRequest, kind: str, name: str | None
    ) -> types.UntypedAPIFuture:
        number = self._number(request)
        if self.work.knows(number):
            return types.UntypedAPIFuture(request_id=number, model_id=request.model_id)
        self._check_model(request.model_id)
        path = self.checkpoints.reserve(request.model_id, kind, f"{request.seq_id or 0:06d}" if name is None else name)

        def run() -> Answer:
            self._saves += 1
            if self._saves == self._options.crash_before_save:
                os._exit(70)
            model = self._model(request.model_id)
            content = model.saved(optimizer=kind == "training")
            self.checkpoints.save(path, content, self.base.name, model.config)
            self._record(request.type, request.model_id, path=path, step=model.steps, weights=model.digest)
            return {"path": path, "type": request.type}

        return self._ask(request, run)

    def _draw(self, key: str, batch: list[Sample]) -> None:
        draw(self.base, self._weights(key), batch)

    def _prompt_logprobs(self, key: str, prompt: list[int], likeliest: int) -> Answer:
        """How likely each token of a prompt was; the first has nothing before it."""
        weights = self._weights(key)
        logprobs: list[float | None] = [None]
        top: list[list[tuple[int, float]] | None] = [None]
        if len(prompt) > 1:
            with torch.inference_mode():
                logprobs += target_logprobs(self.base, weights, [Example(prompt[:-1], prompt[1:], {})])[0].tolist()
                if likeliest:
                    logits_TV = self.base(weights, input_ids=torch.tensor([prompt[:-1]]), use_cache=False).logits[0]
                    logprobs_TV = torch.log_softmax(logits_TV, dim=-1)
                    values, tokens = logprobs_TV.topk(min(likeliest, self.base.vocabulary), dim=-1)
                    rows = zip(tokens.tolist(), values.tolist(), strict=True)
                    top += [list(zip(*row, strict=True)) for row in rows]
        return {"prompt_logprobs": logprobs, "topk_prompt_logprobs": top if likeliest else None}

    def _weights(self, key: str) -> Weights:
        if key in self._kept:
            return self._kept[key]
        if key not in self._loaded:
            about = self.checkpoints.about(key)
            # Whatever was drawn for its seed is overwritten.
            model = ModelInTraining(self.base, about.config, everything=self._options.everything)
            model.load(self.checkpoints.read(key), optimizer=False)
            self._loaded[key] = model.frozen()
            if len(self._loaded) > SAMPLERS_LOADED:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(key)
        return self._loaded[key]

    def _add_sampler(self, sampler_id: str, path: str | None) -> None:
        self.samplers[sampler_id] = types.GetSamplerResponse(
            sampler_id=sampler_id, base_model=self.base.name, model_path=path
        )

    def _model(self, model_id: str) -> ModelInTraining:
        if model_id not in self._models:
            raise NotThere(f"there is no model {model_id}")
        return self._models[model_id]

    def _check_model(self, model_id: str) -> None:
        if model_id not in self._model_ids:
            raise NotThere(f"there is no model {model_id}")

    def _check_base(self, name: str) -> None:
        if not name or os.path.realpath(name) != os.path.realpath(self.base.name):
            raise Refused(f"{name} is not supported; this server has {self.base.name}")

    def _ask(self, request: _Numbered, run: Callable[[], Answer]) -> types.UntypedAPIFuture:
        self._check_model(request.model_id)
        return self._submit(self._number(request), request.model_id, Job(run))

    def _number(self, request: _Numbered) -> str:
        return f"{request.model_id}:{uuid.uuid4() if request.seq_id is None else request.seq_id}"

    def _submit(self, number: str, model_id: str | None, job: Job) -> types.UntypedAPIFuture:
        self.work.submit(number, job)
        return types.UntypedAPIFuture(request_id=number, model_id=model_id)

    def _record(self, operation: str, model_id: str, **content: Any) -> None:
        if self._options.record is None:
            return
        line = json.dumps({"op": operation, "model_id": model_id, **content})
        with self._writing, self._options.record.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
