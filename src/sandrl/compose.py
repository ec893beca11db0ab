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
# A merge of several mappings, merged again and again, makes a document of any size.
_MOST_ALIASES, _MOST_MERGED = 100, 10
_MOST_DEPTH = 64
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
        settings: All that it says of the service, as it is written.
    """

    name: str
    image: str
    context: Path | None
    dockerfile: str
    arguments: Mapping[str, str]
    target: str
    others: tuple[str, ...]
    settings: Mapping[str, Any]


def read_service(path: Path, environment: Mapping[str, str], *, is_partial: bool = False) -> Service:
    """Reads a Compose file; `environment` has the values of its variables.

    A partial one completes another file, so it need not say what the image of its service is.

    Raises:
        InputError: If it cannot be read, has several services, or says of a build what is not supported.
    """
    document = read_yaml(path, "a Compose file: a mapping with `services`")
    services = document.get("services")
    if not isinstance(services, dict) or not services:
        raise InputError("has no services", path=path, hint="name the Dockerfile to build it alone")
    if len(services) > 1:
        names = ", ".join(map(str, services))
        message = f"has several services ({names}), and only one sandbox can be made of it"
        raise InputError(message, path=path, hint="name the Dockerfile of one service to build it alone")
    ((name, settings),) = services.items()
    if not isinstance(settings, dict):
        raise InputError("its service is not a mapping", path=path)
    build = settings.get("build")
    if isinstance(build, str):
        build = {"context": build}
    if not isinstance(build, dict | None):
        raise InputError("its build is neither a path nor a mapping", path=path)
    build = {
        key: interpolated(each, path, environment) if isinstance(each, str) else each
        for key, each in (build or {}).items()
    }
    for key in build:
        if key not in _BUILD_KEYS or key == "dockerfile_inline" or key == "labels":
            message = f"its build has {str(key)!r}, which is not supported"
            raise InputError(message, path=path, hint="write it in the Dockerfile, or name the Dockerfile alone")
    image = interpolated(_scalar(settings.get("image") or "", "image", path), path, environment)
    if settings.get("build") is None and not image and not is_partial:
        raise InputError("its service has neither build nor image", path=path)
    others = {str(each) for each in settings if each not in ("build", "image")}
    others |= {f"build.{each}" for each in build if each in _WITHOUT_EFFECT}
    return Service(
        name=str(name),
        image=image,
        context=path.parent / _scalar(build.get("context") or ".", "build.context", path) if build else None,
        dockerfile=_scalar(build.get("dockerfile") or "Dockerfile", "build.dockerfile", path),
        arguments=pairs_of(build.get("args"), "build.args", path, environment),
        target=_scalar(build.get("target") or "", "build.target", path),
        others=tuple(sorted(others)),
        settings=settings,
    )


def read_yaml(path: Path, what: str, kind: type = dict) -> Any:
    """The content of a file of YAML that strangers have written, a mapping or a list; `what` names it in messages.

    Raises:
        InputError: If it cannot be read, or is none.
    """
    import yaml

    try:
        text = read_regular(path, _MOST_BYTES).decode()
        # An alias may make a document of any size, and thousands of brackets take minutes.
        aliases, most, depth = 0, _MOST_ALIASES, 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                raise InputError("is nested too deep", path=path, line=event.start_mark.line + 1)
            aliases += isinstance(event, yaml.AliasEvent)
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<":
                most = _MOST_MERGED
        if aliases > most:
            raise InputError(f"has more than {most} aliases", path=path)
        document = yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InputError(f"is not YAML: {reason}", path=path, line=mark.line + 1 if mark else None) from None
    if not isinstance(document, kind):
        raise InputError(f"is not {what}", path=path)
    return document


def interpolated(text: str, path: Path, environment: Mapping[str, str]) -> str:
    """A text of a Compose file with the values of its variables.

    Raises:
        InputError: If a variable has neither value nor default.
    """

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

    return _VARIABLE.sub(replacement, text)


def pairs_of(given: Any, what: str, path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that a Compose file has as a list or a mapping; one without a value has that of `environment`, if any.

    Raises:
        InputError: If it is neither, or a value is no text, number or truth value.
    """
    if given is None:
        return {}
    if isinstance(given, list):
        texts = [_scalar(each, what, path) for each in given]
        pairs = [(text.partition("=")[0], text.partition("=")[2] if "=" in text else None) for text in texts]
    elif isinstance(given, dict):
        pairs = [(str(name), None if value is None else _scalar(value, what, path)) for name, value in given.items()]
    else:
        raise InputError("is neither a list nor a mapping", path=path, field=what)
    found = {}
    for name, value in pairs:
        chosen = environment.get(name) if value is None else interpolated(value, path, environment)
        if chosen is not None:
            found[name] = chosen
    return found


def _scalar(value: object, what: str, path: Path) -> str:
    if isinstance(value, dict | list):
        raise InputError("must be a text", path=path, field=what)
    return str(value).lower() if isinstance(value, bool) else str(value)
