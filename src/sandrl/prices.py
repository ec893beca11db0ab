"""The prices of a sandbox-hour on each runtime, as set by the user.

There are no built-in prices, because they depend on the user's machine and contract, and a wrong price is worse than
no price. Prices are in `prices.toml` in the user's configuration directory, one line for each runtime, so a user can
also edit them by hand.
"""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandrl.config.budget import Money
from sandrl.errors import InputError, ServiceError, UsageError
from sandrl.files import read_regular, write_whole
from sandrl.settings import Settings, private_directory, runtime_names
from sandrl.suggestions import VALUES, near

FILE = "prices.toml"
"""In the user's directory of configuration."""

_TABLE = "sandbox_hour"
_HEAD = "# The price of a sandbox-hour on each runtime, written by `sandrl prices set RUNTIME PRICE`.\n"
_MOST_BYTES = 1 << 20
_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class Prices:
    path: Path
    by_runtime: Mapping[str, Money] = field(default_factory=dict)

    @classmethod
    def load(cls, settings: Settings) -> Self:
        """Reads the prices; there are none where there is no file.

        Raises:
            InputError: If the file cannot be read, or a line of it is wrong.
        """
        path = settings.config_dir / FILE
        try:
            text = read_regular(path, _MOST_BYTES).decode("utf-8")
            content = tomllib.loads(text)
        except (FileNotFoundError, NotADirectoryError):
            return cls(path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            found = _LINE.search(str(error))
            line = None if found is None else int(found[1])
            hint = "correct the line, or delete the file and set the prices again: sandrl prices set RUNTIME PRICE"
            raise InputError(f"is not TOML: {error}", path=path, line=line, hint=hint) from error
        for name in content:
            if name != _TABLE or not isinstance(content[name], dict):
                line = _line_of(text, name)
                raise InputError(f"only the table [{_TABLE}] is allowed here", path=path, line=line, field=name)
        found_prices = {}
        for name, value in content.get(_TABLE, {}).items():
            problem, price = _price_of(name, value)
            if price is None:
                raise InputError(problem, path=path, line=_line_of(text, name), field=name)
            found_prices[name] = price
        return cls(path, found_prices)

    def of(self, runtime: str) -> Money | None:
        return self.by_runtime.get(runtime)


def set_price(settings: Settings, runtime: str, text: str | None) -> Prices:
    """Sets the price of a runtime, or removes it (None); another process that changes prices waits until this is done.

    Raises:
        UsageError: If there is no such runtime, or the text is no price.
        InputError: If the file of prices is broken.
        ServiceError: If the file cannot be written.
        SandrlError: If its directory cannot be made, or others may write to it.
    """
    # Only `sandrl prices` writes.
    import tomli_w

    if runtime not in runtime_names():
        names = ", ".join(runtime_names())
        raise UsageError(f"there is no runtime {runtime!r} that can have a price", hint=f"one of: {names}")
    problem, price = ("", None) if text is None else _price_of(runtime, text)
    if problem:
        raise UsageError(problem, hint=f"sandrl prices set {runtime} '$0.10'")
    private_directory(settings.config_dir, variable="SANDRL_CONFIG_DIR")
    try:
        descriptor = os.open(settings.config_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ServiceError(f"{settings.config_dir}: cannot be opened: {error.strerror}") from error
    try:
        # The lock is on the directory, because the file is replaced as a whole.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        known = Prices.load(settings)
        others = {name: value for name, value in known.by_runtime.items() if name != runtime}
        changed = Prices(known.path, others if price is None else {**others, runtime: price})
        table = {name: str(value) for name, value in sorted(changed.by_runtime.items())}
        write_whole(changed.path, (_HEAD + tomli_w.dumps({_TABLE: table})).encode("utf-8"))
    except OSError as error:
        raise ServiceError(f"{settings.config_dir / FILE}: cannot be written: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return changed


def price_of(runtime: str, settings: Settings) -> Money | None:
    """The price of a sandbox-hour on a runtime; None if none is set.

    Raises:
        InputError: If the file of prices is broken.
    """
    return Prices.load(settings).of(runtime)


def _price_of(runtime: str, value: object) -> tuple[str, Money | None]:
    # A package that adds a runtime may be missing in this environment; a wrong spelling is not passed over.
    if runtime not in runtime_names() and (hint := near(runtime, runtime_names(), VALUES)):
        return f"there is no such runtime{hint}", None
    price = Money.parse(value) if isinstance(value, str) else None
    if price is None:
        return f"{value!r} is not a price: use an amount and a currency, such as '$0.10' or '0.10 EUR'", None
    return "", price


def _line_of(text: str, name: str) -> int | None:
    pattern = re.compile(rf"""^\s*(?:\[\s*)?["']?{re.escape(name)}["']?\s*(?:\]|=|\.)""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
