"""Checks of this machine: GPU, tools of languages, state directory, open files, and a port on 127.0.0.1.

The GPU is read from its driver and not from torch, which takes seconds to load. Each tool is run to read its version,
because a broken installation can have the file but does not run; all at once, because some start a virtual machine.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sandrl.answers.builds import SEARCHED
from sandrl.doctor.report import Check, State
from sandrl.errors import SandrlError
from sandrl.files import check_descriptors
from sandrl.problems.languages import LANGUAGES, PYTHON, Language
from sandrl.runtime.limits import check_open_files
from sandrl.settings import can_be_private

_QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
_TIMEOUT_SECONDS = 4.0
_VERSION_SECONDS = 10.0
_VERSION = re.compile(r"\d+(\.\d+)+")
_DRIVER = Path("/proc/driver/nvidia/gpus")


def gpu_check(driver: Path = _DRIVER) -> Check:
    """The GPUs of this machine.

    Args:
        driver: Where the kernel driver lists them.
    """
    found = _asked() or _listed(driver)
    if not found:
        return Check(
            "GPU", State.ABSENT, "not found; trainers that require one end with an error, the others use the processor"
        )
    kinds = {name: found.count(name) for name in found}
    return Check("GPU", State.OK, "; ".join(f"{count} × {name}" for name, count in kinds.items()))


def languages_check() -> Check:
    """Each language with the version of its tools, and the Debian packages of those that are missing."""
    languages = [language for language in LANGUAGES if language.name != PYTHON]
    with ThreadPoolExecutor(len(languages)) as pool:
        versions = dict(zip(languages, pool.map(_version, languages), strict=True))
    there = [f"{language.name} {version}" for language, version in versions.items() if version]
    missing = [language for language, version in versions.items() if not version]
    packages = " ".join(dict.fromkeys(name for language in missing for name in language.forms[-1].packages))
    detail = ", ".join(["python", *there])
    if not missing:
        return Check("languages", State.OK, detail)
    detail += f"; no tools in /usr for: {', '.join(language.name for language in missing)}"
    return Check("languages", State.OK if there else State.ABSENT, detail, f"apt-get install {packages}")


def state_check(directory: Path) -> Check:
    complaint = can_be_private(directory)
    if complaint is None:
        return Check("state directory", State.OK, str(directory))
    return Check(
        "state directory",
        State.FAILED,
        f"{directory}: {complaint}",
        "set SANDRL_STATE_DIR to a directory that belongs to you",
    )


def open_files_check() -> Check:
    try:
        check_descriptors()
        check_open_files()
    except SandrlError as error:
        return Check("open files", State.FAILED, error.message, error.hint)
    return Check("open files", State.OK, "the limit is high enough for sandboxes")


def port_check() -> Check:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), _TIMEOUT_SECONDS).close()
    except OSError as error:
        detail = f"a process cannot connect to another one: {error.strerror or error}"
        return Check("port on 127.0.0.1", State.FAILED, detail, "ip link set lo up, or use `runtime` daemonless")
    return Check("port on 127.0.0.1", State.OK, "a process can open a port, and another process can connect to it")


def _asked() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *_QUERY],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []  # a driver that is broken or of another version: the kernel may still say what there is
    return [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]


def _listed(driver: Path) -> list[str]:
    names = []
    for path in sorted(driver.glob("*/information")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        names.append(" ".join(fields.get("Model", "unnamed GPU").split()))
    return names


def _version(language: Language) -> str:
    usual = language.forms[-1]
    commands = [command[0] for command in (usual.compile, usual.run, language.version) if command]
    if any(not name.startswith(".") and shutil.which(name, path=SEARCHED) is None for name in commands):
        return ""
    try:
        said = subprocess.run(
            language.version,
            env={"PATH": SEARCHED, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search((said.stdout + said.stderr).decode("utf-8", "replace"))
    return found.group() if found is not None else ""
