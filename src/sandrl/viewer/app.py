"""The application: the document at each address, as listed in docs/guides/view.md."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sandrl.bounds import finite
from sandrl.errors import SandrlError
from sandrl.runs.report.page import Source, content_policy, empty_page
from sandrl.viewer.comparison import Comparisons
from sandrl.viewer.library import Library
from sandrl.viewer.run import RunView
from sandrl.viewer.selection import Selection

_NO_STORE = {"Cache-Control": "no-store"}
_LOOK_SECONDS = 1.0
_WAKE_SECONDS = 0.1
_LOOKS_BEFORE_PING = 15
_MOST_COMPARED = 50


class View:
    """What the addresses answer."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._comparisons = Comparisons()
        self._page = _Page()
        self.is_closing = threading.Event()
        """Set before the server ends, so that streams of events also end."""

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self._page.answer),
                Route("/api/runs", self.runs),
                Route("/api/runs/{run}", self.run),
                Route("/api/runs/{run}/rows", self.rows),
                Route("/api/runs/{run}/groups", self.groups),
                Route("/api/runs/{run}/rows/{row}", self.trajectory),
                Route("/api/runs/{run}/cards", self.cards),
                Route("/api/runs/{run}/cards/{digest}", self.card),
                Route("/api/compare", self.compare),
                Route("/api/events", self.events),
            ],
            middleware=[Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=1)],
            exception_handlers=dict.fromkeys((HTTPException, SandrlError, sqlite3.Error, OSError), _on_error),
        )

    def runs(self, request: Request) -> Response:
        """All runs."""
        return _json(self._library.documents())

    def run(self, request: Request) -> Response:
        """A run without its trajectories."""
        return _json(self._found(request).document())

    def rows(self, request: Request) -> Response:
        """Some rows of a run's list."""
        run = self._found(request)
        run.refresh()
        return _json(run.rows.page(_selection(request), _number(request, "offset", 0), _number(request, "limit", 100)))

    def groups(self, request: Request) -> Response:
        """Some groups of a run."""
        run, asked = self._found(request), request.query_params
        run.refresh()
        page = run.groups.page(
            asked.get("task", ""),
            flipped=asked.get("flipped") == "1",
            offset=_number(request, "offset", 0),
            limit=_number(request, "limit", 50),
        )
        return _json(page)

    def trajectory(self, request: Request) -> Response:
        """One trajectory of a run."""
        found = self._found(request).trajectory(request.path_params["row"])
        if found is None:
            raise HTTPException(404, "this run does not have this trajectory")
        return _json(found)

    def cards(self, request: Request) -> Response:
        """The cards of a run, in short, and that of their set."""
        return _json(self._found(request).cards())

    def card(self, request: Request) -> Response:
        """One card of a run."""
        found = self._found(request).card(request.path_params["digest"])
        if found is None:
            raise HTTPException(404, "this run does not have this card")
        return _json(found)

    def compare(self, request: Request) -> Response:
        """Runs side by side."""
        asked = request.query_params
        runs = [self._of(key) for key in dict.fromkeys(asked.get("runs", "").split(",")) if key]
        if not 0 < len(runs) <= _MOST_COMPARED:
            raise HTTPException(400, f"name at most {_MOST_COMPARED} runs to compare: runs=KEY,KEY")
        found = self._comparisons.page(
            runs,
            asked.get("search", ""),
            only=asked.get("only", "differ"),
            of=asked.get("of", ""),
            offset=_number(request, "offset", 0),
            limit=_number(request, "limit", 100),
        )
        return _json({"runs": self._library.briefs(run.key for run in runs), **found})

    async def events(self, request: Request) -> Response:
        """A stream that says which runs have changed."""
        headers = {**_NO_STORE, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._changes(), media_type="text/event-stream", headers=headers)

    async def _changes(self) -> AsyncIterator[str]:
        before = await run_in_threadpool(self._library.look)
        # Something at once: until the first bytes come, a browser takes the stream for not open.
        yield ": watching\n\n"
        quiet = 0
        while await self._waits():
            now = await run_in_threadpool(self._library.look)
            changed = [key for key in now | before if now.get(key) != before.get(key)]
            before, quiet = now, 0 if changed else quiet + 1
            if changed:
                yield f"event: change\ndata: {json.dumps({'runs': changed})}\n\n"
            elif quiet % _LOOKS_BEFORE_PING == 0:
                yield ": nothing new\n\n"

    async def _waits(self) -> bool:
        # Waits until it is time to look again; returns whether the server goes on.
        for _ in range(round(_LOOK_SECONDS / _WAKE_SECONDS)):
            if self.is_closing.is_set():
                return False
            await asyncio.sleep(_WAKE_SECONDS)
        return True

    def _found(self, request: Request) -> RunView:
        return self._of(request.path_params["run"])

    def _of(self, key: str) -> RunView:
        run = self._library.find(key)
        if run is None:
            raise HTTPException(404, "there is no run with this key; it may have been removed")
        return run


class _Page:
    def __init__(self) -> None:
        text = empty_page(Source.HTTP).encode("utf-8")
        self._plain = text
        self._packed = gzip.compress(text, 9, mtime=0)
        self._headers = {
            "Content-Security-Policy": f"{content_policy(Source.HTTP)}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
            "ETag": f'"{hashlib.sha256(text).hexdigest()[:32]}"',
            "Vary": "Accept-Encoding",
        }

    async def answer(self, request: Request) -> Response:
        if request.headers.get("if-none-match") == self._headers["ETag"]:
            return Response(status_code=304, headers=self._headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {**self._headers, "Content-Encoding": "gzip"}
            return Response(self._packed, headers=headers, media_type="text/html")
        # Said, because it would be compressed once more otherwise.
        return Response(self._plain, headers={**self._headers, "Content-Encoding": "identity"}, media_type="text/html")


def _selection(request: Request) -> Selection:
    asked = request.query_params
    held_out = asked.get("held_out", "")
    return Selection(
        statuses=tuple(each for each in asked.get("status", "").split(",") if each),
        step=_number(request, "step", 0) if asked.get("step", "") else None,
        task=asked.get("task", ""),
        held_out=held_out == "1" if held_out else None,
        disagrees=asked.get("disagrees") == "1",
        cut_off=asked.get("cut_off") == "1",
        search=asked.get("search", ""),
        order=asked.get("order", "index"),
        is_descending=asked.get("desc") == "1",
    )


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "") or str(default)
    if not text.isdecimal() or len(text) > 15:
        raise HTTPException(400, f"{name} must be an integer of 0 or more")
    return int(text)


def _json(document: dict[str, Any]) -> Response:
    try:
        text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(finite(document), ensure_ascii=True, separators=(",", ":"))
    return Response(text, media_type="application/json", headers=_NO_STORE)


def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, _NO_STORE)
    broken = f"the run or its index cannot be read: {error}"
    return JSONResponse({"error": error.message if isinstance(error, SandrlError) else broken}, 500, _NO_STORE)
