"""Checks whether this kernel isolates: every property of the local runtime, tried in sandboxes booted for it.

Nothing is derived from versions or settings, and no daemon is started or called. The launcher that the daemon would
choose boots sandboxes in this process, code in them tries to get out, and what it reached is compared with what it may
reach. All files lie in a temporary directory, which is deleted afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from sandrl.errors import RuntimeUnavailableError
from sandrl.runtime.guest import probe
from sandrl.runtime.guest.watchdog import Quotas
from sandrl.runtime.host.choice import Choice, choose_launcher, setting
from sandrl.runtime.host.files import FileError, write_file
from sandrl.runtime.host.images import own_image
from sandrl.runtime.host.launcher import BootRequest, LaunchError
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.network import Destination, Network
from sandrl.settings import NetworkMode

_GREETING = b"g"
_GREETED = """
import socket, sys

def greeted(address):
    try:
        with socket.create_connection((address, int(sys.argv[1])), 5) as client:
            return client.recv(1) == b"g"
    except OSError:
        return False

def sent():
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9))
    except OSError:
        return False
    return True

print(greeted("127.0.0.1"), greeted("198.18.0.1"), sent())
"""
_PROBE = Path(probe.__file__).read_text(encoding="utf-8")
_TIMEOUT_SECONDS = 15.0
_MIB = 1 << 20
_MEMORY_BYTES = 128 * _MIB
_DISK_BYTES = 8 * _MIB
_PROCESSES = 32
# More than any sandbox may have, and a small part of what this user may have.
_GREED = {"shared memory": 3 * _MEMORY_BYTES, "pipes": 200, "epoll watches": 12_000}
_PIPE_BYTES = 1 << 16
_SYSTEM_FILES = "/usr", "/usr/lib", "/usr/bin/env"
_NO_CAPABILITY = "0000000000000000"
_LAYER = "layer"
_NOT_TRIED = "could not be tried"

# Who runs the check is told of failures in its result, and not by the last-resort handler on standard error.
logging.getLogger("sandrl.runtime").addHandler(logging.NullHandler())

Facts: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Property:
    """One thing a sandbox promises."""

    name: str
    holds: bool
    detail: str


Attempt: TypeAlias = Callable[[Choice, Path], Awaitable[Sequence[Property]]]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """How this machine isolates, and whether it does.

    Attributes:
        cells_refusal: Why a worker sandbox cannot make cells; empty if it can, None if that was not tried.
        images_refusal: Why no sandbox can start from an image; empty if one can.
        network_refusal: Why no sandbox can have a network; empty if one can.
    """

    launcher: str
    detail: str
    image: str
    properties: tuple[Property, ...]
    cells_refusal: str | None = None
    images_refusal: str = ""
    network_refusal: str = ""


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """A worker program that tries one cell and ends.

    Attributes:
        refusal_in: Why it could make no cell, by its output; empty if it could.
    """

    argv: tuple[str, ...]
    stdin: bytes
    refusal_in: Callable[[bytes], str]


def check_isolation(worker: WorkerTrial | None = None) -> SelfCheck:
    """Boots sandboxes and tries to get out of them, and to make a cell if a worker is given; takes a second or two.

    Raises:
        RuntimeUnavailableError: If no sandbox can be booted here, with the way out.
    """
    try:
        with (
            tempfile.TemporaryDirectory(prefix="sandrl-doctor-") as folder,
            Path(folder, "stderr").open("w", encoding="utf-8") as complaints,
            contextlib.redirect_stderr(complaints),
        ):
            return asyncio.run(_check(Path(folder), worker))
    except OSError as error:
        raise RuntimeUnavailableError(
            f"a temporary directory cannot be used: {error.strerror}",
            hint="set TMPDIR to a directory that belongs to you",
        ) from error


async def _check(folder: Path, worker: WorkerTrial | None) -> SelfCheck:
    overlays = folder / "overlays"
    overlays.mkdir(mode=0o755)
    layers = folder / "layers"
    (layers / _LAYER / "etc").mkdir(parents=True)
    choice = await choose_launcher([own_image()], folder, overlays, layers)
    try:
        groups = await asyncio.gather(*(_tried(name, choice, folder) for name in _ATTEMPTS))
        for number, (name, group) in enumerate(zip(_ATTEMPTS, groups, strict=True)):
            if group[0].detail.startswith(_NOT_TRIED):
                # A busy machine, or what the other attempts took meanwhile: alone, the attempt may succeed.
                groups[number] = await _tried(name, choice, folder)
        refusal = None if worker is None else await _cells_refusal(choice, worker)
        images_refusal = await _images_refusal(choice)
        network_refusal = await _network_refusal(choice)
    finally:
        await choice.close()
    properties = tuple(each for group in groups for each in group)
    return SelfCheck(
        choice.launcher.name,
        choice.detail,
        choice.images[0].reference,
        properties,
        refusal,
        images_refusal,
        network_refusal,
    )


async def _cells_refusal(choice: Choice, worker: WorkerTrial) -> str:
    request = BootRequest(choice.images[0].name, cells=1)
    try:
        output = await asyncio.wait_for(_output(choice, request, list(worker.argv), worker.stdin), _TIMEOUT_SECONDS)
    except (LaunchError, StartError, SandboxGoneError, TimeoutError) as error:
        return str(error) or type(error).__name__
    return worker.refusal_in(output)


async def _images_refusal(choice: Choice) -> str:
    # Whether a sandbox starts from a layer, and a directory of that layer can be written to.
    try:
        sandbox = await choice.boot(BootRequest("", layers=(_LAYER,)))
        try:
            await write_file(sandbox, "/etc/written", b"by user 0")
        finally:
            await sandbox.destroy()
    except (LaunchError, FileError, SandboxGoneError) as error:
        return str(error)
    return ""


async def _network_refusal(choice: Choice) -> str:
    # Whether a sandbox reaches a port of this machine that it may reach, by the gate, and nothing else.
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_GREETING)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        network = Network(NetworkMode.ALLOWLIST, private=(Destination("127.0.0.1/32", port, port),))
        request = BootRequest(choice.images[0].name, network=network)
        try:
            argv = ["python", "-c", _GREETED, str(port)]
            output = await asyncio.wait_for(_output(choice, request, argv), _TIMEOUT_SECONDS)
        except (LaunchError, StartError, SandboxGoneError, TimeoutError) as error:
            return str(error) or type(error).__name__
    return (
        "" if output.strip() == b"True False False" else f"a test program printed {output.decode(errors='replace')!r}"
    )


async def _tried(name: str, choice: Choice, folder: Path) -> Sequence[Property]:
    try:
        return await asyncio.wait_for(_ATTEMPTS[name](choice, folder), _TIMEOUT_SECONDS)
    except (LaunchError, StartError, SandboxGoneError, TimeoutError, ValueError, KeyError) as error:
        # What cannot be tried is not known to hold.
        return [Property(name, False, f"{_NOT_TRIED}: {str(error) or type(error).__name__}")]


async def _reach(choice: Choice, folder: Path) -> Sequence[Property]:
    secret = folder / "secret"
    secret.write_text("of the host", encoding="utf-8")
    hidden = [str(secret), str(folder), "/var/lib", "/etc/shadow"]
    with contextlib.suppress(OSError, RuntimeError):
        # What is in the home: the directory itself may have a namesake inside.
        hidden += [str(path) for path in islice(Path.home().iterdir(), 3) if Path.home() != Path("/")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        facts = await _run(choice, BootRequest(choice.images[0].name), "reach", ":".join(hidden), str(port))
    return list(_judge_reach(facts))


def _judge_reach(facts: Facts) -> Iterator[Property]:
    shared = [name for name, link in facts["namespaces"].items() if link == os.readlink(f"/proc/self/ns/{name}")]
    yield _property("own namespaces", shared, ", ".join(facts["namespaces"]), "shared with the host")
    yield _property("no host files", facts["visible"], "home, state and secrets do not exist inside", "visible")
    yield _property("read-only system", facts["written"], "/usr, /etc, /lib, /dev cannot be written", "writable")
    yield _property("own /tmp and /workspace", facts["unwritable"], "can be written", "not writable")
    pids = facts["pids"]
    others = [] if pids[:1] == [1] and len(pids) <= 3 else [f"{len(pids)} processes are visible"]
    others += [] if facts["process_1"] else ["process 1 can be read"]
    yield _property("no other processes", others, f"{len(pids)} inside, process 1 cannot be read")
    ways = [name for name in facts["interfaces"] if name != "lo"]
    ways += [name for name, key in (("outside", "outside"), ("the host's ports", "host_port")) if facts[key] is None]
    yield _property("no network", ways, f"only loopback; outside: {facts['outside']}", "reachable")
    rights = ["capabilities"] if set(facts["capabilities"]) != {_NO_CAPABILITY} else []
    rights += [] if facts["no_new_privs"] == "1" else ["new privileges"]
    rights += ["user 0"] if facts["uid"] == 0 else []
    yield _property("no privileges", rights, f"user {facts['uid']}, no capability, no_new_privs", "there")
    calls = [f"{name} is allowed" for name, refusal in facts["calls"].items() if refusal is None]
    calls += [] if facts["seccomp"] == "2" else ["there is no seccomp filter"]
    yield _property("refused system calls", calls, ", ".join(facts["calls"]))
    leaked = sorted(set(facts["environment"]) - {"PATH", "LD_LIBRARY_PATH", "LC_CTYPE"})
    yield _property("no host environment", leaked, "no variable of this process is inside", "inside")


async def _memory(choice: Choice, _folder: Path) -> Sequence[Property]:
    request = BootRequest(choice.images[0].name, memory_bytes=_MEMORY_BYTES)
    facts = await _run(choice, request, "memory", str(_MEMORY_BYTES))
    over = ["one process got more"] if facts["alone"] else []
    over += [] if facts["killed"] else ["several processes got more together"]
    detail = f"limit {_MEMORY_BYTES // _MIB} MiB: one process, and several processes together, were killed"
    return [_property("memory limit", over, detail)]


async def _processes(choice: Choice, _folder: Path) -> Sequence[Property]:
    facts = await _run(choice, BootRequest(choice.images[0].name, processes=_PROCESSES), "processes")
    holds = facts["refusal"] == "EAGAIN" and facts["started"] < _PROCESSES
    return [Property("process limit", holds, f"limit {_PROCESSES}: {facts['started']} more started")]


async def _disk(choice: Choice, _folder: Path) -> Sequence[Property]:
    facts = await _run(choice, BootRequest(choice.images[0].name, disk_bytes=_DISK_BYTES), "disk")
    holds = facts["refusal"] == "ENOSPC" and facts["written"] <= _DISK_BYTES
    detail = f"limit {_DISK_BYTES // _MIB} MiB: {facts['written'] // _MIB} MiB written"
    return [Property("disk limit", holds, detail)]


async def _shared_resources(choice: Choice, _folder: Path) -> Sequence[Property]:
    request = BootRequest(choice.images[0].name, memory_bytes=_MEMORY_BYTES, disk_bytes=_DISK_BYTES)
    greedy = {what: asyncio.ensure_future(_is_stopped(choice, request, what, most)) for what, most in _GREED.items()}
    try:
        other = await _run(choice, request, "little")
        quota = Quotas().exhausted()
        stopped = {what: await outcome for what, outcome in greedy.items()}
    finally:
        for outcome in greedy.values():
            outcome.cancel()
    disturbed = [] if quota is None else [f"{quota} of this user"]
    if other["refusal"] is not None or other["written"] != _PIPE_BYTES:
        disturbed.append("another sandbox")
    kept = [what for what, was_stopped in stopped.items() if not was_stopped]
    well = "another sandbox and this process worked at the same time"
    return [
        _property(
            "limits of what is shared", kept, f"{', '.join(_GREED)}: programs that took more were killed", "kept"
        ),
        _property("undisturbed sandboxes", disturbed, well, "disturbed"),
        Property("accounting", True, _accounting(choice)),
    ]


async def _is_stopped(choice: Choice, request: BootRequest, what: str, amount: int) -> bool:
    try:
        facts = await _run(choice, request, "take", what.rpartition(" ")[2], str(amount))
    except ValueError:  # it was killed before it could answer
        return True
    return "kept" not in facts


def _accounting(choice: Choice) -> str:
    if choice.groups is not None:
        return f"{choice.groups_detail} counts memory, including kernel memory"
    return (
        f"{choice.groups_detail}: memory that is not resident is estimated 20 times a second, so that a sandbox may "
        "hold about twice its limit for a moment"
    )


async def _locks(choice: Choice, _folder: Path) -> Sequence[Property]:
    with contextlib.ExitStack() as held:
        for path in _SYSTEM_FILES:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            with contextlib.suppress(BlockingIOError):  # another process has locked it
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        facts = await _run(choice, BootRequest(choice.images[0].name), "locks", ":".join(_SYSTEM_FILES))
    wrong = [f"locks on {path} are visible to other sandboxes and the host" for path in facts["locked"]]
    wrong += [] if facts["own"] is None else [f"a file of its own cannot be locked ({facts['own']})"]
    wrong += [] if facts["watch"] else ["directories can be watched"]
    detail = "locks on system files are its own, its own files can be locked, and no directory can be watched"
    return [_property("own locks", wrong, detail)]


async def _survivors(choice: Choice, _folder: Path) -> Sequence[Property]:
    # A program that left its parent and its session dies with its sandbox at the latest.
    marker = f"3600.{secrets.randbelow(10**9):09}"
    sandbox = await choice.boot(BootRequest(choice.images[0].name))
    try:
        script = f"setsid setsid sleep {marker} </dev/null >/dev/null 2>&1 &"
        await sandbox.run(["sh", "-c", script], choice.images[0])
        appeared = await _until(lambda: _is_running(marker))
    finally:
        await sandbox.destroy()
    if not appeared:
        return [Property("no survivors", False, f"{_NOT_TRIED}: the test program did not run")]
    gone = await _until(lambda: not _is_running(marker))
    return [Property("no survivors", gone, "a program that left its session died with its sandbox")]


async def _host_users(choice: Choice, _folder: Path) -> Sequence[Property]:
    request = BootRequest(choice.images[0].name)
    sandboxes = [await choice.boot(request) for _ in range(2)]
    try:
        found = [_host_uid(sandbox) for sandbox in sandboxes]
    finally:
        for sandbox in sandboxes:
            await sandbox.destroy()
    users = choice.launcher.users
    if users.window is not None:
        return [Property("host uids", found[0] != found[1], users.detail)]
    bounds = ", ".join(f"{what} ({setting(name) or '?'} in all)" for what, name in _COUNTED_PER_USER.items())
    detail = f"{users.detail}, and what is counted per user: {bounds}"
    return [Property("host uids", set(found) == {users.shared_uid}, detail)]


def _host_uid(sandbox: HostSandbox) -> int:
    status = Path(f"/proc/{sandbox.pid}/status").read_text(encoding="utf-8", errors="replace")
    return int(status.partition("\nUid:")[2].split()[0])


_COUNTED_PER_USER = {
    "epoll watches": "fs/epoll/max_user_watches",
    "pages of large pipes": "fs/pipe-user-pages-soft",
    "inotify instances": "fs/inotify/max_user_instances",
}

_ATTEMPTS: dict[str, Attempt] = {
    "what is in reach": _reach,
    "memory limit": _memory,
    "process limit": _processes,
    "disk limit": _disk,
    "limits of what is shared": _shared_resources,
    "own locks": _locks,
    "no survivors": _survivors,
    "host uids": _host_users,
}


async def _output(choice: Choice, request: BootRequest, argv: list[str], stdin: bytes = b"") -> bytes:
    sandbox = await choice.boot(request)
    try:
        return (await sandbox.run(argv, choice.images[0], stdin))[1]
    finally:
        await sandbox.destroy()


async def _run(choice: Choice, request: BootRequest, *words: str) -> Facts:
    output = await _output(choice, request, ["python", "-c", _PROBE, *words])
    try:
        facts = json.loads(output)
    except ValueError:
        raise ValueError(" ".join(output.decode(errors="replace").split())[-200:] or "no answer") from None
    if not isinstance(facts, dict):
        raise ValueError("the answer is not an object")
    return facts


def _property(name: str, exceptions: Sequence[str], detail: str, complaint: str = "") -> Property:
    return Property(name, not exceptions, f"{', '.join(exceptions)} {complaint}".rstrip() if exceptions else detail)


async def _until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def _is_running(marker: str) -> bool:
    needle = f"sleep\0{marker}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == needle:
                return True
    return False
