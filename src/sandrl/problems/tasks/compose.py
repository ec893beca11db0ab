"""The machine that the Compose file of a task describes: one service and its image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.compose import Service, interpolated, pairs_of, read_service
from sandrl.errors import InputError
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.images import built, named

NAMES = ("docker-compose.yaml", "docker-compose.yml")

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}\$?")

_HINT = "a task with this cannot be run here: leave it out (skip_bad_rows), or change the file"
# Without a meaning where a machine is one sandbox, or what a sandbox has anyhow.
_WITHOUT_EFFECT = frozenset(
    {
        *("container_name", "domainname", "expose", "healthcheck", "hostname", "init", "labels", "logging", "ports"),
        *("pull_policy", "restart", "shm_size", "stdin_open", "stop_grace_period", "stop_signal", "tty", "ulimits"),
    }
)
_SILENT = frozenset({"build", "image", "container_name", "init", "pull_policy", "restart", "stdin_open", "tty"})
_IDLE = re.compile(r"((/bin/)?(ba)?sh -c )?(exec )?(sleep (infinity|inf|\d+[smhd]?)|tail -f /dev/null)|(/bin/)?(ba)?sh")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LOGS = ("/logs", "/agent-logs", "/installed-agent")


@dataclass(frozen=True, slots=True)
class ComposedMachine:
    """What a Compose file says of the machine of a task; nothing, if there is none.

    Attributes:
        image: As `Environment.image`; empty if the file leaves it to others.
        ignored: What it says that has no effect.
    """

    image: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    directory: str | None = None
    user: str | None = None
    memory_bytes: int | None = None
    processors: float | None = None
    ignored: tuple[str, ...] = ()


def read_compose(
    content: TaskContent, path: Path, variables: Mapping[str, str], *, service: str = ""
) -> ComposedMachine:
    """Reads the Compose file of a task; `service` is the name that its service must have, if one is needed.

    Raises:
        InputError: If it cannot be read, has several services, or needs what a sandbox does not have.
    """
    try:
        found = read_service(path, variables, is_partial=True)
        if service and found.name != service:
            message = (
                f"has the service {found.name!r:.60} beside {service!r}, and only one sandbox can be made of a task"
            )
            raise InputError(message, path=path, hint=_HINT)
        return _machine(content, path, found, variables)
    except InputError as error:
        raise InputError(
            error.reason, path=error.path or path, line=error.line, field=error.field, hint=_HINT
        ) from error


def _machine(content: TaskContent, path: Path, service: Service, variables: Mapping[str, str]) -> ComposedMachine:
    settings = service.settings
    ignored = []
    for name, value in settings.items():
        if name in ("build", "image", "environment", "working_dir", "user", "mem_limit", "cpus", "deploy"):
            continue
        if name in _WITHOUT_EFFECT or _is_usual(name, value):
            if name not in _SILENT and name not in ("command", "network_mode", "platform", "volumes"):
                ignored.append(f"{path.name}: {name}")
        else:
            raise InputError("is not supported", path=path, field=f"services.{service.name}.{name!s:.60}")
    limits = _limits(settings)
    return ComposedMachine(
        image=_image(content, path, service),
        variables=tuple(pairs_of(settings.get("environment"), "environment", path, variables).items()),
        directory=_text(settings.get("working_dir"), "working_dir", path, variables),
        user=_user(_text(settings.get("user"), "user", path, variables), path),
        memory_bytes=_size(settings.get("mem_limit", limits.get("memory")), path, variables),
        processors=_number(settings.get("cpus", limits.get("cpus")), path, variables),
        ignored=tuple(ignored),
    )


def _image(content: TaskContent, path: Path, service: Service) -> str:
    if service.context is None:
        return named(service.image, path, "image") if service.image else ""
    if service.arguments or service.target:
        field = f"services.{service.name}.build.{'args' if service.arguments else 'target'}"
        raise InputError("is not supported; the Dockerfile may say it", path=path, field=field)
    context = content.path(str(service.context))
    dockerfile = content.path(str(service.context / service.dockerfile))
    if dockerfile.parent != context:
        field = f"services.{service.name}.build.dockerfile"
        raise InputError("must be in the directory of the build's context", path=path, field=field)
    return built(dockerfile)


def _is_usual(name: str, value: Any) -> bool:
    match name:
        case "command" | "entrypoint":
            words = value if isinstance(value, list) else [value]
            return all(isinstance(each, str) for each in words) and bool(_IDLE.fullmatch(" ".join(words).strip()))
        case "network_mode":
            return bool(value in ("bridge", "default"))
        case "platform":
            return bool(value == "linux/amd64")
        case "volumes":
            return isinstance(value, list) and all(map(_is_log, value))
        case "networks":
            return bool(value in ([], ["default"], {}, {"default": None}))
    return False


# Harnesses collect what a machine writes there by a mount; here it is read from the sandbox.
def _is_log(mount: Any) -> bool:
    text = mount if isinstance(mount, str) else str(mount.get("target", "")) if isinstance(mount, dict) else ""
    target = text.split(":")[-1].removesuffix("/") if "}:${" not in text else text.partition(":")[2]
    return target.startswith(_LOGS) or bool(re.fullmatch(r"\$\{(T_BENCH_CONTAINER|ENV)_\w+_PATH\}", target))


def _limits(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = settings
    for name in ("deploy", "resources", "limits"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _text(value: Any, field: str, path: Path, variables: Mapping[str, str]) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, dict | list | bool):
        raise InputError("must be a text", path=path, field=field)
    return interpolated(str(value), path, variables) or None


def _user(name: str | None, path: Path) -> str | None:
    if name is not None and not USER.fullmatch(name):
        raise InputError(f"must be the name or number of a user, not {name!r:.40}", path=path, field="user")
    return name


def _size(value: Any, path: Path, variables: Mapping[str, str]) -> int | None:
    text = _text(value, "memory", path, variables)
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise InputError(f"must be a size such as 512M, not {text!r:.40}", path=path, field="memory")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def _number(value: Any, path: Path, variables: Mapping[str, str]) -> float | None:
    text = _text(value, "cpus", path, variables)
    try:
        number = None if text is None else float(text)
    except ValueError:
        number = -1.0
    if number is not None and not 0 < number < 1 << 20:
        raise InputError(f"must be a number above 0, not {text!r:.40}", path=path, field="cpus")
    return number
