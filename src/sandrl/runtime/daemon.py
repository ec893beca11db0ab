"""Finding, starting and stopping the per-user background daemon.

Several processes may start it at once: one lock serialises them, and the second one finds the daemon of the first.
The daemon inherits no secret and no working directory of the command that started it.

A daemon that is slow to answer is waited for: it may be starved, paged out, or stopped for a while, and other jobs
depend on it. That it is wedged is proven only if it could run and did not: its main thread slept all the time, and its
processor time did not advance.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from sandrl import __version__, forks
from sandrl.errors import RuntimeUnavailableError, SilentDaemonError, UsageError
from sandrl.files import check_descriptors
from sandrl.runtime import libraries, limits
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory
from sandrl.runtime.steps import RESULT, Step, StepResult
from sandrl.runtime.usage import of_process
from sandrl.settings import load_settings

_SOURCE_ROOT = Path(__file__).resolve().parents[2]
_INHERITED = (
    *("HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "SANDRL_RUNTIME_ISOLATION", "SANDRL_HOST_UIDS"),
    *("SANDRL_IMAGE_ROOTS", "SANDRL_SANDBOX_STORAGE"),
    # For images that it pulls.
    *("SANDRL_REGISTRY_MIRRORS", "SANDRL_INSECURE_REGISTRIES"),
    *("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_STATUS_METHOD, _SAVE_METHOD, _CHANGES_METHOD, _STEP_METHOD, _CONNECTIONS_METHOD, _REACHED_METHOD = (
    f"/sandrl.runtime.v1.Control/{name}" for name in ("Status", "Save", "Changes", "Step", "Connections", "Reached")
)
# How long one question may take, and the silence after which its asker is told.
_QUESTION_SECONDS = 3.0
PATIENCE_SECONDS = 90.0
"""How long a daemon that does not answer is waited for."""
_ENDING_SECONDS = 2.0


class Silence(StrEnum):
    """Why a daemon that lives does not answer."""

    STOPPED = "is stopped by a signal"
    BUSY = "is slow to answer"
    """It runs, waits for a processor or for its memory, or did so a moment ago."""
    WEDGED = "sleeps and does not answer"


_HINTS = {
    Silence.STOPPED: "kill -CONT {pid} continues it",
    Silence.BUSY: "try again when the machine is less busy; --runtime daemonless needs no daemon",
    Silence.WEDGED: "sandrl runtime logs may show the reason; --runtime daemonless needs no daemon",
}


@dataclass(frozen=True)
class RuntimeStatus:
    """What a daemon says of itself, or that there is none.

    Attributes:
        condition: What happened to the fork server: that it is being restarted, or why the last one ended; else empty.
        sandbox_cpu_seconds: Processor time of everything below it so far: booting, and what ran inside.
        processes: How many processes there are below it, the booted-ahead sandboxes' included.
    """

    running: bool
    pid: int | None = None
    base_url: str | None = None
    version: str = __version__
    uptime_seconds: float = 0.0
    sandboxes: int = 0
    isolation: str = ""
    isolation_detail: str = ""
    host_users: str = ""
    is_well: bool = True
    condition: str = ""
    restarts: int = 0
    images: tuple[str, ...] = ()
    stored_images: int = 0
    default_image: str = ""
    idle_timeout_seconds: float | None = None
    suggested_concurrency: int = 0
    server_cpu_seconds: float = 0.0
    sandbox_cpu_seconds: float = 0.0
    processes: int = 0
    open_descriptors: int = 0
    resident_bytes: int = 0


def find(state_dir: Path) -> DaemonEndpoint | None:
    """The running daemon of this user and version, or None; never starts one."""
    return RuntimeDirectory(state_dir).find()


def ensure_running(
    state_dir: Path, *, timeout_seconds: float = 120.0, on_start: Callable[[str], None] | None = None
) -> DaemonEndpoint:
    """Find the daemon, or start it, which takes a second where nothing else runs, and a minute on a crowded machine.

    Raises:
        RuntimeUnavailableError: If it cannot be started, or code cannot be isolated on this machine.
    """
    check_descriptors()
    directory = RuntimeDirectory(state_dir)
    endpoint = directory.find()
    if endpoint is not None:
        return endpoint
    limits.check_open_files()
    with directory.starting():
        endpoint = directory.find()
        if endpoint is None:
            if on_start is not None:
                on_start("starting the local runtime")
            _start(directory, timeout_seconds)
            endpoint = directory.find()
    if endpoint is None:
        raise RuntimeUnavailableError(
            "the local runtime ended right after it started", hint=f"its log is {directory.log}"
        )
    return endpoint


def _start(directory: RuntimeDirectory, timeout_seconds: float) -> None:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment["PYTHONPATH"] = str(_SOURCE_ROOT)
    environment["SANDRL_CACHE_DIR"] = str(load_settings().cache_dir)  # where images are
    # Its interpreter and its packages may need what those of this process need.
    if searched := libraries.search_path():
        environment[libraries.VARIABLE] = searched
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers:
        try:
            with open(directory.log, "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "sandrl.runtime.server", str(directory.state_dir), str(writing)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                    pass_fds=(writing,),
                )
        except OSError as error:
            raise RuntimeUnavailableError(
                f"the local runtime cannot be started: {error.filename or directory.log}: {error.strerror}",
                hint="check that this user may execute the Python that runs sandrl, and may write its state directory",
            ) from error
        finally:
            os.close(writing)
        process.wait()  # it forks at once, so that the daemon is nobody's child
        if not select.select([answers], [], [], timeout_seconds)[0]:
            os.killpg(process.pid, signal.SIGKILL)
            raise RuntimeUnavailableError(
                f"the local runtime did not start within {timeout_seconds:g} s", hint=f"its log is {directory.log}"
            )
        answer = answers.read()
    if answer:
        reply = json.loads(answer)
        if "error" in reply:
            raise RuntimeUnavailableError(reply["error"], hint=reply["hint"])
    elif missing := libraries.missing_library(environment):
        raise RuntimeUnavailableError(
            f"the local runtime cannot be started: {sys.executable} does not find {missing}",
            hint=libraries.advice(missing),
        )
    else:
        raise RuntimeUnavailableError("the local runtime failed to start", hint=f"its log is {directory.log}")


def stop(state_dir: Path, *, timeout_seconds: float = 10.0) -> bool:
    """Stop the daemon of this version, see `stop_one`; returns whether there was one."""
    endpoint = find(state_dir)
    if endpoint is not None:
        stop_one(endpoint, timeout_seconds=timeout_seconds)
    return endpoint is not None


def stop_one(endpoint: DaemonEndpoint, *, timeout_seconds: float = 10.0) -> None:
    """Stop a daemon and with it every sandbox, unless it has ended already.

    Raises:
        RuntimeUnavailableError: If it does not end in time.
    """
    try:
        pidfd = os.pidfd_open(endpoint.pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        # One that was stopped by a signal obeys only once it goes on.
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
        has_ended = bool(select.select([pidfd], [], [], timeout_seconds)[0])
    finally:
        os.close(pidfd)
    if not has_ended:
        raise RuntimeUnavailableError(
            f"the local runtime (pid {endpoint.pid}) did not stop within {timeout_seconds:g} s",
            hint=f"kill -9 {endpoint.pid} ends it and every sandbox",
        )


def save_image(endpoint: DaemonEndpoint, sandbox_id: str, name: str) -> dict[str, Any] | None:
    """Stores a sandbox of a daemon as an image; returns its digest, size and number of layers.

    Returns None if the daemon does not have the sandbox.

    Raises:
        UsageError: If it cannot be stored.
        RuntimeUnavailableError: If the daemon does not answer.
    """
    request = json.dumps({"sandbox_id": sandbox_id, "name": name}).encode()
    for answer in _control(endpoint, _SAVE_METHOD, request):
        saved: dict[str, Any] = json.loads(answer)
        return saved
    return None


def write_changes(endpoint: DaemonEndpoint, sandbox_id: str, path: Path, most_bytes: int) -> str:
    """Writes what a sandbox has changed in its image to a new file, as a layer of an image: a tar archive.

    Returns:
        Why there is none, because of the sandbox; empty if there is one.

    Raises:
        UsageError: If the sandbox has ended, or the file cannot be written.
        RuntimeUnavailableError: If the daemon does not answer.
    """
    request = json.dumps({"sandbox_id": sandbox_id, "path": str(path), "most_bytes": most_bytes}).encode()
    for answer in _control(endpoint, _CHANGES_METHOD, request):
        return answer.decode()
    raise UsageError(f"there is no sandbox {sandbox_id}")


def run_step(endpoint: DaemonEndpoint, step: Step, on_output: Callable[[bytes], None]) -> StepResult:
    """Runs a program in a sandbox from an image, and stores the image with what it has changed.

    Raises:
        UsageError: If its sandbox cannot have what it asks for, or its files cannot be stored.
        RuntimeUnavailableError: If the daemon does not answer.
    """
    for answer in _control(endpoint, _STEP_METHOD, json.dumps(step.document()).encode()):
        if answer[:1] == RESULT:
            return StepResult(**json.loads(answer[1:]))
        on_output(answer[1:])
    raise RuntimeUnavailableError("the local runtime ended during a step of a build", hint="build again")


def _control(endpoint: DaemonEndpoint, method: str, request: bytes, seconds: float | None = None) -> Iterator[bytes]:
    # The answers to a call; none if it is about a sandbox that there is not.
    forks.begin_grpc()
    import grpc  # see `status_of`

    metadata = (("authorization", f"Bearer {endpoint.token}"),)
    target = endpoint.base_url.removeprefix("http://")
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target, options=options) as channel:
        try:
            if method == _STEP_METHOD:
                yield from channel.unary_stream(method, None, None)(request, metadata=metadata)
            else:
                yield channel.unary_unary(method, None, None)(request, metadata=metadata, timeout=seconds)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return
            if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION):
                raise UsageError(str(error.details())) from error
            raise RuntimeUnavailableError(
                f"the local runtime (pid {endpoint.pid}) does not answer: {error.code().name}: {error.details()}"
            ) from error


def connections_of(endpoint: DaemonEndpoint, tags: Collection[str], after: int = 0) -> tuple[list[dict[str, Any]], int]:
    """What sandboxes with all of these tags have done in the network, see `Gate.connections`.

    Raises:
        RuntimeUnavailableError: If the daemon does not answer.
    """
    request = json.dumps({"tags": [*tags], "after": after}).encode()
    [answer] = _control(endpoint, _CONNECTIONS_METHOD, request, _QUESTION_SECONDS)
    found, last = json.loads(answer)
    return found, int(last)


def reached_by(endpoint: DaemonEndpoint, sandbox_id: str, after: int = 0) -> tuple[list[str], int] | None:
    """Where programs of a sandbox have been connected to, see `Gate.reached`.

    Raises:
        RuntimeUnavailableError: If the daemon does not answer.
    """
    request = json.dumps({"sandbox_id": sandbox_id, "after": after}).encode()
    [answer] = _control(endpoint, _REACHED_METHOD, request, _QUESTION_SECONDS)
    found = json.loads(answer)
    return None if found is None else (found[0], int(found[1]))


def status(state_dir: Path, *, on_wait: Callable[[str], None] | None = None) -> RuntimeStatus:
    """What the daemon of this version says of itself, see `status_of`."""
    endpoint = find(state_dir)
    return RuntimeStatus(running=False) if endpoint is None else status_of(endpoint, on_wait=on_wait)


def status_of(
    endpoint: DaemonEndpoint, *, patience_seconds: float | None = None, on_wait: Callable[[str], None] | None = None
) -> RuntimeStatus:
    """What a daemon says of itself; `running` is false if it has ended.

    Raises:
        SilentDaemonError: If it lives and does not answer in this time.
        RuntimeUnavailableError: If it answers with an error.
    """
    forks.begin_grpc()
    import grpc  # only this call needs it, and it takes a while to load

    patience_seconds = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
    target = endpoint.base_url.removeprefix("http://")
    metadata = (("authorization", f"Bearer {endpoint.token}"),)
    directory = RuntimeDirectory(endpoint.state_dir, endpoint.name)
    signs = _Activity(endpoint.pid)
    begun = time.monotonic()
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary(_STATUS_METHOD, None, None)
        while True:
            left = begun + patience_seconds - time.monotonic()
            try:
                answer = json.loads(call(b"", metadata=metadata, timeout=max(min(_QUESTION_SECONDS, left), 0.1)))
                break
            except grpc.RpcError as error:
                # One that ends takes its files away first.
                if directory.find() != endpoint or _ends_soon(endpoint.pid):
                    return RuntimeStatus(running=False)
                if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise RuntimeUnavailableError(
                        f"the local runtime (pid {endpoint.pid}) does not answer: {error.code().name}",
                        hint=f"its log is {directory.log}",
                    ) from error
                silence, waited = signs.silence(), time.monotonic() - begun
                named = f"the local runtime (pid {endpoint.pid})"
                if waited >= patience_seconds:
                    raise SilentDaemonError(
                        f"{named} {silence}; it was waited for {waited:.0f} s",
                        hint=_HINTS[silence].format(pid=endpoint.pid),
                        pid=endpoint.pid,
                        is_wedged=silence is Silence.WEDGED,
                    ) from error
                if on_wait is not None:
                    why = Silence.STOPPED if silence is Silence.STOPPED else Silence.BUSY
                    on_wait(f"{named} {why}; waiting up to {patience_seconds:.0f} s for it")
                    on_wait = None
    known = {each.name for each in fields(RuntimeStatus)} - {"running", "pid", "base_url", "version"}
    # A daemon of another version may say more, or less.
    said = {name: value for name, value in answer.items() if name in known}
    said["images"] = tuple(said.get("images", ()))
    version = endpoint.version or __version__
    return RuntimeStatus(running=True, pid=endpoint.pid, base_url=endpoint.base_url, version=version, **said)


class _Activity:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        _, self._cpu_seconds = self._look()
        self._has_tried = False

    def silence(self) -> Silence:
        state, cpu_seconds = self._look()
        # One that was continued may not have had its turn since.
        self._has_tried |= state != "S" or cpu_seconds != self._cpu_seconds
        if state in "Tt":
            return Silence.STOPPED
        return Silence.BUSY if self._has_tried else Silence.WEDGED

    def _look(self) -> tuple[str, float]:
        try:
            stat = of_process(self._pid)
        except OSError:
            return "?", 0.0
        return stat.state, stat.cpu_seconds


def _ends_soon(pid: int) -> bool:
    # A daemon that was killed holds its lock until the kernel is done.
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], _ENDING_SECONDS)[0])
    finally:
        os.close(pidfd)


def serve(
    state_dir: Path,
    *,
    idle_timeout_seconds: float | None = limits.IDLE_TIMEOUT_SECONDS,
    max_sandboxes: int | None = None,
    announce: Callable[[DaemonEndpoint], None],
) -> None:
    """Be the daemon, in this process, until stopped or idle (None: never); if there is one already, announce that.

    Raises:
        RuntimeUnavailableError: If code cannot be isolated on this machine.
    """
    forks.begin_grpc()
    from sandrl.runtime.server.app import run

    run(
        RuntimeDirectory(state_dir),
        idle_timeout_seconds=idle_timeout_seconds,
        max_sandboxes=max_sandboxes,
        announce=announce,
    )
