"""The credentials of registries, from the files and helpers of Docker and Podman.

A secret goes from its file, or from a helper's output, into a header of a request to its registry. It is in no
message, representation or command line.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandrl.files import read_regular

_MOST_BYTES = 4 << 20
_HELPER_SECONDS = 60.0
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_FOUND = b"credentials not found"
# A helper that gives a token instead of a password says so by this name.
_TOKEN_USER = "<token>"
# The names that Docker and Podman give to Docker Hub.
_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HUB_SERVERS = ("https://index.docker.io/v1/", "docker.io")


@dataclass(frozen=True, slots=True)
class Credential:
    """What authenticates a user with a registry.

    Attributes:
        source: The file or the helper that has it.
        identity_token: Exchanged for an access token instead of user and password; empty if there is none.
    """

    source: str
    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of a header `Authorization`."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True, slots=True)
class Found:
    """The credential for a registry, if there is one; `problem` says why a configured one cannot be used."""

    registry: str
    credential: Credential | None = None
    problem: str = ""

    @property
    def login_command(self) -> str:
        """The command that writes a credential where it is found."""
        return f"docker login {self.registry} (or podman, skopeo)"


class _UnusableError(Exception):
    pass


def find_credential(host: str, repository: str, environment: Mapping[str, str]) -> Found:
    """Looks for the credential of a registry (`HOST[:PORT]`), or of a part of its repositories.

    The files are `REGISTRY_AUTH_FILE` alone, if it is set; else Docker's `config.json`, and Podman's `auth.json` of the
    session and of the user.
    """
    problems = []
    for path in _files(environment):
        try:
            credential = _of_file(path, host, repository, environment)
        except _UnusableError as error:
            problems.append(str(error))
            continue
        if credential is not None:
            return Found(host, credential)
    return Found(host, problem="; ".join(problems))


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    def directory(variable: str, below_home: str) -> Iterator[Path]:
        named = environment.get(variable, "").strip()
        if named:
            yield Path(named)
        elif below_home and environment.get("HOME"):
            yield Path(environment["HOME"], below_home)

    only = environment.get("REGISTRY_AUTH_FILE", "").strip()
    if only:
        yield Path(only)
        return
    yield from (each / "config.json" for each in directory("DOCKER_CONFIG", ".docker"))
    yield from (each / "containers" / "auth.json" for each in directory("XDG_RUNTIME_DIR", ""))
    yield from (each / "containers" / "auth.json" for each in directory("XDG_CONFIG_HOME", ".config"))


def _of_file(path: Path, host: str, repository: str, environment: Mapping[str, str]) -> Credential | None:
    try:
        document = json.loads(read_regular(path, _MOST_BYTES))
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_missing and not environment.get("REGISTRY_AUTH_FILE", "").strip():
            return None
        raise _UnusableError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        # `from None`: the text of the error has a part of the file.
        raise _UnusableError(f"{path} is not valid JSON") from None
    if not isinstance(document, dict):
        raise _UnusableError(f"{path} is not a JSON object")
    names = _HUB if host in _HUB else (host,)
    servers = _HUB_SERVERS if host in _HUB else (host,)
    helpers = _mapping(document.get("credHelpers"))
    for helper in [helpers[name] for name in names if name in helpers]:
        return _of_helper(helper, servers, path, environment)
    credential = _of_entries(_mapping(document.get("auths")), names, repository, path)
    if credential is None and document.get("credsStore"):
        return _of_helper(document["credsStore"], servers, path, environment)
    return credential


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_entries(entries: Mapping[str, Any], names: tuple[str, ...], repository: str, path: Path) -> Credential | None:
    by_place = {re.sub(r"^https?://|/(v[12]/?)?$", "", place): _mapping(entry) for place, entry in entries.items()}
    parts = repository.split("/")
    # The most specific one first: Podman also keeps credentials of single repositories.
    for length in range(len(parts), -1, -1):
        for name in names:
            entry = by_place.get("/".join((name, *parts[:length])))
            credential = _of_entry(entry, path) if entry else None
            if credential is not None:
                return credential
    return None


def _of_entry(entry: Mapping[str, Any], path: Path) -> Credential | None:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth"):
        try:
            username, _, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _UnusableError(f"{path}: a field 'auth' is not USER:PASSWORD in Base64") from None
    token = str(entry.get("identitytoken") or "")
    return Credential(str(path), username, password.rstrip("\0"), token) if username or token else None


def _of_helper(name: Any, servers: tuple[str, ...], path: Path, environment: Mapping[str, str]) -> Credential | None:
    program = f"docker-credential-{name}"
    found = shutil.which(program, path=environment.get("PATH")) if _HELPER.fullmatch(str(name)) else None
    if found is None:
        raise _UnusableError(f"{program}, which {path} names, is not installed")
    for server in servers:
        answer = _asked(found, program, server, environment)
        if answer is not None:
            username, secret = str(answer.get("Username") or ""), str(answer.get("Secret") or "")
            if username == _TOKEN_USER:
                return Credential(program, identity_token=secret)
            return Credential(program, username, secret)
    return None


def _asked(path: str, program: str, server: str, environment: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        done = subprocess.run(
            [path, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=_HELPER_SECONDS,
            env=dict(environment),
            check=False,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except subprocess.TimeoutExpired:
        raise _UnusableError(f"{program} gave no answer within {_HELPER_SECONDS:.0f} s") from None
    except OSError as error:
        raise _UnusableError(f"{program} cannot be started: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise _UnusableError(f"{program} gave an answer that is not valid JSON") from None
    if done.returncode and _NOT_FOUND not in done.stdout + done.stderr:
        raise _UnusableError(f"{program} failed with exit code {done.returncode}")
    return answer if isinstance(answer, dict) else None
