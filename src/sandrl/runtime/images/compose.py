"""Compose files with one service: they name the build of its image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.files import read_regular

NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")

_MOST_BYTES = 1 << 20
_MOST_ALIASES = 100
_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-?+])([^{}]*))?\}|())")
_BUILD_KEYS = frozenset({"context", "dockerfile", "dockerfile_inline", "args", "target", "platforms", "tags", "labels"})
_WITHOUT_EFFECT = frozenset({"tags", "platforms"})


@dataclass(frozen=True, slots=True)
class Service:
    """The only service of a Compose file.

    Attributes:
        image: The name of its image; empty for none.
        context: The directory of its build; None if its image is not built.
        dockerfile: Relative to the context.
        others: What else the file says of the service, which is not about its image.
    """

    image: str
    context: Path | None
    dockerfile: str
    arguments: Mapping[str, str]
    target: str
    others: tuple[str, ...]


def read_service(path: Path, environment: Mapping[str, str]) -> Service:
    """Reads a Compose file; `environment` has the values of its variables.

    Raises:
        InputError: If it cannot be read, has several services, or says of a build what is not supported.
    """
    document = _load(path)
    services = document.get("services")
    if not isinstance(services, dict) or not services:
        raise InputError("has no services", path=path, hint="name the Dockerfile to build it alone")
    if len(services) > 1:
        names = ", ".join(map(str, services))
        message = f"has several services ({names}), and only one sandbox can be made of it"
        raise InputError(message, path=path, hint="name the Dockerfile of one service to build it alone")
    (service,) = services.values()
    if not isinstance(service, dict):
        raise InputError("its service is not a mapping", path=path)
    service = _replaced({"build": service.get("build"), "image": service.get("image")} | service, path, environment)
    build = service["build"]
    if isinstance(build, str):
        build = {"context": build}
    if not isinstance(build, dict | None):
        raise InputError("its build is neither a path nor a mapping", path=path)
    for key in build or ():
        if key not in _BUILD_KEYS or key == "dockerfile_inline" or key == "labels":
            message = f"its build has {str(key)!r}, which is not supported"
            raise InputError(message, path=path, hint="write it in the Dockerfile, or name the Dockerfile alone")
    image = str(service["image"] or "")
    if build is None and not image:
        raise InputError("its service has neither build nor image", path=path)
    build = build or {}
    others = {str(each) for each in service if each not in ("build", "image")}
    others |= {f"build.{each}" for each in build if each in _WITHOUT_EFFECT}
    return Service(
        image=image,
        context=path.parent / str(build.get("context") or ".") if build else None,
        dockerfile=str(build.get("dockerfile") or "Dockerfile"),
        arguments=_arguments(build.get("args"), path, environment),
        target=str(build.get("target") or ""),
        others=tuple(sorted(others)),
    )


def _load(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = read_regular(path, _MOST_BYTES).decode()
        # An alias may make a document of any size.
        if sum(isinstance(each, yaml.AliasEvent) for each in yaml.parse(text, yaml.SafeLoader)) > _MOST_ALIASES:
            raise InputError(f"has more than {_MOST_ALIASES} aliases", path=path)
        document = yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or error
        raise InputError(f"is not YAML: {reason}", path=path, line=mark.line + 1 if mark else None) from None
    if not isinstance(document, dict):
        raise InputError("is not a Compose file: a mapping with `services` is needed", path=path)
    return document


def _replaced(value: Any, path: Path, environment: Mapping[str, str]) -> Any:
    def replacement(found: re.Match[str]) -> str:
        dollar, plain, name, operator, word = found.group(1, 2, 3, 4, 5)
        if dollar:
            return "$"
        if not plain and not name:
            raise InputError(
                f"{found.string[:60]!r} has a $ that begins no variable", path=path, hint="write $$ for a $"
            )
        given = environment.get(plain or name)
        is_given = bool(given) if operator and operator.startswith(":") else given is not None
        match (operator or "")[-1:]:
            case "-":
                return (given or "") if is_given else word
            case "+":
                return word if is_given else ""
        if not is_given:
            message = f"the variable {plain or name} is not set{f': {word}' if word else ''}"
            raise InputError(message, path=path, hint=f"set {plain or name} in the environment")
        return given or ""

    # Only what is about the image is of any use.
    if isinstance(value, str):
        return _VARIABLE.sub(replacement, value)
    if isinstance(value, dict):
        return {
            key: _replaced(each, path, environment)
            if key in ("build", "image", *_BUILD_KEYS) or "args" in value
            else each
            for key, each in value.items()
        }
    return value


def _arguments(given: Any, path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    if given is None:
        return {}
    if isinstance(given, list):
        pairs = [
            (str(each).partition("=")[0], str(each).partition("=")[2] if "=" in str(each) else None) for each in given
        ]
    elif isinstance(given, dict):
        pairs = [(str(name), None if value is None else _text(value)) for name, value in given.items()]
    else:
        raise InputError("the args of its build are neither a list nor a mapping", path=path)
    found = {}
    for name, value in pairs:
        chosen = environment.get(name) if value is None else _replaced(value, path, environment)
        if chosen is not None:
            found[name] = chosen
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
