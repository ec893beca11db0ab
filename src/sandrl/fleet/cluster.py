"""A Ray cluster that this process belongs to as a driver.

Every function and object is bound to a node by name. Ray's own scheduling uses the processors that programs request,
which does not show how fast a node judges, so the caller decides which node runs what.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from sandrl.errors import (
    InfrastructureError,
    InterruptedRunError,
    NodeLostError,
    RuntimeUnavailableError,
    ServiceError,
    UsageError,
)
from sandrl.extras import require
from sandrl.fleet import actor
from sandrl.fleet.actor import Reply

RESOURCE = "sandrl"
"""If any node of a cluster has this resource, only the nodes that have it score."""

TWO_WAYS = (
    "start a cluster with `ray start --head` (and `ray start --address HOST:6379` on the other machines), or give the"
    " address of a running one, such as ray:HOST:6379; without an address, RAY_ADDRESS is used"
)
_CLIENT_SCHEME = "ray://"
_REACH_SECONDS = 5.0
# Of one object: as many as a cleanup stops sandboxes.
_CALLS_AT_ONCE = 32
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How an actor ended, by the name of Ray's error.
_ENDS = {
    "ActorDiedError": "the node, or its process there, has ended",
    "ActorUnavailableError": "it cannot be reached",
}
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of a cluster.

    Attributes:
        id: Ray's name of it, 56 hex digits.
        name: The name of its host; with the beginning of its id, where several nodes have that name.
        is_leaving: Whether it is being drained.
    """

    id: str
    name: str
    address: str
    cpus: float
    is_leaving: bool = False


class Cluster:
    def __init__(self, ray: Any, address: str) -> None:
        self.address = address
        self._ray = ray
        self._names: dict[str, str] = {}

    def nodes(self) -> list[Node]:
        """The nodes that live and may score: those with processors, or with the resource `sandrl` where any has it.

        Raises:
            ServiceError: If the cluster does not answer.
        """
        try:
            living = [each for each in self._ray.nodes() if each["Alive"]]
            leaving = self._leaving()
        except InterruptedRunError:
            raise
        except Exception as error:
            raise ServiceError(f"the Ray cluster at {self.address} does not answer: {_line(error)}") from error
        marked = [each for each in living if each["Resources"].get(RESOURCE)]
        chosen = marked or [each for each in living if each["Resources"].get("CPU")]
        return [self._node(each, is_leaving=each["NodeID"] in leaving) for each in chosen]

    def _leaving(self) -> Collection[str]:
        # Ray has no public call for it.
        try:
            found: Collection[str] = self._ray._private.state.state.get_draining_nodes()
        except Exception:  # noqa: BLE001 - over a Ray client server, or with another Ray, there is no answer
            return ()
        return found

    def _node(self, row: dict[str, Any], *, is_leaving: bool) -> Node:
        identity, host = row["NodeID"], row["NodeManagerHostname"] or row["NodeManagerAddress"]
        if identity not in self._names:
            taken = set(self._names.values())
            self._names[identity] = host if host not in taken else f"{host}-{identity[:6]}"
        return Node(
            identity, self._names[identity], row["NodeManagerAddress"], row["Resources"].get("CPU", 0.0), is_leaving
        )

    def hold(self, node: Node, name: str, *arguments: object) -> Host:
        """Makes an `Actor` in a process of its own on a node; it ends with this."""
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": _CALLS_AT_ONCE}
        pickling = self._ray.cloudpickle
        with _lock:
            pickling.register_pickle_by_value(actor)
            try:
                made = self._ray.remote(actor.Actor).options(**options, scheduling_strategy=self._bound_to(node))
                handle = made.remote(self._code, platform.python_version(), name, pickling.dumps(arguments))
            finally:
                pickling.unregister_pickle_by_value(actor)
        return Host(self._ray, handle)

    @cached_property
    def _code(self) -> tuple[str, str]:
        return actor.code_here()

    def _bound_to(self, node: Node) -> Any:
        strategies = require("ray.util.scheduling_strategies", extra="ray")
        return strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)


class Host:
    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray = ray
        self._handle = handle

    def ask(self, method: str, *arguments: object) -> Future[Reply]:
        answer: Future[Reply] = self._handle.call.remote(method, *arguments).future()
        return answer

    def kill(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._handle)


def answer_within(seconds: float, node: Node, asked: Future[Reply], *, of_seconds: float | None = None) -> Any:
    """The answer of a node.

    Args:
        of_seconds: How long it was given in all, for the message.

    Raises:
        NodeLostError: If there is none.
        InfrastructureError: If it is an error of sandrl.
    """
    try:
        replied = asked.result(seconds)
    except FutureTimeoutError:
        message = f"node {node.name} did not answer within {seconds if of_seconds is None else of_seconds:.0f} s"
        raise NodeLostError(message) from None
    except InterruptedRunError:
        raise  # raised by a signal while this process waited
    except Exception as error:
        reason = _ENDS.get(type(error).__name__) or _line(error)
        raise NodeLostError(f"node {node.name} did not answer: {reason}") from error
    answer, refusal = replied
    if refusal is not None:
        message, hint = refusal
        raise InfrastructureError(f"node {node.name}: {message}", hint=hint)
    return answer


def answers_within(
    seconds: float, asked: Sequence[tuple[Node, Future[Reply]]]
) -> list[tuple[Node, Any | InfrastructureError]]:
    """The answers of several nodes that were asked at once, or the errors of `answer_within`."""
    until = time.monotonic() + seconds
    answers: list[tuple[Node, Any]] = []
    for node, answer in asked:
        try:
            left = max(until - time.monotonic(), 0.0)
            answers.append((node, answer_within(left, node, answer, of_seconds=seconds)))
        except InfrastructureError as error:
            answers.append((node, error))
    return answers


_lock = threading.Lock()


def connect(address: str | None) -> Cluster:
    """Makes this process a driver of a Ray cluster; if it is a driver already, it stays one of the same cluster.

    Args:
        address: `HOST:PORT`, `ray://HOST:PORT` or `auto`, as Ray takes it; None if none was given.

    Raises:
        MissingExtraError: If Ray is not installed.
        UsageError: If there is no address.
        ServiceError: If no cluster answers there, or it cannot be used from here.
    """
    ray = require("ray", extra="ray")
    with _lock:
        if ray.is_initialized():
            own = ray.get_runtime_context().gcs_address
            if address not in (None, "auto", own) and not address.startswith(_CLIENT_SCHEME):
                message = f"runtime ray: this process already belongs to the cluster at {own}, not to {address}"
                raise UsageError(message, fields=("runtime",))
            return Cluster(ray, own)
        if address is None:
            raise UsageError(
                "runtime ray: the address of the Ray cluster is not set", hint=TWO_WAYS, fields=("runtime",)
            )
        _check_reach(ray, address)
        with _own_handlers(), _quiet(ray):
            try:
                ray.init(address, log_to_driver=False, configure_logging=False)
            except InterruptedRunError:
                raise
            except Exception as error:
                raise RuntimeUnavailableError(
                    f"runtime ray: the cluster at {address} cannot be used from here: {_line(error)}",
                    hint=_hint_for(str(error), address),
                    fields=("runtime",),
                ) from error
        _say_nothing(ray)
        return Cluster(ray, ray.get_runtime_context().gcs_address if address == "auto" else address)


def _say_nothing(ray: Any) -> None:
    # Ray prints messages of raylets on a thread of its own, and has no setting for it. Standard output may be a
    # document; calls to a lost node fail anyway.
    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _check_reach(ray: Any, address: str) -> None:
    # Ray would try an address at which nothing answers for most of a minute.
    host, colon, port = address.removeprefix(_CLIENT_SCHEME).rpartition(":")
    if address == "auto":
        return
    if not colon or not port.isdecimal():
        message = f"runtime ray: {address!r} is not an address: use HOST:PORT, ray://HOST:PORT or auto"
        raise UsageError(message, fields=("runtime",))
    asked = host.strip("[]")
    if asked in ("localhost", "127.0.0.1", "::1") and not address.startswith(_CLIENT_SCHEME):
        asked = ray.util.get_node_ip_address()  # as Ray does
    try:
        socket.create_connection((asked, int(port)), _REACH_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"runtime ray: no Ray cluster answers at {address}: {reason}"
        hint = TWO_WAYS
        if asked != host.strip("[]"):
            message = (
                f"runtime ray: no Ray cluster answers at {asked}:{port}, the address that Ray uses for {host}: {reason}"
            )
            hint = "`ray start --head --node-ip-address 127.0.0.2` starts a cluster that only this machine can reach"
        raise RuntimeUnavailableError(message, hint=hint, fields=("runtime",)) from error


def _hint_for(reason: str, address: str) -> str:
    if "token" in reason.lower() or "unauthenticated" in reason.lower():
        return "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to the file with the token of the cluster"
    if "ersion mismatch" in reason:
        return "use the Python and the Ray that the cluster was started with"
    if "node_ip_address" in reason or "Raylet addresses" in reason or "ray start" in reason:
        return (
            f"a driver must be on a machine of the cluster: `ray start --address {address} --num-cpus 0` adds this"
            " machine; or use the address of a Ray client server: ray://HOST:10001"
        )
    return TWO_WAYS


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    # Ray replaces the handlers of signals by its own.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    # Ray also prints the message of its error.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
