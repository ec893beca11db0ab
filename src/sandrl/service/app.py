"""The application: the route of each request, and the form of its errors."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi_offline import FastAPIOffline
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from sandrl import __version__
from sandrl.errors import SandrlError
from sandrl.service import episodes, execution, openrlhf, scoring
from sandrl.service.e2b import routes as e2b
from sandrl.service.failures import MEDIA_TYPE, Failure, failure_of
from sandrl.service.metrics import MEDIA_TYPE as METRICS_TYPE
from sandrl.service.models import SHOWN
from sandrl.service.state import Service

_ABOUT = """Scores completions of code problems in isolated sandboxes, and runs programs there.

Every request except those to `/healthz` and `/readyz` needs the header `Authorization: Bearer TOKEN`. For clients that
cannot send headers the token may be in the path: `/t/TOKEN/run_code` and `/t/TOKEN/get_reward`. Errors are RFC 9457
problem details.
"""
_HEADERS = {
    "Idempotency-Key": "Names the request: a request with the same key continues it, and nothing is scored again.",
    "X-Sandrl-Client": "Names the client; clients share the sandboxes evenly. Default: the address of the client.",
    "Accept": "`application/x-ndjson` returns one line per result, as soon as it is available.",
}
_REFERENCE = "#/components/schemas/{model}"


def make_app(service: Service) -> FastAPI:
    app: FastAPI = FastAPIOffline(
        redoc_url=None, title="sandrl", version=__version__, description=_ABOUT, openapi_url="/openapi.json"
    )
    run_code = execution.RunCode(service)

    @app.post("/v1/score", tags=["rewards"], summary="Score completions", **_shown("Score", streams=True))
    async def score(request: Request) -> Response:
        return await scoring.score(service, request)

    @app.post("/v1/execute", tags=["programs"], summary="Run a program", **_shown("Execute"))
    async def execute(request: Request) -> Response:
        return _json(await execution.execute(service, request))

    @app.post(
        "/run_code", tags=["programs"], summary="Run a program, with the API of SandboxFusion", **_shown("RunCode")
    )
    async def run(request: Request) -> Response:
        return _json(await run_code(request))

    @app.post(
        "/get_reward",
        tags=["rewards"],
        summary="Score completions, as a remote reward model of OpenRLHF",
        **_shown("Reward"),
    )
    async def get_reward(request: Request) -> Response:
        return _json(await openrlhf.get_reward(service, request))

    @app.post("/v1/episodes", tags=["episodes"], summary="Begin an episode on a task", **_shown("Episode", status=201))
    async def create_episode(request: Request) -> Response:
        return _json(await episodes.create(service, request), 201)

    @app.get("/v1/episodes", tags=["episodes"], summary="List the client's episodes", **_answered("Episodes"))
    async def list_episodes(request: Request) -> Response:
        return _json(await episodes.list_(service, request))

    @app.get("/v1/episodes/{id}", tags=["episodes"], summary="Show an episode", **_answered("Episode"))
    async def show_episode(id: str) -> Response:
        return _json(await episodes.show(service, id))

    @app.post("/v1/episodes/{id}/act", tags=["episodes"], summary="Call a tool", **_shown("Call"))
    async def act(request: Request, id: str) -> Response:
        return _json(await episodes.act(service, request, id))

    @app.post(
        "/v1/episodes/{id}/finish",
        tags=["episodes"],
        summary="End the work, and get the verdict",
        **_answered("Episode"),
    )
    async def finish_episode(id: str) -> Response:
        return _json(await episodes.finish(service, id))

    @app.delete("/v1/episodes/{id}", tags=["episodes"], summary="Give an episode up", status_code=204)
    async def delete_episode(id: str) -> Response:
        await episodes.delete(service, id)
        return Response(status_code=204)

    e2b.add_routes(app, service)

    @app.get("/metrics", tags=["operation"], summary="Return metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=METRICS_TYPE)

    @app.get("/healthz", tags=["operation"], summary="Check whether the service runs")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", tags=["operation"], summary="Check whether the service accepts work")
    async def readyz() -> Response:
        is_ready = service.scorer.is_accepting
        return JSONResponse({"status": "ready" if is_ready else "stopping"}, 200 if is_ready else 503)

    @app.exception_handler(Failure)
    async def on_failure(request: Request, error: Failure) -> Response:
        return _problem(error)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        hint = "/docs lists the routes" if error.status_code == 404 else None
        return _problem(Failure(error.status_code, str(error.detail), hint, dict(error.headers or {})))

    @app.exception_handler(SandrlError)
    async def on_error(request: Request, error: SandrlError) -> Response:
        return _problem(failure_of(error))

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
            _, definitions = models_json_schema([(each, "validation") for each in SHOWN], ref_template=_REFERENCE)
            components = schema.setdefault("components", {})
            components["schemas"] = {**components.get("schemas", {}), **definitions["$defs"]}
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _problem(failure: Failure) -> Response:
    return Response(failure.body(), failure.status, failure.headers, failure.media_type)


def _json(model: Any, status: int = 200) -> Response:
    # ASCII, because programs print halves of surrogate pairs, which UTF-8 cannot carry.
    return Response(json.dumps(model.model_dump(mode="json")), status, media_type="application/json")


def _content(model: str, media_type: str = "application/json") -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": _REFERENCE.format(model=model)}}}


def _answered(name: str, *, streams: bool = False, status: int = 200) -> dict[str, Any]:
    answer = _content(f"{name}Response")
    if streams:
        answer |= _content("CompletionResult", scoring.NDJSON)
    problem = {"description": "An error.", "content": _content("ProblemDetails", MEDIA_TYPE)}
    return {
        "status_code": status,
        "responses": {status: {"description": "The answer.", "content": answer}, "default": problem},
    }


def _shown(name: str, *, streams: bool = False, status: int = 200) -> dict[str, Any]:
    extra: dict[str, Any] = {"requestBody": {"required": True, "content": _content(f"{name}Request")}}
    if streams:
        extra["parameters"] = [
            {"name": header, "in": "header", "schema": {"type": "string"}, "description": text}
            for header, text in _HEADERS.items()
        ]
    return {"openapi_extra": extra, **_answered(name, streams=streams, status=status)}
