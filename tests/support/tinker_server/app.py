"""The routes of the Tinker API, as far as its SDK 0.18 and ART 0.5.18 use them.

The design decision: bodies are the SDK's own request types, and the statuses those the SDK reacts to: 401 for a wrong
key, 400 and 404 for what it must not try again, 408 for a future that takes longer, 409 for a checkpoint that is there
already, 410 for a future nobody knows. Only `healthz` is told to anyone.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import uuid
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.middleware.base import RequestResponseEndpoint
from starlette.responses import Response
from tinker import types
from tinker.types.client_config_request import ClientConfigRequest
from tinker.types.future_retrieve_request import FutureRetrieveRequest
from tinker.types.session_heartbeat_request import SessionHeartbeatRequest
from tinker.types.try_again_response import TryAgainResponse

from tests.support.tinker_server.refusals import NotThere, Refused, TakenAlready
from tests.support.tinker_server.service import Service

PREFIX = "/api/v1"


class Answer(JSONResponse):
    """JSON in which a float that is no number, as losses are once a training has gone wrong, is a string.

    The SDK reads it back as what it was; it does not read JSON with a bare NaN in it.
    """

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, allow_nan=False).encode()
        except ValueError:
            return json.dumps(_spelled(content)).encode()


class WeightsInfoRequest(BaseModel):
    """Asks about a checkpoint."""

    tinker_path: str


class TelemetryBatch(BaseModel):
    """What the SDK tells of itself; nobody reads it."""

    model_config = ConfigDict(extra="allow")


def _spelled(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _spelled(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_spelled(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content


def make_app(service: Service, key: str, *, poll_seconds: float) -> FastAPI:
    """Makes the application.

    Args:
        service: What it serves.
        key: The API key it asks for.
        poll_seconds: How long a question for a future waits for its answer.
    """
    app = FastAPI(default_response_class=Answer)

    @app.middleware("http")
    async def check_key(request: Request, go_on: RequestResponseEndpoint) -> Response:
        given = request.headers.get("X-API-Key", "")
        if request.url.path != f"{PREFIX}/healthz" and not hmac.compare_digest(given.encode(), key.encode()):
            return Answer({"detail": "Invalid API key"}, 401)
        return await go_on(request)

    @app.exception_handler(Refused)
    async def refuse(_: Request, error: Refused) -> Response:
        status = 404 if isinstance(error, NotThere) else 409 if isinstance(error, TakenAlready) else 400
        return Answer({"detail": str(error)}, status)

    _add_sessions(app, service)
    _add_training(app, service)
    _add_checkpoints(app, service)
    _add_sampling(app, service)

    @app.post(f"{PREFIX}/retrieve_future")
    async def retrieve_future(request: FutureRetrieveRequest) -> Response:
        future = service.work.answer(request.request_id)
        if future is None:
            return Answer({"detail": f"there is no request {request.request_id}"}, 410)
        try:
            return Answer(await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), poll_seconds))
        except TimeoutError:
            later = TryAgainResponse(request_id=request.request_id, queue_state="active")
            return Answer(later.model_dump(), 408)

    return app


def _add_sessions(app: FastAPI, service: Service) -> None:
    @app.get(f"{PREFIX}/healthz")
    async def healthz() -> types.HealthResponse:
        return types.HealthResponse(status="ok")

    @app.get(f"{PREFIX}/get_server_capabilities")
    async def get_server_capabilities() -> types.GetServerCapabilitiesResponse:
        base = service.base
        model = types.SupportedModel(model_name=base.name, max_context_length=base.positions)
        return types.GetServerCapabilitiesResponse(supported_models=[model])

    @app.post(f"{PREFIX}/client/config")
    async def client_config(_: ClientConfigRequest) -> types.ClientConfigResponse:
        return types.ClientConfigResponse()

    @app.post(f"{PREFIX}/create_session")
    async def create_session(_: types.CreateSessionRequest) -> types.CreateSessionResponse:
        return types.CreateSessionResponse(session_id=str(uuid.uuid4()))

    @app.post(f"{PREFIX}/session_heartbeat")
    async def session_heartbeat(_: SessionHeartbeatRequest) -> dict[str, str]:
        return {"type": "session_heartbeat"}

    @app.post(f"{PREFIX}/telemetry")
    async def telemetry(_: TelemetryBatch) -> types.TelemetryResponse:
        return types.TelemetryResponse(status="accepted")


def _add_training(app: FastAPI, service: Service) -> None:
    @app.post(f"{PREFIX}/create_model")
    async def create_model(request: types.CreateModelRequest) -> types.UntypedAPIFuture:
        return service.create_model(request)

    @app.post(f"{PREFIX}/get_info")
    async def get_info(request: types.GetInfoRequest) -> types.GetInfoResponse:
        return service.model_info(request.model_id)

    @app.post(f"{PREFIX}/unload_model")
    async def unload_model(request: types.UnloadModelRequest) -> types.UntypedAPIFuture:
        return service.unload_model(request.model_id)

    @app.post(f"{PREFIX}/forward")
    async def forward(request: types.ForwardRequest) -> types.UntypedAPIFuture:
        return service.forward(request, request.forward_input, backward=False)

    @app.post(f"{PREFIX}/forward_backward")
    async def forward_backward(request: types.ForwardBackwardRequest) -> types.UntypedAPIFuture:
        return service.forward(request, request.forward_backward_input, backward=True)

    @app.post(f"{PREFIX}/optim_step")
    async def optim_step(request: types.OptimStepRequest) -> types.UntypedAPIFuture:
        return service.optim_step(request)


def _add_checkpoints(app: FastAPI, service: Service) -> None:
    @app.post(f"{PREFIX}/save_weights")
    async def save_weights(request: types.SaveWeightsRequest) -> types.UntypedAPIFuture:
        return service.save_weights(request)

    @app.post(f"{PREFIX}/save_weights_for_sampler")
    async def save_weights_for_sampler(request: types.SaveWeightsForSamplerRequest) -> types.UntypedAPIFuture:
        return service.save_weights_for_sampler(request)

    @app.post(f"{PREFIX}/load_weights")
    async def load_weights(request: types.LoadWeightsRequest) -> types.UntypedAPIFuture:
        return service.load_weights(request)

    @app.post(f"{PREFIX}/weights_info")
    async def weights_info(request: WeightsInfoRequest) -> types.WeightsInfoResponse:
        return service.weights_info(request.tinker_path)

    @app.get(f"{PREFIX}/training_runs/{{model_id}}/checkpoints")
    async def run_checkpoints(model_id: str) -> types.CheckpointsListResponse:
        return service.run_checkpoints(model_id)


def _add_sampling(app: FastAPI, service: Service) -> None:
    @app.post(f"{PREFIX}/create_sampling_session")
    async def create_sampling_session(
        request: types.CreateSamplingSessionRequest,
    ) -> types.CreateSamplingSessionResponse:
        return types.CreateSamplingSessionResponse(sampling_session_id=service.create_sampler(request))

    @app.get(f"{PREFIX}/samplers/{{sampler_id}}")
    async def get_sampler(sampler_id: str) -> types.GetSamplerResponse:
        if sampler_id not in service.samplers:
            raise NotThere(f"there is no sampler {sampler_id}")
        return service.samplers[sampler_id]

    @app.post(f"{PREFIX}/asample")
    async def asample(request: types.SampleRequest) -> types.UntypedAPIFuture:
        return service.sample(request)
