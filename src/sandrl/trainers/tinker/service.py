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

from sandrl.trainers.tinker.bodies import Computation, as_tokens
from sandrl.trainers.tinker.checkpoints import Checkpoints
from sandrl.trainers.tinker.models import Computed, Example, ModelInTraining, checked_tokens, target_logprobs
from sandrl.trainers.tinker.options import (
    MOST_RANK,
    AdapterConfig,
    NameTakenError,
    NotFoundError,
    QueueFullError,
    RequestError,
    ServiceOptions,
)
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

# What requests to save have in later versions of the SDK.
_LATER_FIELDS = {"overwrite", "kind"}

LEAST_FREE_BYTES = 256 << 20
"""How much memory must be left where another model is made."""


class _Numbered(Protocol):
    @property
    def model_id(self) -> str: ...

    @property
    def seq_id(self) -> int | None: ...


class _OfSession(Protocol):
    session_id: str
    model_seq_id: int


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
        self._unnamed: OrderedDict[str, AdapterConfig] = OrderedDict()
        self._loaded: OrderedDict[str, Weights] = OrderedDict()
        self._chances = random.Random() if options.seed is None else random.Random(f"samples {options.seed}")
        self.work = Work(self._draw, options.max_queue)

    async def get_server_capabilities(self) -> types.GetServerCapabilitiesResponse:
        names = [self.base.name, self.base.alias] if self.base.alias else [self.base.name]
        about = {"max_context_length": self.base.positions, "trainable": True, "sampleable": True}
        models = [types.SupportedModel(model_name=name, **about) for name in names]
        return types.GetServerCapabilitiesResponse(supported_models=models)

    async def create_session(self, _: types.CreateSessionRequest) -> types.CreateSessionResponse:
        session_id = str(uuid.uuid4())
        self._heard_at[session_id] = time.monotonic()
        return types.CreateSessionResponse(session_id=session_id)

    async def session_heartbeat(self, request: SessionHeartbeatRequest) -> dict[str, str]:
        self._heard_at[request.session_id] = time.monotonic()
        return {"type": "session_heartbeat"}

    async def finish_session(self, session_id: str) -> None:
        """Ends a session, and forgets its models; their checkpoints stay."""
        ended = [model_id for model_id, session in self._model_ids.items() if session == session_id]

        def run() -> Answer:
            for model_id in ended:
                self._models.pop(model_id, None)
            return {}

        # Requests that wait are still processed; there are no further ones.
        self.work.submit(f"{session_id}:finish", Job(run))
        self._heard_at.pop(session_id, None)
        for model_id in ended:
            self._model_ids.pop(model_id, None)

    async def create_model(self, request: types.CreateModelRequest) -> types.UntypedAPIFuture:
        self._check_base(request.base_model)
        _check_optimizer(getattr(request, "optimizer_config", None))
        given = {} if request.lora_config is None else request.lora_config.model_dump()
        if not 1 <= given.get("rank", 1) <= MOST_RANK:
            raise RequestError(f"the rank must be from 1 to {MOST_RANK}")
        config = AdapterConfig.model_validate(given)

        def run(model_id: str) -> Answer:
            self._models[model_id] = ModelInTraining(self.base, config, everything=self._options.trains_all)
            return {"model_id": model_id, "type": "create_model"}

        return self._create(request, run)

    def _create(self, request: _OfSession, run: Callable[[str], Answer]) -> types.UntypedAPIFuture:
        model_id = f"{request.session_id}:train:{request.model_seq_id}"
        if model_id not in self._model_ids:
            self._make_room()
        future = self._submit(f"{model_id}:create", model_id, Job(lambda: run(model_id)))
        self._model_ids[model_id] = request.session_id
        return future

    def _forget(self, model_id: str) -> None:
        self._models.pop(model_id, None)
        self._model_ids.pop(model_id, None)

    def _make_room(self) -> None:
        # The models of sessions that have ended without a word go, if there is no room for another one.
        if self._has_room():
            return
        now = time.monotonic()
        for model_id, session_id in list(self._model_ids.items()):
            if now - self._heard_at.get(session_id, now) > IDLE_SECONDS:
                self._forget(model_id)
        if not self._has_room():
            message = f"{len(self._model_ids)} models are in training, which is the maximum"
            raise RequestError(f"{message}: unload a model, or stop a client that uses one")

    def _has_room(self) -> bool:
        # A model of all weights has four numbers for each: itself, its gradient and Adam's two moments.
        size = 16 * sum(tensor.numel() for tensor in self.base.weights.values()) if self._options.trains_all else 0
        return len(self._model_ids) < MOST_MODELS and free_bytes() > size + LEAST_FREE_BYTES

    async def get_info(self, request: types.GetInfoRequest) -> types.GetInfoResponse:
        self._check_model(request.model_id)
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
            self._forget(model_id)
            return {"model_id": model_id, "type": "unload_model"}

        return self._submit(f"{model_id}:unload", model_id, Job(run))

    async def compute(self, request: Computation) -> types.UntypedAPIFuture:
        """Computes a loss, and its gradients if that is asked for."""

        def run() -> Answer:
            model = self._model(request.model_id)
            return _told(model.run(request.data, request.loss_fn, request.loss_fn_config, backward=request.backward))

        return self._ask(
            request, run, sum(tensor.numel() for datum in request.data for tensor in datum.inputs.values())
        )

    async def optim_step(self, request: types.OptimStepRequest) -> types.UntypedAPIFuture:
        params = getattr(request, "optim_params", None) or request.adam_params
        _check_optimizer(params)
        return self._ask(request, lambda: {"metrics": self._model(request.model_id).step(params)})

    async def save_weights(self, request: types.SaveWeightsRequest) -> types.UntypedAPIFuture:
        """Saves what a training can be resumed from."""
        return self._save(request, "training", request.path)

    async def save_weights_for_sampler(self, request: types.SaveWeightsForSamplerRequest) -> types.UntypedAPIFuture:
        """Saves what a model can be sampled from; without a name only for this process, as a sampler at once."""
        if getattr(request, "kind", "snapshot") != "snapshot":
            raise RequestError("sampling clients of the kind inflight are not supported; use snapshot")
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
        """Takes a model back, or over, to a checkpoint of any run; or makes one of a checkpoint."""
        if getattr(request, "session_id", None) is not None:
            return self._create_from_checkpoint(request)

        def run() -> Answer:
            saved = self.checkpoints.read(request.path)
            self._model(request.model_id).load(saved, optimizer=request.optimizer)
            return {"path": request.path, "type": "load_weights"}

        return self._ask(request, run)

    def _create_from_checkpoint(self, request: types.LoadWeightsRequest) -> types.UntypedAPIFuture:
        about = self.checkpoints.about(request.path)
        self._check_base(request.base_model or about.base_model)
        _check_optimizer(request.optimizer_config)

        def run(model_id: str) -> Answer:
            model = ModelInTraining(self.base, about.config, everything=self._options.trains_all)
            model.load(self.checkpoints.read(request.path), optimizer=request.optimizer)
            self._models[model_id] = model
            return {"path": request.path, "model_id": model_id, "type": "load_weights"}

        return self._create(request, run)

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
        listed = [
            types.Checkpoint(
                checkpoint_id="/".join(path.split("/")[-2:]),
                checkpoint_type=kind,
                time=about.time,
                tinker_path=path,
                size_bytes=about.size_bytes,
            )
            for kind, path, about in found
        ]
        return types.CheckpointsListResponse(checkpoints=listed)

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
        _check_features(request)
        key = sampler.sampler_id if sampler.sampler_id in self._unnamed else sampler.model_path or BASE
        prompt = checked_tokens(as_tokens(request.prompt), self.base)
        drawn = samples(prompt, request.sampling_params, request.num_samples, self.base, self._chances)

        def run() -> Answer:
            sequences = [
                {"stop_reason": each.stop_reason, "tokens": each.tokens, "logprobs": each.logprobs} for each in drawn
            ]
            answer: Answer = {"type": "sample", "sequences": sequences}
            if request.prompt_logprobs or request.topk_prompt_logprobs:
                last = getattr(request, "prompt_logprobs_last_n", None) or len(prompt)
                answer |= self._prompt_logprobs(key, prompt, request.topk_prompt_logprobs, last)
            return answer

        number = f"{sampler.sampler_id}:{uuid.uuid4() if request.seq_id is None else request.seq_id}"
        tokens = len(prompt) + sum(each.limit for each in drawn)
        self._submit(number, None, Job(run, tokens, key, drawn))
        return types.UntypedAPIFuture(
            request_id=number, sample_sequence_ids=[f"{number}:{place}" for place in range(len(drawn))]
        )

    def _save(
        self, request: types.SaveWeightsRequest | types.SaveWeightsForSamplerRequest, kind: str, name: str | None
    ) -> types.UntypedAPIFuture:
        number = self._number(request)
        if self.work.knows(number):
            return types.UntypedAPIFuture(request_id=number, model_id=request.model_id)
        self._check_model(request.model_id)
        name = f"{request.seq_id or 0:06d}" if name is None else name
        replaces = bool(getattr(request, "overwrite", False))
        try:
            path = self.checkpoints.reserve(request.model_id, kind, name, replaces=replaces)
        except NameTakenError as error:
            # Only early versions of the SDK take this for a save done twice; later ones would ask again for minutes.
            if request.model_fields_set & _LATER_FIELDS:
                raise RequestError(str(error)) from error
            raise

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

    def _prompt_logprobs(self, key: str, prompt: list[int], likeliest: int, last: int) -> Answer:
        weights = self._weights(key)
        logprobs: list[float | None] = [None]
        top: list[list[tuple[int, float]] | None] = [None]
        if len(prompt) > 1:
            with torch.inference_mode():
                logprobs += target_logprobs(self.base, weights, [Example(prompt[:-1], prompt[1:], {})])[0].tolist()
                if likeliest:
                    logits_TV = (
                        self.base(weights, input_ids=self.base.tensor([prompt[:-1]]), use_cache=False).logits[0].float()
                    )
                    logprobs_TV = torch.log_softmax(logits_TV, dim=-1)
                    values, tokens = logprobs_TV.topk(min(likeliest, self.base.vocabulary), dim=-1)
                    rows = zip(tokens.tolist(), values.tolist(), strict=True)
                    top += [list(zip(*row, strict=True)) for row in rows]
        # Logprobs of the last tokens alone, where these are asked for.
        before = len(prompt) - last
        logprobs[:before] = [None] * before
        top[:before] = [None] * min(before, len(top))
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


def _told(computed: Computed) -> Answer:
    outputs = [
        {"logprobs": {"data": logprobs_T.tolist(), "dtype": "float32", "shape": list(logprobs_T.shape)}}
        for logprobs_T in computed.logprobs
    ]
    metrics = {"loss:sum": computed.loss}
    return {"loss_fn_output_type": "TorchLossReturn", "loss_fn_outputs": outputs, "metrics": metrics}


def _check_optimizer(asked: object) -> None:
    kind = getattr(asked, "type", "adamw")
    if kind != "adamw":
        raise RequestError(f"the optimizer {kind} is not supported; use AdamW")


def _check_features(request: types.SampleRequest) -> None:
    # Later versions of the SDK can ask for more than this service computes.
    for name in ("topk_sample_logprobs", "target_prompt_logprobs", "prompt_alt_tokens_k", "record_stability_info"):
        if getattr(request, name, None):
            raise RequestError(f"{name} is not supported; leave it out")
    last, most = getattr(request, "prompt_logprobs_last_n", None), request.prompt.length - 1
    if last is not None and not 1 <= last <= most:
        raise RequestError(f"prompt_logprobs_last_n must be from 1 to {most}, which is all but the first token")
