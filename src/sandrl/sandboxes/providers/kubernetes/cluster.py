"""The API server of a cluster, with errors of sandrl."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from sandrl.deadlines import TookTooLong, answer_within
from sandrl.errors import (
    AuthenticationError,
    InfrastructureError,
    NodeLostError,
    NoRoomError,
    RuntimeUnavailableError,
    SandrlError,
    UsageError,
)
from sandrl.extras import require

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/{}/sandboxes"
CLAIMS, POOLS, TEMPLATES = (
    f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{{}}/{plural}"
    for plural in ("sandboxclaims", "sandboxwarmpools", "sandboxtemplates")
)
PODS = "/api/v1/namespaces/{}/pods"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"

_TIMEOUT_SECONDS = 60.0
_PAGE = 500
_CONNECTIONS = 64
_ATTEMPTS = 3
_BUSY = (429, 502, 503, 504)
_NO_ROOM = ("exceeded quota", "Insufficient", "too many")


class Missing(Exception):
    """The API server has no such object."""


class Conflict(Exception):
    """An object of this name is there already, or has changed."""


class Outdated(Exception):
    """The API server does not know a resource version, or a place in a list, any more."""


@dataclass(slots=True)
class Cluster:
    """A namespace of a cluster; a process that was forked opens connections of its own.

    Attributes:
        configuration: The client library's, with an address, certificates and credentials, which it renews.
    """

    configuration: Any = field(repr=False)
    namespace: str
    _pools: dict[int, Any] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def address(self) -> str:
        """Where it is: the address of the API server, and the namespace."""
        return f"{self.configuration.host}/{self.namespace}"

    def get(self, path: str, name: str, **query: str) -> dict[str, Any]:
        """An object.

        Raises:
            Missing: If there is none.
            SandrlError: If the server refuses or fails, as for all methods here.
        """
        return self._answer("GET", f"{path}/{name}", query)

    def find(self, path: str, name: str) -> dict[str, Any] | None:
        """An object; None if there is none."""
        with suppress(Missing):
            return self.get(path, name)
        return None

    def make(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Makes an object.

        Raises:
            Conflict: If there is one of this name.
        """
        return self._answer("POST", path, {"fieldValidation": "Strict"}, manifest)

    def delete(self, path: str, name: str) -> bool:
        """Begins to delete an object after all that it owns; whether there was one."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        try:
            self._answer("DELETE", f"{path}/{name}", {}, options)
        except (Missing, Conflict):
            return False
        return True

    def list(self, path: str, labels: Iterable[str]) -> list[dict[str, Any]]:
        """The objects that have all these labels."""
        query = {"labelSelector": ",".join(labels), "limit": str(_PAGE)}
        found: list[dict[str, Any]] = []
        place = ""
        while True:
            try:
                page = self._answer("GET", path, query | ({"continue": place} if place else {}))
            except Outdated:
                found, place = [], ""
                continue
            found += page.get("items") or []
            place = page.get("metadata", {}).get("continue") or ""
            if not place:
                return found

    def watch(self, path: str, name: str, version: str, seconds: int) -> Iterator[dict[str, Any] | None]:
        """States of an object after one of its resource versions, as they come; None if it was deleted.

        Raises:
            Outdated: If the server does not know the version any more.
        """
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "resourceVersion": version}
        with self.stream(path, query | {"timeoutSeconds": str(seconds)}, "watch a sandbox") as response:
            for line in _lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self._refuse(event["object"].get("code", 500), json.dumps(event["object"]).encode(), "watch")
                yield None if event["type"] == "DELETED" else event["object"]

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], what: str) -> Iterator[Any]:
        """The response to a request whose content comes little by little."""
        with self._calling(what):
            response = self._request("GET", path, query, None)
            try:
                if response.status >= 300:
                    self._refuse(response.status, response.read(), what)
                yield response
            finally:
                response.close()

    def exec(self, pod: str, query: Iterable[tuple[str, str]]) -> Any:
        """Opens the connection of a program in a pod.

        Returns:
            A WebSocket of `websocket-client`.
        """
        library = require("kubernetes.stream.ws_client", extra="kubernetes")
        websocket = require("websocket", extra="kubernetes")
        path = PODS.format(self.namespace)
        url = f"{self.configuration.host}{path}/{pod}/exec?{urlencode([*query])}".replace("http", "ws", 1)
        what = f"start a program in the pod {pod}"
        with self._calling(what):
            try:
                headers = self._headers()
                return answer_within(
                    _TIMEOUT_SECONDS, lambda: library.create_websocket(self.configuration, url, headers)
                )
            except websocket.WebSocketBadStatusException as error:
                if error.status_code >= 500:
                    reason = one_line((error.resp_body or b"").decode(errors="replace"))[:300]
                    raise NodeLostError(f"{self.address}: cannot {what}: {reason}") from error
                try:
                    self._refuse(error.status_code, error.resp_body or b"", what)
                except (Missing, Conflict) as missing:
                    raise InfrastructureError(f"{self.address}: there is no pod {pod}") from missing
            except TookTooLong as error:
                raise NodeLostError(f"{self.address}: cannot {what}: no answer in a minute") from error
            except websocket.WebSocketException as error:
                raise NodeLostError(f"{self.address}: cannot {what}: {error}") from error

    def _answer(
        self, method: str, path: str, query: Mapping[str, str], content: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        what = f"{method} {path.rpartition('/namespaces/')[2].partition('/')[2] or path}"
        with self._calling(what):
            response = self._request(method, path, query, content)
            body: bytes = response.read()
            if response.status >= 300:
                self._refuse(response.status, body, what)
            answer = json.loads(body)
            if not isinstance(answer, dict):
                raise ValueError("not an object")
            return answer

    def _headers(self) -> dict[str, str]:
        settings = self.configuration.auth_settings().values()
        return {each["key"]: each["value"] for each in settings if each["value"]}

    def _request(self, method: str, path: str, query: Mapping[str, str], content: Mapping[str, Any] | None) -> Any:
        headers = self._headers() | {"Accept": "application/json", "User-Agent": "sandrl"}
        body = None
        if content is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(content).encode()
        path = path.format(self.namespace)
        url = f"{self.configuration.host}{path}?{urlencode(query)}"
        seconds = None if query.get("follow") else _TIMEOUT_SECONDS
        timeout = require("urllib3", extra="kubernetes").Timeout(connect=10.0, read=seconds)
        return self._pool().request(
            method, url, body=body, headers=headers, timeout=timeout, preload_content=False, redirect=False
        )

    def _pool(self) -> Any:
        with self._lock:
            # A connection that two processes share mixes their answers.
            if os.getpid() not in self._pools:
                self.configuration.connection_pool_maxsize = _CONNECTIONS
                self.configuration.retries = require("urllib3", extra="kubernetes").Retry(
                    total=_ATTEMPTS,
                    allowed_methods=None,  # all of them: objects have names that are made here
                    status_forcelist=_BUSY,
                    backoff_factor=0.2,
                    raise_on_status=False,
                )
                rest = require("kubernetes.client.rest", extra="kubernetes")
                self._pools[os.getpid()] = rest.RESTClientObject(self.configuration).pool_manager
            return self._pools[os.getpid()]

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        errors = require("urllib3", extra="kubernetes").exceptions
        config = require("kubernetes.config", extra="kubernetes")
        try:
            yield
        except config.ConfigException as error:
            raise AuthenticationError(f"{self.address}: no credentials: {one_line(error)}", hint=_LOGIN) from error
        except (errors.HTTPError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            failure = InfrastructureError(f"{self.address}: cannot {what}: no answer: {one_line(reason)}")
            failure.lost_runtime = failure.never_reached = isinstance(
                reason, errors.NewConnectionError | errors.ConnectTimeoutError | ConnectionRefusedError
            )
            raise failure from error
        except ValueError as error:
            raise InfrastructureError(f"{self.address}: cannot {what}: the answer is none of Kubernetes") from error

    def _refuse(self, status: int, body: bytes, what: str) -> None:
        # Raises the error that stands for a status.
        try:
            details = json.loads(body)
            message, is_status = one_line(details["message"]), details.get("kind") == "Status"
        except (ValueError, TypeError, KeyError):
            message, is_status = one_line(body.decode(errors="replace"))[:300], False
        text = f"{self.address}: cannot {what}: {message or f'status {status}'}"
        if status == 404:
            if is_status:
                raise Missing(message)
            raise RuntimeUnavailableError(
                f"{text}: the cluster has no agent-sandbox with v1beta1", hint="install it and its extensions there"
            )
        if status == 409 and is_status:
            raise Conflict(message)
        if status == 410:
            raise Outdated(message)
        raise _error(status, message, text)


_LOGIN = "log in to the cluster again; kubectl auth whoami shows whether that worked"


def _error(status: int, message: str, text: str) -> SandrlError:
    if status == 429 or (status == 403 and any(each in message for each in _NO_ROOM)):
        return NoRoomError(text)
    if status == 401:
        return AuthenticationError(text, hint=_LOGIN)
    if status == 403:
        return AuthenticationError(text, hint="give this user the role of the guide of Kubernetes in this namespace")
    if status in (400, 413, 422):
        return UsageError(text)
    return InfrastructureError(text)


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def _lines(response: Any) -> Iterator[bytes]:
    rest = b""
    for block in response.stream(1 << 16):
        *lines, rest = (rest + block).split(b"\n")
        yield from filter(None, lines)
