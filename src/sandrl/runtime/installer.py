"""Puts Python packages from the user's package index into a directory, without running any code of a package.

Only wheels are installed: they are unpacked. To build a package from its source would run its code, with the network
that only this step has, so pip runs with a hook of the interpreter that refuses to start a program (a requirement with
an address is built even with `--only-binary`), and uv has an option for it. Index, proxy, certificates and credentials
are those of the user's pip or uv: both read their own files and variables. The tool is the one that manages the
environment of sandrl, because its settings are the ones with which sandrl itself was installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from sandrl.errors import SandrlError, ServiceError, UsageError
from sandrl.installation import Kind, installation

_PIP = """
import sys
def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"):
        program = str(arguments[0]) if arguments else ""
        if not program.startswith(("/lib/ld-musl", "/lib/libc.musl")) and "keyring" not in program:
            raise PermissionError("sandrl: a package would be built")
sys.addaudithook(refuse)
sys.path += filter(None, [sys.argv.pop(1)])
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip, which may start only the C library of Alpine, to learn its version, and the user's `keyring`."""

_BUILT = "sandrl: a package would be built"
_FILE = re.compile(r"\b(?:https?|file):/\S*/([^/\s#?]+\.(?:whl|tar\.gz|zip|tar\.bz2|tgz))")
_FAILED_FETCH = re.compile(r"Could not fetch URL (\S+): (.*)")
_REASON = re.compile(r"\[Errno [^\]]+\] ([^'\")]+)")
_NETWORK = ("Failed to fetch", "error sending request", "Request failed", "Could not connect")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_INDEX = "check the name, or set the index that has it (PIP_INDEX_URL, pip.conf; UV_DEFAULT_INDEX for uv)"
_SOURCE = "choose another version, or build a wheel of it (pip wheel) and set PIP_FIND_LINKS to its directory"


class NotInstalledError(Exception):
    """Packages cannot be installed; the canonical name of the culprit among them is empty if it is not known."""

    def __init__(self, error: SandrlError, culprit: str = "") -> None:
        super().__init__(error.message)
        self.error = error
        self.culprit = culprit


def install(requirements: Sequence[Requirement], target: Path) -> None:
    """Installs packages with what they require into an empty directory.

    Raises:
        NotInstalledError: If that is not possible.
    """
    words = [str(requirement) for requirement in requirements]
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        pip = _pip()
        uv = shutil.which("uv")
        if uv is not None and (pip is None or installation().kind in (Kind.UV_TOOL, Kind.UVX, Kind.UV_PIP)):
            options = ["--no-build", "--link-mode", "copy", "--python", sys.executable]
            options += ["--no-progress", "--color", "never", "--quiet"]
            command = [uv, "pip", "install", "--target", str(target), *options, *words]
            explain = _uv_failure
        elif pip is not None:
            options = ["--only-binary", ":all:", "--no-user", "--no-compile", "--no-input", "--progress-bar", "off"]
            options += ["--disable-pip-version-check", "--log", str(log)]
            # `-P`: relative paths in the user's settings need the working directory, whose modules are not pip's.
            command = [sys.executable, "-P", "-c", _PIP, pip, "install", "--target", str(target), *options, *words]
            explain = _pip_failure
        else:
            error = UsageError(
                "packages need pip or uv, and neither was found", hint="install uv", fields=("packages",)
            )
            raise NotInstalledError(error)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            told = log.read_text("utf-8", "replace") if log.exists() else ""
            raise explain(
                requirements, _PASSWORD.sub("***@", f"{done.stdout}\n{done.stderr}"), _PASSWORD.sub("***@", told)
            )


def _pip() -> str | None:
    import importlib.util

    if importlib.util.find_spec("pip") is not None:
        return ""
    places = (Path(sysconfig.get_path("stdlib"), "ensurepip", "_bundled"), Path("/usr/share/python-wheels"))
    wheels = [str(wheel) for place in places for wheel in sorted(place.glob("pip-*.whl"))]
    return wheels[-1] if wheels else None


def _pip_failure(requirements: Sequence[Requirement], output: str, log: str) -> NotInstalledError:
    if _BUILT in log or _BUILT in output:
        building = re.findall(r"(?:Collecting|Processing) (\S+)", log)
        return _without_wheel(building[-1] if building else ", ".join(map(str, requirements)))
    missing = re.search(r"No matching distribution found for (.+)", output)
    if missing is None:
        return _failure(_last_error(output), requirements)
    wanted = missing[1].split(" (from ")[0].strip()
    fetches = [found for found in _FAILED_FETCH.findall(log) if "404 Client Error" not in found[1]]
    requirement = Requirement(wanted)
    name = canonicalize_name(requirement.name)
    known = _versions(name, log)
    offered = re.search(r"\(from versions: ([^)]*)\)", output)
    versions = [] if offered is None else [text.strip() for text in offered[1].split(",") if text.strip() != "none"]
    if fetches and not versions:
        address, why = fetches[-1]
        reason = _REASON.search(why)
        return _unreachable(address, reason[1] if reason else why.removesuffix(" - skipping")[:200])
    if any(requirement.specifier.contains(version, prereleases=True) for version in known - {*map(Version, versions)}):
        return _without_wheel(wanted)
    return _missing(requirement, f"; the newest is {versions[-1]}") if versions else _missing(requirement)


def _versions(name: str, log: str) -> set[Version]:
    found = set()
    for file in _FILE.findall(log):
        try:
            parts = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
        except ValueError:
            continue
        if parts[0] == name:
            found.add(parts[1])
    return found


def _uv_failure(requirements: Sequence[Requirement], output: str, log: str) -> NotInstalledError:
    del log
    text = " ".join(re.sub(r"^\W*(?:error:|cause:|Caused by:)\s*", "", line.strip()) for line in output.splitlines())
    address = re.search(r"https?://[^\s`)]+", text)
    if any(word in text for word in _NETWORK):
        return _unreachable("" if address is None else address[0], text.rpartition(": ")[2].strip())
    culprit = next((each for each in requirements if re.search(rf"\b{re.escape(each.name)}\b", text)), None)
    if culprit is not None:
        if any(words in text for words in ("no usable wheels", "no wheels", "uilding source")):
            return _without_wheel(str(culprit))
        if "was not found" in text:
            return _missing(culprit)
        if f"there is no version of {culprit}" in text:
            return _missing(culprit, "")
    return _failure(text.partition(" hint:")[0].strip()[:300], requirements, "" if culprit is None else culprit.name)


def _missing(requirement: Requirement, newest: str | None = None) -> NotInstalledError:
    name = str(requirement)
    what = f"no package {name!r}" if newest is None else f"no {name!r} for Python {_python()}{newest}"
    hint = _INDEX if newest is None else "choose another version"
    error = UsageError(f"packages: the package index has {what}", hint=hint, fields=("packages",))
    return NotInstalledError(error, canonicalize_name(requirement.name))


def _without_wheel(wanted: str) -> NotInstalledError:
    where = f"Python {_python()} on {sysconfig.get_platform()}"
    message = f"packages: {wanted!r} has no wheel for {where}, and packages are not built from source"
    error = UsageError(message, hint=_SOURCE, fields=("packages",))
    name = re.match(r"[\w.-]+", wanted)
    return NotInstalledError(error, canonicalize_name(name[0]) if name else "")


def _unreachable(address: str, reason: str) -> NotInstalledError:
    host = re.sub(r"^\w+://([^/]*).*", r"\1", address) or "the package index"
    message = f"packages: {host} cannot be reached ({reason}), and these packages were not installed before"
    hint = "check network, proxy and index (pip.conf, PIP_INDEX_URL, HTTPS_PROXY); later runs need no network"
    return NotInstalledError(ServiceError(message, hint=hint, fields=("packages",)))


def _failure(reason: str, requirements: Sequence[Requirement], culprit: str = "") -> NotInstalledError:
    names = ", ".join(map(str, requirements))
    message = f"packages: {names} cannot be installed: {reason or 'the installer failed'}"
    return NotInstalledError(UsageError(message, hint="change the packages", fields=("packages",)), culprit)


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    conflict = next((line for line in told if line.startswith("Cannot install")), "")
    return (conflict or (told or lines or [""])[-1])[:300]


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
