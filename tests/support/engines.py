"""Engines of containers of one test session: real ones, each with all that it keeps in a directory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandrl.settings import RuntimeKind
from tests.support.programs import require_program

IMAGE = "python:3.11"

_PACKAGES = "python3,python-is-python3"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE_SECONDS = 60.0
# What is one directory of control groups of both versions to some machines is an error to crun.
_WITHOUT_UNIFIED = 'umount -l /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
_PODMAN_CONFIGURATION = """
[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
runtime = "crun"
"""


@contextmanager
def engine(kind: RuntimeKind, directory: Path) -> Iterator[str]:
    """The address of an engine, which has one image."""
    if os.getuid() != 0:
        pytest.skip("engines of a test run as root")
    socket, log = directory / "engine.sock", directory / "log"
    command, removal, variables = _docker(directory) if kind == RuntimeKind.DOCKER else _podman(directory)
    with log.open("wb") as output:
        # The monitor of a container that runs out of memory writes where it is.
        process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=directory, env={**os.environ, **variables}
        )
        try:
            ends_at = time.monotonic() + _PATIENCE_SECONDS
            while not socket.is_socket() or not _answers(socket):
                if process.poll() is not None or time.monotonic() > ends_at:
                    pytest.skip(f"{kind} does not start here: {log.read_text(errors='replace')[-300:]}")
                time.sleep(0.1)
            _import_image(socket, directory)
            yield f"unix://{socket}"
        finally:
            if removal:
                subprocess.run(removal, env={**os.environ, **variables}, check=False, capture_output=True)
            process.terminate()
            process.wait(_PATIENCE_SECONDS)
            _kill_monitors(directory)


def _docker(directory: Path) -> tuple[list[str], list[str], Mapping[str, str]]:
    state = [f"--{name}={directory / name}" for name in ("data-root", "exec-root", "pidfile")]
    network = ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    return [require_program("dockerd"), "-H", f"unix://{directory}/engine.sock", *state, *network], [], {}


def _podman(directory: Path) -> tuple[list[str], list[str], Mapping[str, str]]:
    (directory / "containers.conf").write_text(_PODMAN_CONFIGURATION, encoding="utf-8")
    state = [f"--root={directory}/root", f"--runroot={directory}/run", f"--tmpdir={directory}/tmp"]
    podman = [require_program("podman"), *state]
    service = [*podman, "system", "service", "--time", "0", f"unix://{directory}/engine.sock"]
    inside: Sequence[str] = [require_program("unshare"), "--mount", "sh", "-c", _WITHOUT_UNIFIED, "sh"]
    variables = {"CONTAINERS_CONF": str(directory / "containers.conf")}
    return [*inside, *service], [*inside, *podman, "rm", "--force", "--all"], variables


def _kill_monitors(directory: Path) -> None:
    # Podman's monitor of a program stays for five minutes.
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                os.kill(int(path.parent.name), signal.SIGKILL)


def _answers(socket: Path) -> bool:
    import docker

    client = docker.APIClient(f"unix://{socket}", timeout=_PATIENCE_SECONDS)
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False
    finally:
        client.close()


def _import_image(socket: Path, directory: Path) -> None:
    import docker

    archive = directory / "rootfs.tar"
    command = [require_program("mmdebstrap"), "--variant=minbase", f"--include={_PACKAGES}", "--quiet", "bookworm"]
    made = subprocess.run([*command, archive], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"mmdebstrap made no image: {made.stderr[-200:]}")
    client = docker.APIClient(f"unix://{socket}", timeout=_PATIENCE_SECONDS)
    repository, tag = IMAGE.split(":")
    with archive.open("rb") as content:
        client.import_image_from_data(content, repository=repository, changes=[f"ENV {_PATH}"])
    client.tag(repository, repository, tag)  # Podman has not kept one that is given above
    client.close()
    archive.unlink()
