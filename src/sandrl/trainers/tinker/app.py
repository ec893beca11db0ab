"""The routes of the Tinker API that its SDK from 0.18 to 0.38, ART and tinker-cookbook use.

Bodies are the SDK's own request types, except those of `bodies`. The status codes are those to which the SDK reacts:
401 for a wrong key, 400 and 404 for a request that must not be repeated, 408 for a future that is not ready, 409 for an
existing checkpoint, 410 for an unknown future, 413 for a body that is too large, 429 for a full queue. Only `healthz`
answers without the key.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
from typing import Annotated, Any

from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tinker import types
from tinker.types.client_config_request import ClientConfigRequest
from tinker.types.future_retrieve_request import FutureRetrieveRequest
from tinker.types.try_again_response import TryAgainResponse

from sandrl.trainers.tinker.bodies import PROTOCOL_BUFFERS, as_message, read_computation
from sandrl.trainers.tinker.options import NameTakenError, NotFoundError, QueueFullError, RequestError
from sandrl.trainers.tinker.service import Service

MOST_BODY_BYTES = 64 << 20
"""The largest body of a request."""

PREFIX = "/api/v1"

OPERATIONS = (
    "create_session",
    "session_heartbeat",
    "create_model",
    "get_info",
    "unload_model",
    "optim_step",
    "save_weights",
    "save_weights_for_sampler",
    "load_weights",
    "create_sampling_session",
    "asample",
)
"""The methods of `Service` that are routes with the names, requests and answers of the SDK."""


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
    """A request for the facts about a checkpoint."""

    tinker_path: str


class TelemetryBatch(BaseModel):
    """The telemetry of the SDK, which is dropped."""

    model_config = ConfigDict(extra="allow")


def _spelled(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _spelled(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_spelled(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content


class Edge:
    """Lets requests with the key through to an application, and bodies of a bounded size."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        is_known = hmac.compare_digest(headers.get(b"x-api-key", b""), self._key)
        if not is_known and scope["path"] != f"{PREFIX}/healthz":
            await Answer({"detail": "Invalid API key"}, 401)(scope, receive, send)
            return
        size = headers.get(b"content-length", b"")
        if size.isdigit() and int(size) > MOST_BODY_BYTES:
            await _too_large()(scope, receive, send)
            return
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY_BYTES:
                # To the application the client has gone; its answer to that is not sent.
                return {"type": "http.disconnect"}
            return message

        async def unless_too_large(message: Message) -> None:
            if taken <= MOST_BODY_BYTES:
                await send(message)

        await self._app(scope, bounded, unless_too_large)
        if taken > MOST_BODY_BYTES:
            await _too_large()(scope, receive, send)


def _too_large() -> Response:
    return Answer({"detail": f"the body is larger than {MOST_BODY_BYTES} bytes"}, 413, {"Connection": "close"})


def make_app(service: Service, key: str, *, poll_seconds: float) -> ASGIApp:
    """Makes the application, in which a request for a future waits for the answer for `poll_seconds`."""
    app = FastAPI(default_response_class=Answer, openapi_url=None)

    @app.exception_handler(RequestError)
    async def refuse(_: Request, error: RequestError) -> Response:
        kinds = {NotFoundError: 404, NameTakenError: 409, QueueFullError: 429}
        return Answer({"detail": str(error)}, kinds.get(type(error), 400))

    @app.get(f"{PREFIX}/healthz")
    async def healthz() -> types.HealthResponse:
        return types.HealthResponse(status="ok")

    @app.post(f"{PREFIX}/client/config")
    async def client_config(_: ClientConfigRequest) -> types.ClientConfigResponse:
        return types.ClientConfigResponse()

    @app.post(f"{PREFIX}/telemetry")
    async def telemetry(_: TelemetryBatch) -> types.TelemetryResponse:
        return types.TelemetryResponse(status="accepted")

    @app.post(f"{PREFIX}/client/dynamic_config")
    async def client_dynamic_config(_: ClientConfigRequest) -> dict[str, object]:
        # The defaults of the SDK, which has no type for this in its early versions.
        return {}

    @app.post(f"{PREFIX}/sessions/{{session_id}}/finish", status_code=204)
    async def finish_session(session_id: str) -> Response:
        await service.finish_session(session_id)
        return Response(status_code=204)

    @app.post(f"{PREFIX}/forward")
    @app.post(f"{PREFIX}/forward_backward")
    async def compute(request: Request) -> types.UntypedAPIFuture:
        body = await request.body()
        return await service.compute(read_computation(body, request.headers.get("content-type", "")))

    app.get(f"{PREFIX}/get_server_capabilities")(service.get_server_capabilities)
    for name in OPERATIONS:
        app.post(f"{PREFIX}/{name}")(getattr(service, name))

    @app.post(f"{PREFIX}/weights_info")
    async def weights_info(request: WeightsInfoRequest) -> types.WeightsInfoResponse:
        return service.weights_info(request.tinker_path)

    @app.get(f"{PREFIX}/training_runs/{{model_id}}/checkpoints")
    async def run_checkpoints(model_id: str) -> types.CheckpointsListResponse:
        return service.run_checkpoints(model_id)

    @app.delete(f"{PREFIX}/training_runs/{{model_id}}/checkpoints/{{folder}}/{{name}}", status_code=204)
    async def delete_checkpoint(model_id: str, folder: str, name: str) -> Response:
        service.checkpoints.delete(f"tinker://{model_id}/{folder}/{name}")
        return Response(status_code=204)

    @app.get(f"{PREFIX}/samplers/{{sampler_id}}")
    async def get_sampler(sampler_id: str) -> types.GetSamplerResponse:
        if sampler_id not in service.samplers:
            raise NotFoundError(f"there is no sampler {sampler_id}")
        return service.samplers[sampler_id]

    @app.post(f"{PREFIX}/retrieve_future")
    async def retrieve_future(request: FutureRetrieveRequest, accept: Annotated[str, Header()] = "") -> Response:
        future = service.work.answer(request.request_id)
        if future is None:
            return Answer({"detail": f"there is no request {request.request_id}"}, 410)
        try:
            answer = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), poll_seconds)
            service.work.note_fetched(request.request_id)
            message = as_message(answer) if PROTOCOL_BUFFERS in accept else None
            return Answer(answer) if message is None else Response(message, media_type=PROTOCOL_BUFFERS)
        except TimeoutError:
            later = TryAgainResponse(request_id=request.request_id, queue_state="active")
            return Answer(later.model_dump(), 408)

    return Edge(app, key)
