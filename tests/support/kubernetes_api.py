"""A stand-in for a cluster with agent-sandbox: its API server, its controllers and the pods of one namespace.

It speaks HTTP and WebSockets as the API server does: resource versions, label and field selectors, pages, watches that
become outdated, conflicts, strict validation of fields, foreground deletion with its finalizer. The controllers do what
those of agent-sandbox v0.5 do with sandboxes, claims, warm pools and shutdown times. Programs of pods run in sandboxes
of the local runtime.
"""

from __future__ import annotations

import asyncio
import copy
import json
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sandrl.errors import SandrlError
from sandrl.sandboxes import Shape, connect
from sandrl.sandboxes.providers.protocol import AttachedProgram, Output, Sandbox
from sandrl.settings import RuntimeKind, Settings

NAMESPACE, TOKEN = "sandboxes", "token-of-a-test"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"

_KINDS = {
    "sandboxes": ("agents.x-k8s.io/v1beta1", "Sandbox"),
    "sandboxclaims": ("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim"),
    "sandboxwarmpools": ("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool"),
    "sandboxtemplates": ("extensions.agents.x-k8s.io/v1beta1", "SandboxTemplate"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "pods": ("v1", "Pod"),
}
_EVENTS_KEPT = 2000

# The fields of the published schemas that a test needs; a name with ! is required, a tuple has the possible values.
_CONTAINER = {
    "name!": str,
    "image": str,
    "command": [str],
    "env": [{"name!": str, "value": str}],
    "workingDir": str,
    "resources": {"limits": dict, "requests": dict},
    "securityContext": {
        "allowPrivilegeEscalation": bool,
        "privileged": bool,
        "capabilities": {"drop": [str], "add": [str]},
        "seccompProfile": {"type!": str},
        "runAsUser": int,
    },
}
_POD = {
    "containers!": [_CONTAINER],
    "automountServiceAccountToken": bool,
    "enableServiceLinks": bool,
    "hostNetwork": bool,
    "hostPID": bool,
    "hostIPC": bool,
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "terminationGracePeriodSeconds": int,
    "activeDeadlineSeconds": int,
    "dnsPolicy": str,
    "dnsConfig": {"nameservers": [str]},
    "runtimeClassName": str,
}
_METADATA = {"labels": dict, "annotations": dict}
_BLUEPRINT = {"podTemplate!": {"spec!": _POD, "metadata": _METADATA}, "service": bool}
_SCHEMAS: dict[str, Any] = {
    "sandboxes": _BLUEPRINT
    | {"shutdownTime": datetime, "shutdownPolicy": ("Delete", "Retain"), "operatingMode": ("Running", "Suspended")},
    "sandboxclaims": {
        "warmPoolRef!": {"name!": str},
        "lifecycle": {"shutdownTime": datetime, "shutdownPolicy": ("Delete", "DeleteForeground", "Retain")},
    },
    "sandboxwarmpools": {"replicas": int, "sandboxTemplateRef!": {"name!": str}},
    "sandboxtemplates": _BLUEPRINT
    | {"networkPolicy": {"ingress": list, "egress": list}, "networkPolicyManagement": ("Managed", "Unmanaged")},
    "networkpolicies": {"podSelector": dict, "policyTypes": [str], "ingress": list, "egress": list},
}


def problem(value: Any, schema: Any, place: str = "spec") -> str:
    """What a schema has against a value; empty without a problem."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return f"{place}: must be an object"
        known = {name.rstrip("!"): each for name, each in schema.items()}
        unknown = [name for name in value if name not in known]
        missing = [name.rstrip("!") for name in schema if name.endswith("!") and name.rstrip("!") not in value]
        if unknown or missing:
            return f'{place}: unknown field "{unknown[0]}"' if unknown else f"{place}.{missing[0]}: Required value"
        return next(filter(None, (problem(value[name], known[name], f"{place}.{name}") for name in value)), "")
    if isinstance(schema, list):
        if not isinstance(value, list):
            return f"{place}: must be a list"
        return next(filter(None, (problem(each, schema[0], f"{place}[]") for each in value)), "")
    if isinstance(schema, tuple):
        return "" if value in schema else f"{place}: Unsupported value: {value!r}"
    if schema is datetime:
        with suppress(ValueError, TypeError):
            datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
            return ""
        return f"{place}: must be a date-time"
    is_right = isinstance(value, schema) and not (schema is int and isinstance(value, bool))
    return "" if is_right else f"{place}: must be a {schema.__name__}"


class Refusal(Exception):
    """A status of the API server."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
            "code": code,
        }


@dataclass
class ClusterStandIn:
    """A cluster.

    Attributes:
        protocols: Of `exec`, which the server has.
        refusals: Answers to the next requests: a method and the name of a resource, and what is answered once.
        quota: Most objects of sandboxes.
        missing: Images that no registry has.
        has_room: Whether a node has room for pods.
        is_slow: Whether pods do not start.
    """

    settings: Settings
    protocols: tuple[str, ...] = (V5, V4)
    refusals: list[tuple[str, str, int, str, str]] = field(default_factory=list)
    quota: int = 1000
    missing: set[str] = field(default_factory=set)
    has_room: bool = True
    is_slow: bool = False
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []
        self.boxes: dict[str, Sandbox] = {}
        self.threads = ThreadPoolExecutor(200)
        self.is_closed = threading.Event()
        self.client = connect(self.settings, runtime=RuntimeKind.LOCAL).open(tags=["pods"], max_lifetime_seconds=600)

    # Objects.

    def note(self, kind: str, plural: str, found: dict[str, Any]) -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, plural, kind, copy.deepcopy(found)))
        del self.events[:-_EVENTS_KEPT]

    def make(self, plural: str, content: dict[str, Any], owner: dict[str, Any] | None = None) -> dict[str, Any]:
        """Makes an object as the server does."""
        with self.lock:
            name = content["metadata"]["name"]
            if (plural, name) in self.objects:
                raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
            version, kind = _KINDS[plural]
            found = copy.deepcopy(content) | {"apiVersion": version, "kind": kind}
            found["metadata"] |= {
                "namespace": NAMESPACE,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": _now(),
                "generation": 1,
            }
            if owner is not None:
                found["metadata"]["ownerReferences"] = [_reference(owner)]
            self.objects[plural, name] = found
            self.note("ADDED", plural, found)
            return found

    def change(self, plural: str, found: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """Changes an object, if that changes anything."""
        with self.lock:
            before = copy.deepcopy(found)
            change(found)
            if found != before:
                self.note("MODIFIED", plural, found)

    def delete(self, plural: str, name: str, policy: str = "Background") -> None:
        """Deletes an object as the server does."""
        with self.lock:
            found = self.objects.get((plural, name))
            if found is None:
                raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
            if policy == "Foreground" or plural == "pods":
                finalizer = "kubelet" if plural == "pods" else "foregroundDeletion"
                gone = {"deletionTimestamp": _now(), "finalizers": [finalizer]}
                self.change(plural, found, lambda each: each["metadata"].update(gone))
            else:
                self.forget(plural, found)

    def forget(self, plural: str, found: dict[str, Any]) -> None:
        del self.objects[plural, found["metadata"]["name"]]
        self.note("DELETED", plural, found)

    def of(self, plural: str) -> list[dict[str, Any]]:
        with self.lock:
            return [found for (each, _), found in self.objects.items() if each == plural]

    def owned(self, owner: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        uid = owner["metadata"]["uid"]
        return [
            (plural, found)
            for (plural, _), found in [*self.objects.items()]
            if any(each["uid"] == uid for each in found["metadata"].get("ownerReferences", ()))
        ]

    # Controllers.

    def control(self) -> None:
        """What controllers and the kubelet do, until the end."""
        while not self.is_closed.wait(0.02):
            with self.lock:
                for plural in ("sandboxwarmpools", "sandboxclaims", "sandboxes", "pods"):
                    for found in self.of(plural):
                        self.collect(plural, found)
                        if (plural, found["metadata"]["name"]) in self.objects:
                            getattr(self, f"on_{plural}")(found)

    def collect(self, plural: str, found: dict[str, Any]) -> None:
        """What the garbage collector does."""
        metadata = found["metadata"]
        owners = {each["uid"] for each in metadata.get("ownerReferences", ())}
        if owners and not any(each["metadata"]["uid"] in owners for each in self.objects.values()):
            if "deletionTimestamp" not in metadata:
                self.delete(plural, metadata["name"])
        elif "foregroundDeletion" in metadata.get("finalizers", ()):
            rest = self.owned(found)
            for kind, each in rest:
                if "deletionTimestamp" not in each["metadata"]:
                    self.delete(kind, each["metadata"]["name"], "Foreground")
            if not rest:
                self.forget(plural, found)

    def on_sandboxwarmpools(self, pool: dict[str, Any]) -> None:
        template = self.objects.get(("sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"]))
        if template is not None and len(self.owned(pool)) < pool["spec"].get("replicas", 1):
            self.make_of(template, f"{pool['metadata']['name']}-{uuid.uuid4().hex[:5]}", pool)

    def make_of(self, template: dict[str, Any], name: str, owner: dict[str, Any]) -> dict[str, Any]:
        spec = {"podTemplate": copy.deepcopy(template["spec"]["podTemplate"]), "operatingMode": "Running"}
        spec["podTemplate"]["spec"].setdefault("automountServiceAccountToken", False)
        return self.make("sandboxes", {"metadata": {"name": name}, "spec": spec}, owner)

    def on_sandboxclaims(self, claim: dict[str, Any]) -> None:
        if self.is_over(claim["spec"].get("lifecycle", {})):
            self.delete("sandboxclaims", claim["metadata"]["name"])
            return
        if "deletionTimestamp" in claim["metadata"]:
            return
        own = [each for plural, each in self.owned(claim) if plural == "sandboxes"]
        if not own:
            pool = self.objects.get(("sandboxwarmpools", claim["spec"]["warmPoolRef"]["name"]))
            if pool is None:
                missing = "SandboxWarmPool not found"
                self.change("sandboxclaims", claim, lambda each: _ready(each, "False", "WarmPoolNotFound", missing))
                return
            warm = [each for _, each in self.owned(pool) if _condition(each).get("status") == "True"]
            if warm:
                reference = [_reference(claim)]
                self.change("sandboxes", warm[0], lambda each: each["metadata"].update(ownerReferences=reference))
                own = warm[:1]
            else:
                template = self.objects["sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"]]
                own = [self.make_of(template, claim["metadata"]["name"], claim)]
        ready = copy.deepcopy(_condition(own[0]))

        def mirror(each: dict[str, Any]) -> None:
            each["status"] = {"conditions": [ready] if ready else [], "sandbox": {"name": own[0]["metadata"]["name"]}}

        self.change("sandboxclaims", claim, mirror)

    def on_sandboxes(self, sandbox: dict[str, Any]) -> None:
        metadata = sandbox["metadata"]
        if self.is_over(sandbox["spec"]):
            for plural, pod in self.owned(sandbox):
                if "deletionTimestamp" not in pod["metadata"]:
                    self.delete(plural, pod["metadata"]["name"])
            self.delete("sandboxes", metadata["name"])
            return
        if "deletionTimestamp" in metadata:
            return
        if ("pods", metadata["name"]) not in self.objects:
            template = sandbox["spec"]["podTemplate"]
            labels = dict((template.get("metadata") or {}).get("labels", {}))
            named = {"metadata": {"name": metadata["name"], "labels": labels}, "spec": template["spec"]}
            self.make("pods", named, sandbox)
        pod = self.objects["pods", metadata["name"]]
        status = pod.get("status", {})
        phase = status.get("phase", "Pending")
        if phase in ("Failed", "Succeeded"):
            told = ("False", f"Pod{phase}", f"Pod {phase}")
        elif phase == "Running" and "deletionTimestamp" not in pod["metadata"]:
            told = ("True", "DependenciesReady", "Pod is Ready")
        else:
            told = ("False", "DependenciesNotReady", f"Pod exists with phase: {phase}")
        self.change("sandboxes", sandbox, lambda each: _ready(each, *told))

    def is_over(self, lifecycle: dict[str, Any]) -> bool:
        ends_at = lifecycle.get("shutdownTime")
        return ends_at is not None and datetime.now(UTC) >= datetime.fromisoformat(ends_at)

    def on_pods(self, pod: dict[str, Any]) -> None:
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]
        uid = metadata["uid"]
        if "deletionTimestamp" in metadata:
            box = self.boxes.pop(uid, None)
            if box is not None:
                self.threads.submit(self.end, box, pod)
            elif not metadata.get("ending"):
                self.forget("pods", pod)
            return
        if uid in self.boxes or "status" in pod:
            return
        if not self.has_room:
            unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            status = {"phase": "Pending", "conditions": [unscheduled | {"message": "0/1 nodes: Insufficient memory"}]}
            self.change("pods", pod, lambda each: each.update(status=status))
        elif container["image"] in self.missing:
            waiting = {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}
            status = {"phase": "Pending", "containerStatuses": [{"name": container["name"], "state": waiting}]}
            self.change("pods", pod, lambda each: each.update(status=status))
        elif not self.is_slow:
            memory = container["resources"]["limits"]["memory"]
            shape = Shape(
                memory_bytes=int(memory) if memory.isdecimal() else None,
                variables=tuple((each["name"], each["value"]) for each in container.get("env", ())),
                directory=container.get("workingDir"),
            )
            self.boxes[uid] = self.client.create([f"pod-{uid}"], shape=shape)
            self.threads.submit(self.boot, self.boxes[uid], pod)

    def boot(self, box: Sandbox, pod: dict[str, Any]) -> None:
        """What the kubelet does to start a pod."""
        box.start().result(60)
        name = pod["spec"]["containers"][0]["name"]
        running = {"name": name, "containerID": f"test://{uuid.uuid4()}", "state": {"running": {"startedAt": _now()}}}
        self.change(
            "pods",
            pod,
            lambda each: each.update(status={"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]}),
        )

    def end(self, box: Sandbox, pod: dict[str, Any]) -> None:
        """What the kubelet does to end a pod."""
        pod["metadata"]["ending"] = True
        with suppress(SandrlError):
            box.stop().result(60)
        with self.lock:
            if self.objects.get(("pods", pod["metadata"]["name"])) is pod:
                self.forget("pods", pod)

    def fail(self, name: str, reason: str) -> None:
        """Ends the container of a pod, as the kernel does when its memory is exhausted, or a node."""
        with self.lock:
            pod = self.objects["pods", name]
            box = self.boxes.pop(pod["metadata"]["uid"])
            ended = {"name": "sandbox", "state": {"terminated": {"reason": reason, "exitCode": 137}}}
            self.change("pods", pod, lambda each: each.update(status={"phase": "Failed", "containerStatuses": [ended]}))
        box.stop().result(60)

    # The server.

    async def answer(self, request: Request) -> Response:
        """One request."""
        try:
            return await self.answered(request)
        except Refusal as refusal:
            return JSONResponse(refusal.status, refusal.code)

    async def answered(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "Unauthorized", "Unauthorized")
        before, _, rest = request.url.path.partition(f"/namespaces/{NAMESPACE}/")
        plural, _, name = rest.partition("/")
        version = _KINDS.get(plural, ("", ""))[0]
        if before not in (f"/apis/{version}", f"/api/{version}"):
            if "/namespaces/" in request.url.path and not rest:
                raise Refusal(404, "NotFound", "namespaces not found")
            return PlainTextResponse("404 page not found\n", 404)
        self.requests.append(f"{request.method} {plural} {request.query_params}")
        for each in [*self.refusals]:
            if each[:2] == (request.method, plural):
                self.refusals.remove(each)
                raise Refusal(*each[2:])
        query = request.query_params
        if name.endswith("/log"):
            return PlainTextResponse("the main program\n")
        if request.method == "POST":
            return JSONResponse(self.posted(plural, await request.json(), query.get("fieldValidation")), 201)
        if request.method == "DELETE":
            options = await request.json()
            with self.lock:
                found = self.objects.get((plural, name))
                self.delete(plural, name, options.get("propagationPolicy", "Background"))
                return JSONResponse(found)
        if name:
            with self.lock:
                if (plural, name) not in self.objects:
                    raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
                return JSONResponse(copy.deepcopy(self.objects[plural, name]))
        if query.get("watch") == "true":
            return StreamingResponse(self.watched(plural, dict(query)), media_type="application/json")
        return JSONResponse(self.listed(plural, dict(query)))

    def posted(self, plural: str, content: dict[str, Any], validation: str | None) -> dict[str, Any]:
        version, kind = _KINDS[plural]
        if (content.get("apiVersion"), content.get("kind")) != (version, kind):
            raise Refusal(400, "BadRequest", "the object does not fit the address")
        found = problem(content.get("spec"), _SCHEMAS[plural])
        if found and "unknown field" in found:
            if validation == "Strict":
                raise Refusal(400, "BadRequest", f"strict decoding error: {found}")
        elif found:
            raise Refusal(422, "Invalid", f"{kind} is invalid: {found}")
        for name, value in content["metadata"].get("labels", {}).items():
            if len(name.rpartition("/")[2]) > 63 or len(value) > 63:
                raise Refusal(422, "Invalid", f"{kind} is invalid: metadata.labels: {name}")
        with self.lock:
            if plural in ("sandboxes", "sandboxclaims") and len(self.of(plural)) >= self.quota:
                message = f"{plural} is forbidden: exceeded quota: few, used: count={self.quota}"
                raise Refusal(403, "Forbidden", message)
            return copy.deepcopy(self.make(plural, content))

    def listed(self, plural: str, query: dict[str, str]) -> dict[str, Any]:
        wanted = [each.split("=") for each in filter(None, query.get("labelSelector", "").split(","))]
        with self.lock:
            found = sorted(
                (copy.deepcopy(each) for each in self.of(plural) if _has(each, wanted)),
                key=lambda each: str(each["metadata"]["name"]),
            )
            version = str(self.version)
        after = query.get("continue", "")
        rest = [each for each in found if each["metadata"]["name"] > after]
        page = rest[: min(int(query.get("limit", "500")), 5)]
        metadata = {"resourceVersion": version}
        if len(page) < len(rest):
            metadata["continue"] = page[-1]["metadata"]["name"]
        # Items of a list have no kind.
        items = [{name: value for name, value in each.items() if name not in ("kind", "apiVersion")} for each in page]
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}

    async def watched(self, plural: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        seen = int(query["resourceVersion"])
        name = query["fieldSelector"].removeprefix("metadata.name=")
        ends_at = time.monotonic() + int(query["timeoutSeconds"])
        if self.events and self.events[0][0] > seen + 1:
            status = Refusal(410, "Expired", "too old resource version").status
            yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            return
        while time.monotonic() < ends_at:
            with self.lock:
                new = [each for each in self.events if each[0] > seen]
            for version, kind, event, found in new:
                seen = version
                if kind == plural and found["metadata"]["name"] == name:
                    yield json.dumps({"type": event, "object": found}).encode() + b"\n"
            await asyncio.sleep(0.02)

    async def exec(self, connection: WebSocket) -> None:
        """Runs a program in a pod; it runs on when its connection is lost."""
        name = connection.path_params["name"]
        pod = self.objects.get(("pods", name))
        box = self.boxes.get(pod["metadata"]["uid"]) if pod is not None else None
        offered = connection.headers.get("sec-websocket-protocol", "").replace(" ", "").split(",")
        chosen = next((each for each in offered if each in self.protocols), None)
        refusal = None
        if connection.headers.get("authorization") != f"Bearer {TOKEN}":
            refusal = Refusal(401, "Unauthorized", "Unauthorized")
        elif pod is None:
            refusal = Refusal(404, "NotFound", f'pods "{name}" not found')
        elif box is None or chosen is None:
            refusal = Refusal(400, "BadRequest", f"container is not running in pod {name}")
        for each in [*self.refusals]:
            if each[:2] == ("EXEC", "pods"):
                self.refusals.remove(each)
                refusal = Refusal(*each[2:])
        if refusal is not None:
            await connection.send_denial_response(JSONResponse(refusal.status, refusal.code))
            return
        assert box is not None
        await connection.accept(subprotocol=chosen)
        loop, query = asyncio.get_running_loop(), connection.query_params

        def write(channel: int) -> Callable[[bytes], None]:
            def pass_on(block: bytes) -> None:
                sent = connection.send_bytes(bytes([channel]) + block)
                with suppress(Exception):
                    asyncio.run_coroutine_threadsafe(sent, loop).result(60)

            return pass_on

        argv = query.getlist("command")
        if query["tty"] == "true":
            size = json.loads((await connection.receive_bytes())[1:])
            columns, rows = size["Width"], size["Height"]
            program: AttachedProgram = box.open_terminal(argv, columns=columns, rows=rows, output=write(1))
        else:
            out, err = Output(write(1)), Output(write(2))
            has_input = query["stdin"] == "true"
            program = box.attach(argv, stdin=has_input, stdout=out, stderr=err, timeout_seconds=600)
        feeding = asyncio.create_task(self.feed(connection, program, chosen == V5))
        status = await loop.run_in_executor(self.threads, _status, program)
        feeding.cancel()
        with suppress(Exception):
            await connection.send_bytes(b"\x03" + json.dumps(status).encode())
            await connection.close()

    async def feed(self, connection: WebSocket, program: AttachedProgram, can_close: bool) -> None:
        loop = asyncio.get_running_loop()
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                frame = await connection.receive_bytes()
                with suppress(SandrlError):
                    if frame[0] == 0:
                        await loop.run_in_executor(self.threads, program.write, frame[1:])
                    elif frame == b"\xff\x00" and can_close:
                        program.close_input()


def _status(program: AttachedProgram) -> dict[str, Any]:
    program.ended.result()
    try:
        code = program.finish()
    except SandrlError:
        code = 137  # it was killed with its pod
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reference(owner: dict[str, Any]) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {"kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def _condition(found: dict[str, Any]) -> dict[str, Any]:
    return next(iter((found.get("status") or {}).get("conditions", ())), {})


def _ready(found: dict[str, Any], status: str, reason: str, message: str) -> None:
    before = _condition(found)
    since = before["lastTransitionTime"] if before.get("status") == status else _now()
    ready = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    found.setdefault("status", {})["conditions"] = [ready]


def _has(found: dict[str, Any], wanted: list[list[str]]) -> bool:
    labels = found["metadata"].get("labels", {})
    return all(name in labels and (not value or labels[name] == value[0]) for name, *value in wanted)


@contextmanager
def cluster(settings: Settings, directory: Path) -> Iterator[ClusterStandIn]:
    """A running cluster; `directory/config` is a configuration that names it."""
    made = ClusterStandIn(settings)
    methods = ["GET", "POST", "DELETE", "PATCH"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{{name}}/exec"
    app = Starlette(routes=[WebSocketRoute(path, made.exec), Route("/{path:path}", made.answer, methods=methods)])
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, ws_ping_interval=None)
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        controlling = threading.Thread(target=made.control, daemon=True)
        serving.start()
        controlling.start()
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
        }
        (directory / "config").write_text(json.dumps(configuration))
        while not server.started:
            time.sleep(0.01)
        yield made
        made.is_closed.set()
        controlling.join()
        server.should_exit = True
        serving.join(10)
        for sandbox in made.boxes.values():
            sandbox.stop().result(60)
        made.client.close(60)
        made.threads.shutdown(wait=False, cancel_futures=True)
