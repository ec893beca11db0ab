"""One sandbox of a cluster, and programs in its pod."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sandrl.errors import InfrastructureError, NoRoomError, NotRunningError, SandrlError, UsageError
from sandrl.sandboxes.providers.kubernetes.cluster import (
    CLAIMS,
    PODS,
    SANDBOXES,
    Cluster,
    Conflict,
    Missing,
    Outdated,
    one_line,
)
from sandrl.sandboxes.providers.kubernetes.manifests import PodRequest, condition, describe
from sandrl.sandboxes.providers.kubernetes.streams import PodStream
from sandrl.sandboxes.providers.programs import KILLED, HostedSandbox
from sandrl.sandboxes.providers.protocol import SandboxInfo

_START_SECONDS, _ROOM_SECONDS, _WATCH_SECONDS = 600.0, 120.0, 2
_SETTLE_SECONDS = 10.0
_POD_NAME = "agents.x-k8s.io/pod-name"
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# The controller does not recover from these by itself.
_FINAL = ("PodFailed", "PodSucceeded", "SandboxExpired", "ClaimExpired", "InvalidConfiguration", "InvalidMetadata")
_NO_TEMPLATE = ("WarmPoolNotFound", "TemplateNotFound")


class PodSandbox(HostedSandbox):
    """A sandbox that is made on its first use, or one that was found.

    A pod of the same name may replace one that was evicted. So each command is held against the pod, and the container
    in it, that the sandbox began with.
    """

    def __init__(
        self, cluster: Cluster, request: PodRequest | None, info: SandboxInfo, found: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(info)
        self._cluster = cluster
        self._request = request
        self._object = found or {}
        self._is_claim = request.pool != "" if request else self._object.get("kind") == "SandboxClaim"
        self._pod: dict[str, Any] | None = None
        self._is_stopped = threading.Event()

    @property
    def _path(self) -> str:
        return CLAIMS if self._is_claim else SANDBOXES

    def _create(self) -> None:
        assert self._request is not None, "it was found, so it exists"
        if self._is_stopped.is_set():
            raise InfrastructureError(f"sandbox {self.name} was stopped")
        try:
            with suppress(Conflict):  # it was made by a call whose answer was lost
                self._cluster.make(self._path, self._request.manifest(self.name))
            self._await_start()
        except Missing as error:
            raise UsageError(f"{self._cluster.address}: {one_line(error)}", hint="make the namespace") from error
        except BaseException:
            with suppress(SandrlError):
                self._cluster.delete(self._path, self.name)
                self.name = str(uuid.uuid4())
            raise
        self.note_start()

    def _await_start(self) -> None:
        ends_at = time.monotonic() + _START_SECONDS
        for found in self._states():
            self._object = found
            ready = condition(found)
            if ready.get("status") == "True":
                self._pod = self._find_pod()
                if self._pod is not None:
                    return
            problem = self._problem(ready, _START_SECONDS - (ends_at - time.monotonic()))
            if problem is not None:
                raise problem
            if self._is_stopped.is_set():
                raise InfrastructureError(f"sandbox {self.name} was stopped")
            if time.monotonic() > ends_at:
                raise InfrastructureError(f"sandbox {self.name} has not started in {_START_SECONDS:.0f} s: {ready}")

    def _states(self) -> Iterator[dict[str, Any]]:
        # What it is now, and then as it changes; again after a while without a change.
        while True:
            try:
                found = self._cluster.get(self._path, self.name)
                yield found
                version = found["metadata"]["resourceVersion"]
                for state in self._cluster.watch(self._path, self.name, version, _WATCH_SECONDS):
                    if state is None:
                        raise Missing
                    yield state
            except Missing as error:
                raise InfrastructureError(f"sandbox {self.name} was deleted while it started") from error
            except Outdated:
                continue

    def _problem(self, ready: Mapping[str, Any], seconds: float) -> SandrlError | None:
        # Why it will not start.
        assert self._request is not None
        reason, message = ready.get("reason"), one_line(ready.get("message", ""))
        if reason in _NO_TEMPLATE:
            return UsageError(f"warm pool {self._request.pool}: {message}", hint="make the pool and its template")
        if reason in _FINAL:
            return InfrastructureError(f"sandbox {self.name} does not start: {reason}: {message}")
        if reason == "ReconcilerError" and "exceeded quota" in message:
            return NoRoomError(f"{self._cluster.address}: no room for a sandbox: {message}")
        if reason == "ReconcilerError" and "forbidden" in message:
            return UsageError(f"{self._cluster.address}: the cluster refuses the pod: {message}")
        pod = self._find_pod() or {}
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False" and seconds > _ROOM_SECONDS:
            return NoRoomError(f"{self._cluster.address}: no node has room: {one_line(scheduled.get('message', ''))}")
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            why = f"{waiting.get('reason')}: {one_line(waiting.get('message', ''))}"
            if waiting.get("reason") in _NO_IMAGE:
                return UsageError(
                    f"image {self._request.image}: the cluster cannot pull it: {why}",
                    hint="check its name, and the pull secrets of the namespace",
                    fields=("image",),
                )
            if waiting.get("reason") in _NO_CONTAINER:
                return UsageError(f"image {self._request.image}: its container does not start: {why}")
        return None

    def _find_pod(self) -> dict[str, Any] | None:
        sandbox: Mapping[str, Any] | None = self._object
        if self._is_claim:
            name = ((self._object.get("status") or {}).get("sandbox") or {}).get("name")
            sandbox = self._cluster.find(SANDBOXES, name) if name else None
        if not sandbox:
            return None
        metadata = sandbox["metadata"]
        return self._cluster.find(PODS, (metadata.get("annotations") or {}).get(_POD_NAME) or metadata["name"])

    def _own_pod(self) -> dict[str, Any]:
        # The pod that it began with, as far as is known here.
        if self._pod is None:
            self._pod = self._find_pod()
            if self._pod is None or _container(self._pod) is None:
                raise NotRunningError(self.name)
        return self._pod

    def _is_same(self) -> bool:
        # Whether its pod and container still are those that it began with.
        own = self._own_pod()
        pod = self._cluster.find(PODS, own["metadata"]["name"])
        return (
            pod is not None and pod["metadata"]["uid"] == own["metadata"]["uid"] and _container(pod) == _container(own)
        )

    def remove(self) -> bool:
        return self._cluster.delete(self._path, self.name)

    def is_there(self) -> bool:
        return self._cluster.find(self._path, self.name) is not None

    def is_running(self) -> bool:
        found = self._cluster.find(self._path, self.name)
        return found is not None and describe(found).status == "running" and self._is_same()

    def give_up(self) -> None:
        # Its controller replaces a pod that was lost.
        with suppress(SandrlError):
            self.remove()
        self.note_end()

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        self._is_stopped.set()
        return super().stop(missing_ok=missing_ok)

    def launch(
        self, argv: Sequence[str], *, variables: Mapping[str, str], has_input: bool, size: tuple[int, int] | None
    ) -> PodStream:
        settings = [f"{name}={value}" for name, value in variables.items()]
        program = ["/bin/sh", "-c", f'export {" ".join(settings)}; exec "$@"' if settings else 'exec "$@"']
        pod, is_terminal = self._own_pod(), size is not None
        query = [
            ("container", pod["spec"]["containers"][0]["name"]),
            ("stdin", str(has_input).lower()),
            ("stdout", "true"),
            ("stderr", str(not is_terminal).lower()),
            ("tty", str(is_terminal).lower()),
            *(("command", word) for word in (*program, "sandrl", *argv)),
        ]
        stream = PodStream(self._cluster.exec(pod["metadata"]["name"], query))
        if has_input and not is_terminal and not stream.closes_input:
            stream.close()
            raise UsageError(
                f"{self._cluster.address}: Kubernetes is older than 1.30: the input of programs has no end"
            )
        if size is not None:
            stream.set_size(*size)
        return stream

    def exit_code_of(self, argv: Sequence[str]) -> int | None:
        stream = self.launch(argv, variables={}, has_input=False, size=None)
        try:
            with suppress(OSError):
                stream.receive(lambda *_: None)
            return stream.exit_code()
        finally:
            stream.close()

    def confirm(self, code: int | None) -> int | None:
        if code is None or code == KILLED:
            if self._ran_out_of_memory():
                return KILLED
            super().confirm(code)
        if not self._is_same():
            raise InfrastructureError(f"sandbox {self.name} was replaced while its program ran")
        return code

    def _ran_out_of_memory(self) -> bool:
        # The kernel kills all programs of a container that takes too much memory, which its program has done.
        own = self._own_pod()
        ends_at = time.monotonic() + _SETTLE_SECONDS
        while True:
            pod = self._cluster.find(PODS, own["metadata"]["name"])
            if pod is None or pod["metadata"]["uid"] != own["metadata"]["uid"]:
                return False
            ended = (_state(pod).get("terminated") or {}).get("reason")
            if ended:
                return bool(ended == "OOMKilled")
            if time.monotonic() > ends_at or self._starts_programs():
                return False
            time.sleep(0.2)

    def _starts_programs(self) -> bool:
        try:
            return self.exit_code_of(("true",)) == 0
        except SandrlError:
            return False

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        pod = self._own_pod()
        query = {"container": pod["spec"]["containers"][0]["name"]} | ({"follow": "true"} if follow else {})
        query |= {} if tail_lines is None else {"tailLines": str(tail_lines)}
        try:
            with self._cluster.stream(f"{PODS}/{pod['metadata']['name']}/log", query, "read a log") as response:
                for block in response.stream(1 << 16):
                    yield block.decode(errors="replace")
        except Missing as error:
            raise NotRunningError(self.name) from error


def _state(pod: Mapping[str, Any]) -> dict[str, Any]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    state: dict[str, Any] = statuses[0].get("state") or {}
    return state


def _container(pod: Mapping[str, Any]) -> str | None:
    # The container that runs in a pod.
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return statuses[0].get("containerID") if "running" in _state(pod) else None
