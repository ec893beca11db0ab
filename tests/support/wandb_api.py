"""A stand-in of W&B's API, to which the real SDK sends what it sends to the service: GraphQL, file streams, uploads.

It keeps of each run what the service would show: its history by the offsets that the SDK names, its summary, its
configuration, and the files and artifacts that were uploaded.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ENTITY = "team"


@dataclass
class StoredRun:
    """What the service has of a run.

    Attributes:
        history: The lines of its history, each as JSON.
        exit_code: What its last process ended with; None while it runs.
        starts: How often an SDK opened it.
    """

    name: str
    project: str
    config: dict[str, Any] = field(default_factory=dict)
    display_name: str = ""
    history: list[str] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None
    starts: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its history, as the SDK logged it."""
        return [json.loads(line) for line in self.history]

    @property
    def steps(self) -> list[int]:
        """The step of each line of its history."""
        return [row["_step"] for row in self.rows]

    def table(self, step: int, key: str) -> list[dict[str, Any]]:
        """The rows of a table that was logged at a step; fails if its file never arrived."""
        [reference] = [row[key] for row in self.rows if row["_step"] == step and key in row]
        content = json.loads(self.files[reference["path"]])
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


@dataclass
class WandbApi:
    """The stand-in; what it answers can be made to fail.

    Attributes:
        requests: The names of the operations and the paths that were asked for.
        rewinds: Whether it rewinds runs; the service does so for some accounts only.
        fail_after: How many lines of history it takes before it answers 500 to everything; None: it never does.
    """

    runs: dict[str, StoredRun] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    rewinds: bool = True
    fail_after: int | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""

    @property
    def lines(self) -> int:
        return sum(len(run.history) for run in self.runs.values())

    def answer(self, operation: str, variables: dict[str, Any], query: str) -> dict[str, Any]:
        """Answers an operation of GraphQL."""
        known = getattr(self, f"_{operation}", None)
        return known(variables, query) if known else {}

    def _ServerFeaturesQuery(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        return {"serverInfo": {"features": []}}

    def _Viewer(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        return {"viewer": {"id": "1", "entity": ENTITY, "username": "ada", "email": "", "flags": "{}",
                           "admin": False, "name": "Ada", "deletedAt": None, "apiKeys": {"edges": []},
                           "teams": {"edges": [{"node": {"name": ENTITY}}]}}}  # fmt: skip

    def _GetDefaultEntity(self, *arguments: Any) -> dict[str, Any]:  # noqa: N802
        return self._Viewer(*arguments)

    def _Run(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        run = self.runs.get(variables["name"])
        return {"project": {"internalId": "1", "run": run and self._bucket(run)}}

    def _RunFiles(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        run = self.runs[variables["name"]]
        edges = [
            {"cursor": name, "node": {"id": name, "name": name, "url": "", "sizeBytes": len(data), "mimetype": None,
                                      "updatedAt": None, "md5": "", "directUrl": ""}}
            for name, data in run.files.items()
        ]  # fmt: skip
        page = {"endCursor": None, "hasNextPage": False}
        files = {"edges": edges, "pageInfo": page}
        return {"project": {"internalId": "1", "run": {"fileCount": len(edges), "files": files}}}

    def _RunHistoryKeys(self, variables: dict[str, Any], query: str) -> dict[str, Any]:  # noqa: N802
        return self._Run(variables, query)

    def _RunResumeStatus(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        run = self.runs.get(variables["name"])
        return {"model": {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": ENTITY},
                          "bucket": run and self._bucket(run)}}  # fmt: skip

    def _UpsertBucket(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        name = variables.get("name") or variables["id"]
        run = self.runs.setdefault(name, StoredRun(name, variables.get("project") or ""))
        if variables.get("config"):
            run.config = json.loads(variables["config"])
        run.display_name = variables.get("displayName") or run.display_name
        run.exit_code = None
        run.starts += 1
        return {"upsertBucket": {"bucket": self._bucket(run), "inserted": run.starts == 1}}

    def _RewindRun(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        run = self.runs[variables["runName"]]
        assert variables["metricName"] == "_step"
        if not self.rewinds:
            raise PermissionError("rewinding runs is not enabled for this account")
        run.history = [line for line in run.history if json.loads(line)["_step"] <= variables["metricValue"]]
        return {"rewindRun": {"rewoundRun": self._bucket(run)}}

    def _CreateRunFiles(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        run = variables["run"]
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{run}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _CreateArtifact(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        artifact = {"id": "a", "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def _CreateArtifactManifest(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        file = {"id": "f", "uploadUrl": f"{self.url}/upload/artifacts/manifest", "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def _UpdateArtifactManifest(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        file = {"id": "f", "uploadUrl": f"{self.url}/upload/artifacts/manifest", "uploadHeaders": []}
        return {"updateArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def _CreateArtifactFiles(self, variables: dict[str, Any], _: str) -> dict[str, Any]:  # noqa: N802
        nodes = [
            {"node": {"storagePath": file["name"], "uploadUrl": f"{self.url}/upload/artifacts/{file['name']}",
                      "uploadHeaders": [], "uploadMultipartUrls": None, "artifact": {"id": "a"}}}
            for file in variables["input"]["artifactFiles"]
        ]  # fmt: skip
        return {"createArtifactFiles": {"files": {"edges": nodes}}}

    def _ArtifactType(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        return {"project": {"artifact": None}}

    def _CommitArtifact(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        return {"commitArtifact": {"artifact": {"id": "a", "digest": "d"}}}

    def _bucket(self, run: StoredRun) -> dict[str, Any]:
        last = run.history[-1:]
        return {
            "id": f"id-{run.name}", "name": run.name, "displayName": run.display_name, "description": "",
            "sweepName": None, "summaryMetrics": json.dumps(run.summary), "logLineCount": 0,
            "historyLineCount": len(run.history), "eventsLineCount": len(run.events),
            "historyTail": json.dumps(last), "eventsTail": "[]", "config": json.dumps(run.config), "tags": [],
            "notes": None, "state": "finished" if run.exit_code == 0 else "running", "group": None, "jobType": None,
            "commit": None, "readOnly": False, "createdAt": "2026-01-01T00:00:00", "heartbeatAt": "2026-01-01T00:00:00",
            "systemMetrics": "{}", "user": {"name": "Ada", "username": "ada"}, "projectId": "1",
            "wandbConfig": json.dumps({"t": 1}),
            "project": {"id": "p", "name": run.project, "entity": {"id": "e", "name": ENTITY}},
            "historyKeys": {"lastStep": json.loads(last[0])["_step"] if last else -1, "keys": {}},
        }  # fmt: skip

    def stream(self, name: str, body: dict[str, Any]) -> None:
        """Takes a part of a run's file stream."""
        run = self.runs[name]
        for file, part in (body.get("files") or {}).items():
            at, content = part["offset"], part["content"]
            if file == "wandb-history.jsonl":
                assert at <= len(run.history), f"a hole before line {at}"
                run.history[at:] = content
            elif file == "wandb-events.jsonl":
                run.events[at:] = content
            elif file == "wandb-summary.json":
                run.summary = json.loads(content[-1])
        if body.get("complete"):
            run.exit_code = body.get("exitcode")


@contextmanager
def wandb_api(port: int = 0) -> Iterator[WandbApi]:
    """Serves the stand-in for the length of a `with` block."""
    api = WandbApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

        def _answer(self, status: int, document: Any) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PUT(self) -> None:
            data = self._body()
            with api.lock:
                path = unquote(self.path)
                api.requests.append(f"PUT {path}")
                if upload := re.fullmatch(r"/upload/([^/]+)/(.+)", path):
                    run, name = upload.groups()
                    if run in api.runs:
                        api.runs[run].files[name] = data
            self._answer(200, {})

        def do_GET(self) -> None:
            with api.lock:
                api.requests.append(f"GET {self.path}")
            self._answer(404, {})

        def do_POST(self) -> None:
            content = self._body()
            if self.path != "/graphql" and not self.path.endswith("/file_stream"):
                self._answer(404, {})
                return
            body = json.loads(content or b"{}")
            with api.lock:
                if api.fail_after is not None and api.lines >= api.fail_after:
                    self._answer(500, {"error": "the service is broken"})
                    return
                if stream := re.fullmatch(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream", self.path):
                    api.requests.append("file_stream")
                    api.stream(stream[3], body)
                    self._answer(200, {})
                    return
                query = body.get("query", "")
                operation = body.get("operationName") or (re.search(r"(?:query|mutation)\s+(\w+)", query) or "  ")[1]
                api.requests.append(operation)
                try:
                    data = api.answer(operation, body.get("variables") or {}, query)
                except PermissionError as error:
                    self._answer(200, {"data": None, "errors": [{"message": str(error)}]})
                    return
                self._answer(200, {"data": data})

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            # A client that was killed.
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", port), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
