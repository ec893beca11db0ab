"""Reads and writes configurations as TOML, for `--config` and `--print-config`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from sandrl.config.fields import near_key
from sandrl.config.model import Config
from sandrl.errors import InputError

# Far more than a file of ours ever has.
_MOST_BYTES = 1 << 20


def read_toml(model: type[Config], path: Path) -> dict[str, Any]:
    """Reads a file of configuration: TOML, its keys the fields of a model.

    Raises:
        InputError: If it cannot be read, or a key is unknown.
    """
    content = load_toml(path)
    check_keys(model, content, path)
    return content


def check_keys(
    model: type[Config],
    table: Mapping[str, Any],
    path: Path,
    *,
    place: str = "",
    others: Mapping[str, str] | None = None,
) -> None:
    """Makes sure that the keys of a table are fields of a model.

    Args:
        model: The model.
        table: The table.
        path: Its file.
        place: What the table is called in its file; empty for the file itself.
        others: Fields that do not belong here, with what to write instead.

    Raises:
        InputError: If a key is unknown, or does not belong here.
    """
    others = others or {}
    for key, value in table.items():
        named = f"{place}.{key}" if place else key
        field = model.model_fields.get(key)
        if key in others:
            raise InputError(f"does not belong here; {others[key]}", path=path, field=named)
        if field is None:
            raise InputError(f"there is no such key{near_key(model, key, without=others)}", path=path, field=named)
        if field.default_factory is dict and not isinstance(value, dict):
            raise InputError(f"must be a table: [{named}]", path=path, field=named)


def load_toml(path: Path) -> dict[str, Any]:
    """Reads a file of TOML.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise InputError(f"is larger than {_MOST_BYTES} bytes; it is not a configuration file", path=path)
        return tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", path=path) from error


def to_toml(config: Config) -> str:
    """The configuration as a file that `read_toml` reads; keys without a value are left out.

    Tables stand at the end, where TOML wants them.
    """
    # Only `--print-config` writes.
    import tomli_w

    document = _without_nothing(config.document())
    return tomli_w.dumps(dict(sorted(document.items(), key=lambda item: isinstance(item[1], dict))))


def _without_nothing(table: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        name: _without_nothing(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None and value != {}
    }
