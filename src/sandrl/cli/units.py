"""Options whose value is a time or a size, as `sandrl.quantities` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from sandrl.quantities import TIME_EXAMPLES, bytes_of, parse_seconds, seconds_of


def _parser(name: str, read: Callable[[object], object]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    parse.__name__ = name
    return parse


PARSERS: dict[Callable[[object], object], Callable[[str], Any]] = {
    seconds_of: _parser("time", seconds_of),
    bytes_of: _parser("size", bytes_of),
}
"""The parser of an option, by the function that a configuration reads its field with."""


def time_option(*names: str, help: str, least: float = 0.0, metavar: str = "SECONDS|2m") -> Any:
    """An option that takes a time, for commands without a configuration."""

    def read(value: object) -> object:
        seconds = seconds_of(value)
        if isinstance(seconds, float) and not seconds >= least:
            raise ValueError(f"{value} is too short; it must be at least {least:g} seconds")
        return seconds

    return typer.Option(*names, metavar=metavar, help=help, parser=_parser("time", read))


def size_option(*names: str, help: str, metavar: str = "BYTES|20GiB") -> Any:
    """An option that takes a size, for commands without a configuration."""
    return typer.Option(*names, metavar=metavar, help=help, parser=PARSERS[bytes_of])


def age(text: str) -> float:
    """The seconds of an age, which needs a unit: whether 15 are seconds or minutes is not clear.

    Raises:
        typer.BadParameter: If it is none.
    """
    seconds = parse_seconds(text)
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not an age with a unit; write for example {TIME_EXAMPLES}, or 1d")
    return seconds
