"""The operations behind the routes: sessions, models in training, samplers and their checkpoints.

A request that is known to be impossible is refused immediately. A request that uses weights becomes a job of the queue,
and its error is the result of the future. Models in training and samplers belong to the process; a checkpoint belongs
to the directory that contains it.

Every model of the Tinker API is a LoRA, so the answers say so even if all weights are trained.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import torch
from tinker import types
from tinker.types.session_heartbeat_request import SessionHeartbeatRequest

from sandrl.trainers.tinker.checkpoints import Checkpoints
from sandrl.trainers.tinker.models import (
    Example,
    ModelInTraining,
    as_tokens,
    checked_tokens,
    target_logprobs,
)
from sandrl.trainers.tinker.options import NotFoundError, QueueFullError, RequestError, ServiceOptions
from sandrl.trainers.tinker.sampling import Sample, draw, samples
from sandrl.trainers.tinker.weights import Base, Weights, free_bytes
from sandrl.trainers.tinker.work import Answer, Job, Work

BASE = "base"
"""The sampler weights that were never trained."""

SAMPLERS_LOADED = 2
"""How many samplers' weights are in memory, besides those of the base model."""

SAMPLERS_KEPT = 16
"""How many samplers without a name are kept, the latest."""

MOST_MODELS = 256
"""How many models may be in training at once, if there is memory for them."""

IDLE_SECONDS = 600.0
"""A session whose client has sent no heartbeat for so long has ended; the SDK sends one every few seconds."""

MOST_RANK = 1_024

LEAST_FREE_BYTES = 256 << 20
"""How much memory must be left where another model is made."""


class _Numbered(Protocol):
    model_id: str
    seq_id: int | None


class Service:
    """The state of the service; its coroutines are the routes of the same names."""

    def __init__(self, base: Base, checkpoints: Checkpoints, options: ServiceOptions) -> None:
        self.base = base
        self.checkpoints = checkpoints
        self.samplers: dict[str, types.GetSamplerResponse] = {}
        self._options = options
        self._models: dict[str, ModelInTraining] = {}
        self._model_ids: dict[str, str] = {}
        self._heard_at: dict[str, float] = {}
        self._unnamed: OrderedDict[str, types.LoraConfig] = OrderedDict()
        self._loaded: OrderedDict[str, Weights] = OrderedDict()
        self._chances = random.Random() if options.seed is None else random.Random(f"samples {options.seed}")
        self.work = Work(self._draw, options.max_queue)

    async def get_server_capabilities(self) -> types.GetServerCapabilitiesResponse:
        names = [self.base.name, self.base.alias] if self.base.alias else [self.base.name]
        models = [types.SupportedModel(model_name=name, max_context_length=self.base.positions) for name in names]
        return types.GetServerCapabilitiesResponse(supported_models=models)

    async def create_session(self, _: types.CreateSessionRequest) -> types.CreateSessionResponse:
        session_id = str(uuid.uuid4())
        self._heard_at[session_id] = time.monotonic()
        return types.CreateSessionResponse(session_id=session_id)

    async def session_heartbeat(self, request: SessionHeartbeatRequest) -> dict[str, str]:
        self._heard_at[request.session_id] = time.monotonic()
        return {"type": "session_heartbeat"}

    async def create_model(self, request: types.CreateModelRequest) -> types.UntypedAPIFuture:
        self._check_base(request.base_model)
        config = request.lora_config or types.LoraConfig(rank=32)
        if not 1 <= config.rank <= MOST_RANK:
            raise RequestError(f"the rank must be from 1 to {MOST_RANK}")
        model_id = f"{request.session_id}:train:{request.model_seq_id}"
        if model_id not in self._model_ids:
            self._make_room()

        def run() -> Answer:
            self._models[model_id] = ModelInTraining(self.base, config, everything=self._options.trains_all)
            return {"model_id": model_id, "type": "create_model"}

        future = self._submit(f"{model_id}:create", model_id, Job(run))
        self._model_ids[model_id] = request.session_id
        return future

    def _make_room(self) -> None:
        # The models of sessions that have ended without a word go, if there is no room for another one.
        if self._has_room():
            return
        now = time.monotonic()
        for model_id, session_id in list(self._model_ids.items()):
            if now - self._heard_at.get(session_id, now) > IDLE_SECONDS:
                self._models.pop(model_id, None)
                self._model_ids.pop(model_id, None)
        if not self._has_room():
            message = f"{len(self._model_ids)} models are in training, which is the maximum"
            raise RequestError(f"{message}: unload a model, or stop a client that uses one")

    def _has_room(self) -> bool:
        # A model of all weights has four numbers for each: itself, its gradient and Adam's two moments.
        size = 16 * sum(tensor.numel() for tensor in self.base.weights.values()) if self._options.trains_all else 0
        return len(self._model_ids) < MOST_MODELS and free_bytes() > size + LEAST_FREE_BYTES

    async def get_info(self, request: types.GetInfoRequest) -> types.GetInfoResponse:
        model = self._model(request.model_id)
        name = self.base.name
        data = types.ModelData(arch=self.base.module.config.model_type, model_name=name, tokenizer_id=name)
        return types.GetInfoResponse(
            type="get_info",
            model_data=data,
            model_id=request.model_id,
            is_lora=True,
            lora_rank=model.config.rank,
            model_name=name,
        )

    async def unload_model(self, request: types.UnloadModelRequest) -> types.UntypedAPIFuture:
        """Forgets a model; its checkpoints stay."""
        model_id = request.model_id
        self._check_model(model_id)

        def run() -> Answer:
            self._models.pop(model_id, None)
            self._model_ids.pop(model_id, None)
            return {"model_id": model_id, "type": "unload_model"}

        return self._submit(f"{model_id}:unload", model_id, Job(run))

    async def forward(self, request: types.ForwardRequest) -> types.UntypedAPIFuture:
        return self.compute(request, request.forward_input, backward=False)

    async def forward_backward(self, request: types.ForwardBackwardRequest) -> types.UntypedAPIFuture:
        return self.compute(request, request.forward_backward_input, backward=True)

    def compute(
        self, request: _Numbered, given: types.ForwardBackwardInput, *, backward: bool
    ) -> types.UntypedAPIFuture:
        """Computes a loss, and with `backward` its gradients."""

        def run() -> Answer:
            model = self._model(request.model_id)
            output = model.run(given.data, given.loss_fn, given.loss_fn_config or {}, backward=backward)
            return output.model_dump(mode="json")

        tokens = sum(len(tensor.data) for datum in given.data for tensor in datum.loss_fn_inputs.values())
        return self._ask(request, run, tokens)

    async def optim_step(self, request: types.OptimStepRequest) -> types.UntypedAPIFuture:
        return self._ask(request, lambda: {"metrics": self._model(request.model_id).step(request.adam_params)})

    async def save_weights(self, request: types.SaveWeightsRequest) -> types.UntypedAPIFuture:
        """Saves what a training can be resumed from."""
        return self._save(request, "training", request.path)

    async def save_weights_for_sampler(self, request: types.SaveWeightsForSamplerRequest) -> types.UntypedAPIFuture:
        """Saves what a model can be sampled from; without a name only for this process, as a sampler at once."""
        if request.path is not None or request.sampling_session_seq_id is None:
            return self._save(request, "sampler", request.path)
        sampler_id = f"{request.model_id.split(':')[0]}:sample:{request.sampling_session_seq_id}"

        def run() -> Answer:
            model = self._model(request.model_id)
            self.checkpoints.save_sampler(sampler_id, model.saved(optimizer=False))
            self._unnamed[sampler_id] = model.config
            self._add_sampler(sampler_id, None)
            while len(self._unnamed) > SAMPLERS_KEPT:
                oldest, _ = self._unnamed.popitem(last=False)
                self.checkpoints.delete_sampler(oldest)
                self.samplers.pop(oldest, None)
                self._loaded.pop(oldest, None)
            return {"path": None, "sampling_session_id": sampler_id, "type": "save_weights_for_sampler"}

        return self._ask(request, run)

    async def load_weights(self, request: types.LoadWeightsRequest) -> types.UntypedAPIFuture:
        """Takes a model back, or over, to a checkpoint of any run."""

        def run() -> Answer:
            saved = self.checkpoints.read(request.path)
            self._model(request.model_id).load(saved, optimizer=request.optimizer)
            return {"path": request.path, "type": "load_weights"}

        return self._ask(request, run)

    def weights_info(self, path: str) -> types.WeightsInfoResponse:
        about = self.checkpoints.about(path)
        config = about.config.model_dump(include={"train_unembed", "train_mlp", "train_attn"})
        return types.WeightsInfoResponse(
            base_model=about.base_model, is_lora=True, lora_rank=about.config.rank, **config
        )

    def run_checkpoints(self, model_id: str) -> types.CheckpointsListResponse:
        found = self.checkpoints.of_run(model_id)
        if not found:
            self._check_model(model_id)
        return types.CheckpointsListResponse(checkpoints=found)

    async def create_sampling_session(
        self, request: types.CreateSamplingSessionRequest
    ) -> types.CreateSamplingSessionResponse:
        """Makes a sampler of a checkpoint or of the base model."""
        if request.model_path is not None:
            self.checkpoints.about(request.model_path)
        else:
            self._check_base(request.base_model or "")
        sampler_id = f"{request.session_id}:sample:{request.sampling_session_seq_id}"
        self._add_sampler(sampler_id, request.model_path)
        return types.CreateSamplingSessionResponse(sampling_session_id=sampler_id)

    async def asample(self, request: types.SampleRequest) -> types.UntypedAPIFuture:
        """Draws samples; with prompt logprobs, also says how likely the prompt was."""
        if request.sampling_session_id is None:
            raise RequestError("sampling requires a sampling session")
        sampler = self.samplers.get(request.sampling_session_id)
        if sampler is None:
            raise NotFoundError(f"there is no sampler {request.sampling_session_id}")
        key = sampler.sampler_id if sampler.sampler_id in self._unnamed else sampler.model_path or BASE
        prompt = checked_tokens(as_tokens(request.prompt), self.base)
        drawn = samples(prompt, request.sampling_params, request.num_samples, self.base, self._chances)

        def run() -> Answer:
            sequences = [
                {"stop_reason": each.stop_reason, "tokens": each.tokens, "logprobs": each.logprobs} for each in drawn
            ]
            answer: Answer = {"type": "sample", "sequences": sequences}
            if request.prompt_logprobs or request.topk_prompt_logprobs:
                answer |= self._prompt_logprobs(key, prompt, request.topk_prompt_logprobs)
            return answer

        number = f"{sampler.sampler_id}:{uuid.uuid4() if request.seq_id is None else request.seq_id}"
        tokens = len(prompt) + sum(each.limit for each in drawn)
        return self._submit(number, None, Job(run, tokens, key, drawn))

    def _save(
        self, request: types.SaveWeightsRequest | types.SaveWeightsForSamplerRequest, kind: str, name: str | None
    ) -> types.UntypedAPIFuture:
        number = self._number(request)
        if self.work.knows(number):
            return types.UntypedAPIFuture(request_id=number, model_id=request.model_id)
        self._check_model(request.model_id)
        path = self.checkpoints.reserve(request.model_id, kind, f"{request.seq_id or 0:06d}" if name is None else name)

        def run() -> Answer:
            model = self._model(request.model_id)
            with self.checkpoints.reserved(path):
                content = model.saved(optimizer=kind == "training")
                self.checkpoints.save(path, content, self.base.name, model.config)
            return {"path": path, "type": request.type}

        try:
            return self._ask(request, run)
        except QueueFullError:
            with self.checkpoints.reserved(path):
                raise

    def _draw(self, key: str, batch: list[Sample]) -> None:
        draw(self.base, self._weights(key), batch)

    def _prompt_logprobs(self, key: str, prompt: list[int], likeliest: int) -> Answer:
        weights = self._weights(key)
        logprobs: list[float | None] = [None]
        top: list[list[tuple[int, float]] | None] = [None]
        if len(prompt) > 1:
            with torch.inference_mode():
                logprobs += target_logprobs(self.base, weights, [Example(prompt[:-1], prompt[1:], {})])[0].tolist()
                if likeliest:
                    logits_TV = self.base(weights, input_ids=self.base.tensor([prompt[:-1]]), use_cache=False).logits[0]
                    logprobs_TV = torch.log_softmax(logits_TV, dim=-1)
                    values, tokens = logprobs_TV.topk(min(likeliest, self.base.vocabulary), dim=-1)
                    rows = zip(tokens.tolist(), values.tolist(), strict=True)
                    top += [list(zip(*row, strict=True)) for row in rows]
        return {"prompt_logprobs": logprobs, "topk_prompt_logprobs": top if likeliest else None}

    def _weights(self, key: str) -> Weights:
        if key == BASE:
            return self.base.weights
        if key not in self._loaded:
            if key in self._unnamed:
                config, content = self._unnamed[key], self.checkpoints.read_sampler(key)
            else:
                config, content = self.checkpoints.about(key).config, self.checkpoints.read(key)
            # The tensors that are drawn for its seed are overwritten.
            model = ModelInTraining(self.base, config, everything=self._options.trains_all)
            model.load(content, optimizer=False)
            self._loaded[key] = model.whole()
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
            raise NotFoundError(f"there is no model {model_id}")
        return self._models[model_id]

    def _check_model(self, model_id: str) -> None:
        if model_id not in self._model_ids:
            raise NotFoundError(f"there is no model {model_id}")

    def _check_base(self, name: str) -> None:
        if not self.base.is_called(name):
            raise RequestError(f"{name} is not supported; this server has {self.base.name}")

    def _ask(self, request: _Numbered, run: Callable[[], Answer], tokens: int = 0) -> types.UntypedAPIFuture:
        self._check_model(request.model_id)
        return self._submit(self._number(request), request.model_id, Job(run, tokens))

    def _number(self, request: _Numbered) -> str:
        return f"{request.model_id}:{uuid.uuid4() if request.seq_id is None else request.seq_id}"

    def _submit(self, number: str, model_id: str | None, job: Job) -> types.UntypedAPIFuture:
        self.work.submit(number, job)
        return types.UntypedAPIFuture(request_id=number, model_id=model_id)
