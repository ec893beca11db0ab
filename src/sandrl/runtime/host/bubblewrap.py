"""The fallback launcher: each sandbox started by `bwrap`, where only that program may make namespaces.

Ubuntu from 23.10 on lets no unprivileged program make a useful user namespace except those with a profile, and
bubblewrap has one. A sandbox costs an interpreter start more here, because the agent is executed, not forked.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandrl.runtime.guest import rootfs, volumes
from sandrl.runtime.guest.processes import ProcessLimits
from sandrl.runtime.host.images import Image
from sandrl.runtime.host.launcher import BootRequest, Launcher, LaunchError, RefusedLaunchError
from sandrl.runtime.host.users import HostUsers

_GUEST_SOURCES = Path(__file__).resolve().parents[1] / "guest"
_AGENT_HOME = "/run/sandrl"
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from sandrl.runtime.guest import executed; executed.main(sys.argv[2:])"
)
_DEVICE_BYTES = 1 << 20


class BubblewrapLauncher(Launcher):
    """Starts sandboxes with the `bwrap` on PATH, which maps one id: only a root daemon can give each its own."""

    name = "bubblewrap"

    def __init__(self, images: Sequence[Image], overlays: Path, users: HostUsers) -> None:
        super().__init__(users)
        self._images = {image.name: image for image in images}
        self._overlays = overlays
        self._program = shutil.which("bwrap") or ""
        self._running: list[subprocess.Popen[bytes]] = []

    async def start(self) -> None:
        if not self._program:
            raise LaunchError("bwrap is not installed")

    async def _launch(self, request: BootRequest, agent_end: socket.socket, block: int) -> int:
        if any(mount.read_only for mount in request.mounts):
            raise RefusedLaunchError("bubblewrap cannot show a volume read-only", "volume_mounts.read_only")
        if request.network is not None:
            raise RefusedLaunchError(
                "bubblewrap gives sandboxes no network: this machine allows only it to isolate", "network"
            )
        if request.layers is not None:
            raise RefusedLaunchError(
                "bubblewrap starts no sandboxes from images: this machine allows only it to isolate", "image"
            )
        self._running = [process for process in self._running if process.poll() is None]
        descriptor = agent_end.fileno()
        limits = {name: getattr(request, name) for name in ProcessLimits.__slots__ if name != "cells"}
        image = self._images[request.image]
        interpreter = f"/usr/local/bin/python{image.name}" if image.prefix != "/usr" else image.executable
        agent = [interpreter, "-I", "-S", "-c", _BOOTSTRAP, _AGENT_HOME, str(descriptor), json.dumps(limits)]
        uid = self.users.host_uid(block) if os.getuid() == 0 else None
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - its start is what the caller waits for
                [self._program, *self._arguments(request, image), "--", *agent],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sys.stderr.fileno(),
                cwd="/",
                env={"PATH": os.defpath},
                pass_fds=(descriptor,),
                user=uid,
                group=uid,
                extra_groups=None if uid is None else [],
            )
        except OSError as error:
            raise LaunchError(f"bwrap: {error.strerror}") from error
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError as error:
            # Its host users are given back.
            process.kill()
            process.wait()
            raise LaunchError(f"bwrap: {error.strerror}") from error
        self._running.append(process)
        return pidfd

    @property
    def _shows_prebuilt(self) -> bool:
        # Whether sandboxes can be shown what was built for all of them: `bwrap` looks for it as the sandbox's user.
        is_other_user = os.getuid() == 0
        return not is_other_user or all(parent.stat().st_mode & stat.S_IXOTH for parent in self._overlays.parents)

    def _arguments(self, request: BootRequest, image: Image) -> Iterator[str]:
        yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--as-pid-1")
        yield from ("--uid", str(rootfs.USER_ID), "--gid", str(rootfs.USER_ID), "--hostname", rootfs.HOSTNAME)
        yield from ("--cap-drop", "ALL", "--clearenv")
        for name, value in image.environment.items():
            yield from ("--setenv", name, value)
        yield from _part("/usr", "/usr")
        for name in rootfs.TOP_LEVEL:
            if os.path.islink(f"/{name}"):
                yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
            elif os.path.isdir(f"/{name}"):
                yield from _part(f"/{name}", f"/{name}")
        yield from _masks("/usr/lib", "/usr/lib")
        if image.prefix == "/usr":
            yield from ("--tmpfs", "/usr/local")
            for local in ("/usr/local", rootfs.place_of_part("/usr/local")):
                yield from ("--dir", f"{local}/lib/python{image.name}/dist-packages")
                for alias in ("python", "python3"):
                    yield from ("--symlink", image.executable, f"{local}/bin/{alias}")
        else:
            yield from _part(image.prefix, "/usr/local")
            yield from _masks(f"{image.prefix}/lib", "/usr/local/lib")
        if request.overlay is not None:
            kind = "dist-packages" if image.prefix == "/usr" else "site-packages"
            yield from _part(str(self._overlays / request.overlay), f"/usr/local/lib/python{image.name}/{kind}")
        if image.prefix == "/usr":
            yield from ("--remount-ro", "/usr/local")
        yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/sys", "--dir", "/opt", "--dir", "/run")
        # It shows locks of others.
        yield from ("--ro-bind", "/dev/null", "/proc/locks")
        if self._shows_prebuilt and (self._overlays / rootfs.PREBUILT).is_dir():
            yield from _part(str(self._overlays / rootfs.PREBUILT), "/opt")
        for name in rootfs.etc_from_host():
            yield from ("--ro-bind-try", os.path.realpath(f"/etc/{name}"), f"/etc/{name}")
        yield from self._writable(request)
        for library, path in image.libraries:
            yield from ("--ro-bind", path, f"{rootfs.LIBRARIES}/{library}")
        yield from ("--ro-bind", str(_GUEST_SOURCES), f"{_AGENT_HOME}/sandrl/runtime/guest")
        yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", rootfs.WORKING_DIRECTORY)

    def _writable(self, request: BootRequest) -> Iterator[str]:
        # One sized tmpfs holds all that is writable, so that one limit covers it; the rest are links into it.
        yield from ("--perms", "0755", "--size", str(request.disk_bytes), "--tmpfs", rootfs.WRITABLE_HOME)
        shown = {mount.path: f"{volumes.HOME}/{mount.volume}/{mount.sub_path}" for mount in request.mounts}
        for path, place in shown.items():
            yield from ("--dir", f"{rootfs.WRITABLE_HOME}{place}", "--symlink", f"{rootfs.WRITABLE_HOME}{place}", path)
        for name in rootfs.WRITABLE:
            if f"/{name}" in shown:
                continue
            yield from ("--perms", "1777" if name.endswith("tmp") else "0755")
            yield from ("--dir", f"{rootfs.WRITABLE_HOME}/{name}")
            yield from ("--symlink", f"{rootfs.WRITABLE_HOME}/{name}", f"/{name}")
        for path in request.directories:
            volume = next((mount for mount in shown if f"{path}/".startswith(f"{mount}/")), None)
            if volume is not None:
                yield from ("--dir", f"{rootfs.WRITABLE_HOME}{shown[volume]}{path.removeprefix(volume)}")
            elif not path.startswith(tuple(f"/{name}" for name in rootfs.WRITABLE)):
                place = f"{rootfs.WRITABLE_HOME}{path}"
                yield from ("--dir", place, "--symlink", place, path)
        yield from ("--perms", "1777", "--size", str(_DEVICE_BYTES), "--tmpfs", "/dev/shm")

    async def close(self) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
        self._running.clear()
        await super().close()


def _part(source: str, place: str) -> Iterator[str]:
    # Once more, so that the agent can show it with inodes of the sandbox's own.
    yield from ("--ro-bind", source, place, "--ro-bind", source, rootfs.place_of_part(place))


def _masks(host_library: str, library: str) -> Iterator[str]:
    for path in sorted(Path(host_library).glob("python3*/*-packages")):
        if path.name in ("site-packages", "dist-packages"):
            target = f"{library}/{path.parent.name}/{path.name}"
            yield from ("--tmpfs", target, "--remount-ro", target, "--dir", rootfs.place_of_part(target))
