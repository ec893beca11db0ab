"""The indexes of pip and uv: pip's go into a file of its own, which variables and options of a build still override."""

from __future__ import annotations

import configparser
import io
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from sandrl.runtime.downloads.gathered import PLACE, Gathered, words

_SECTIONS = ("global", "download", "install", "wheel")
_PLAIN = ("default-timeout", "no-index", "retries", "timeout", "trusted-host")
_INDEXES, _CONSTRAINTS = ("index-url", "extra-index-url"), ("build-constraint", "constraint")
_TAKEN = frozenset({*_PLAIN, *_INDEXES, *_CONSTRAINTS, "client-cert", "find-links", "proxy"})

Options = dict[str, dict[str, str]]


def add_pip(gathered: Gathered, *, with_proxies: bool) -> None:
    """Adds the indexes of pip, and to uv where it has none of its own."""
    options = _pip_options(gathered)
    given = {section: _given(gathered, section, found) for section, found in options.items()}
    for found in [] if with_proxies else given.values():
        found.pop("proxy", None)
    for found in given.values():
        gathered.unverified |= dict.fromkeys(each.partition(":")[0] for each in words(found.get("trusted-host", "")))
    if any(given.values()):
        writer = configparser.RawConfigParser()
        writer.read_dict({section: found for section, found in given.items() if found})
        text = io.StringIO()
        writer.write(text)
        gathered.files[f"{PLACE}/pip.conf"] = text.getvalue().encode()
        gathered.environment["PIP_CONFIG_FILE"] = f"{PLACE}/pip.conf"
    if not _add_uv(gathered):
        _add_uv_of_pip(gathered, given.get("global", {}) | given.get("install", {}))


def _pip_options(gathered: Gathered) -> Options:
    source = gathered.source
    options: Options = {section: {} for section in _SECTIONS}
    named = source.get("PIP_CONFIG_FILE", "")
    files = [*gathered.configured("pip", "pip.conf")]
    files[-1:-1] = [Path("/etc/pip.conf"), *gathered.home(".pip", "pip.conf")]
    files += [Path(sys.prefix, "pip.conf")]
    for path in [] if named == os.devnull else [*files, *([Path(named)] if named else [])]:
        content = gathered.content(path)
        parser = configparser.RawConfigParser()
        try:
            parser.read_string("" if content is None else content.decode())
        except (configparser.Error, UnicodeDecodeError):
            gathered.warnings.append(f"{path} is not a configuration of pip: it is left out")
            continue
        for section in _SECTIONS:
            found = parser.items(section) if parser.has_section(section) else []
            options[section] |= {_option(name): value for name, value in found}
    for name, value in source.items():
        if name.startswith("PIP_") and value:
            # A variable overrides all sections.
            option = _option(name.removeprefix("PIP_"))
            for section in _SECTIONS:
                options[section].pop(option, None)
            options["global"][option] = value
    return options


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _given(gathered: Gathered, section: str, options: dict[str, str]) -> dict[str, str]:
    given = {}
    for option, value in options.items():
        if option not in _TAKEN:
            continue
        found: list[str | None] = [value]
        if option in _INDEXES or option == "find-links":
            found = [gathered.location(each) for each in words(value)]
        elif option in _CONSTRAINTS or option == "client-cert":
            files = [each for each in words(value) if option != "client-cert" or each]
            found = [
                gathered.add_file(Path(each), f"pip-{section}-{option}-{number}.txt") if "://" not in each else each
                for number, each in enumerate(files)
            ]
        elif option == "proxy":
            found = [gathered.address(value)]
        kept = [each for each in found if each]
        if kept:
            given[option] = "\n".join(kept)
    return given


def _add_uv(gathered: Gathered) -> bool:
    settings = _uv_settings(gathered)
    environment: dict[str, str] = {}

    def add(variable: str, values: list[str | None], separator: str = " ") -> None:
        kept = separator.join(filter(None, values))
        if kept:
            environment[variable] = kept

    default: list[str] = words(settings.get("index-url", ""))
    others = words(settings.get("extra-index-url", ""))
    flat = words(settings.get("find-links", ""))
    for index in settings.get("index", ()):
        name, address = str(index.get("name", "")), str(index.get("url", ""))
        if index.get("format") == "flat":
            flat.append(address)
        elif index.get("default"):
            default = [address]
        else:
            others.append(f"{name}={address}" if name else address)
    source = gathered.source
    default = words(source.get("UV_DEFAULT_INDEX", "") or source.get("UV_INDEX_URL", "")) or default
    others = words(source.get("UV_INDEX", "")) + words(source.get("UV_EXTRA_INDEX_URL", "")) or others
    flat = source.get("UV_FIND_LINKS", "").replace(",", " ").split() or flat
    insecure = words(source.get("UV_INSECURE_HOST", "")) or words(settings.get("allow-insecure-host", ()))
    add("UV_DEFAULT_INDEX", [gathered.location(each) for each in default[:1]])
    add("UV_INDEX", [_named(gathered, each) for each in others])
    add("UV_FIND_LINKS", [gathered.location(each) for each in flat], ",")
    add("UV_INSECURE_HOST", [*insecure])
    add("UV_INDEX_STRATEGY", [source.get("UV_INDEX_STRATEGY") or settings.get("index-strategy")])
    add("UV_NO_INDEX", [source.get("UV_NO_INDEX") or ("1" if settings.get("no-index") else "")])
    gathered.unverified |= dict.fromkeys(each.partition(":")[0] for each in insecure)
    for number, each in enumerate(words(source.get("UV_CONSTRAINT", ""))):
        place = gathered.add_file(Path(each), f"uv-constraint-{number}.txt")
        add("UV_CONSTRAINT", [environment.get("UV_CONSTRAINT"), place])
    is_own = bool(environment)
    for name, value in source.items():
        is_credential = name.startswith("UV_INDEX_") and name.endswith(("_USERNAME", "_PASSWORD"))
        if is_credential or name in ("UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES"):
            environment[name] = value
    gathered.environment |= environment
    return is_own


def _named(gathered: Gathered, index: str) -> str | None:
    name, equals, address = index.partition("=")
    if not equals or "/" in name:
        return gathered.location(index)
    place = gathered.location(address)
    return None if place is None else f"{name}={place}"


def _add_uv_of_pip(gathered: Gathered, given: dict[str, str]) -> None:
    separators = {"UV_FIND_LINKS": ","}
    options = {
        "UV_DEFAULT_INDEX": "index-url",
        "UV_INDEX": "extra-index-url",
        "UV_FIND_LINKS": "find-links",
        "UV_CONSTRAINT": "constraint",
        "UV_INSECURE_HOST": "trusted-host",
        "UV_NO_INDEX": "no-index",
    }
    found = {name: separators.get(name, " ").join(words(given[key])) for name, key in options.items() if key in given}
    if "UV_INDEX" in found:
        # As pip chooses: the best version of all indexes.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    gathered.environment |= found


def _uv_settings(gathered: Gathered) -> dict[str, Any]:
    named = gathered.source.get("UV_CONFIG_FILE", "")
    files = [Path(named)] if named else [Path("/etc/uv/uv.toml"), *gathered.configured("uv", "uv.toml")]
    settings: dict[str, Any] = {}
    for path in files:
        content = gathered.content(path)
        try:
            settings |= tomllib.loads("" if content is None else content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            # The text of the error has a part of the file.
            gathered.warnings.append(f"{path} is not a configuration of uv: it is left out")
    return settings
