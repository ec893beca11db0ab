"""Reads times and sizes as users write them: `5s`, `1h30m`, `512MiB`, or a plain number of seconds or bytes.

Options of the command line, configuration files and bodies of requests use the same two functions, so a time or a size
that one of them understands is understood everywhere. `K`, `M`, `G` and `T`, and `KiB` to `TiB`, are powers of 1024;
`kB` to `TB` are powers of 1000.
"""

from __future__ import annotations

import re
from collections.abc import Callable

TIME_EXAMPLES = "500ms, 30s, 2m or 1h30m"
"""Times as users write them."""

SIZE_EXAMPLES = "64k, 512MiB, 1G or 2GB"
"""Sizes as users write them."""

_UNITS_OF_TIME: dict[str, float] = {
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
}
_UNITS_OF_SIZE: dict[str, int] = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **{f"{letter}{end}": 1 << 10 * power for power, letter in enumerate("kmgt", 1) for end in ("", "i", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_NUMBER = r"(?:\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})"
_PART = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*", re.ASCII)
_SIZE = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.ASCII)
# More than any clock holds.
_MOST_SECONDS = 1e12


def parse_seconds(text: str) -> float | None:
    """Reads `2h`, `90m`, `500ms` or `1h 30m` as seconds; None if it is no time with units from large to small."""
    total, last, place, text = 0.0, float("inf"), 0, text.strip().lower()
    while place < len(text):
        part = _PART.match(text, place)
        length = None if part is None else _UNITS_OF_TIME.get(part[2])
        if part is None or length is None or length >= last:
            return None
        total, last, place = total + float(part[1]) * length, length, part.end()
    return total if text and total <= _MOST_SECONDS else None


def parse_size(text: str) -> int | None:
    """Reads `64k`, `512MiB`, `1G` or `2GB` as bytes; None if it is no size with a unit."""
    found = _SIZE.fullmatch(text.strip().lower())
    unit = None if found is None else _UNITS_OF_SIZE.get(found[2])
    return None if found is None or unit is None else round(float(found[1]) * unit)


def seconds_of(value: object) -> object:
    """Replaces a text that is a time by its seconds; other values stay for the check of their type.

    Raises:
        ValueError: If the text is none; the message is the end of a sentence that begins with the option.
    """
    return _read(value, parse_seconds, float, f"a time: write a number of seconds, or a time such as {TIME_EXAMPLES}")


def bytes_of(value: object) -> object:
    """Replaces a text that is a size by its bytes; other values stay for the check of their type.

    Raises:
        ValueError: If the text is none; the message is the end of a sentence that begins with the option.
    """
    return _read(value, parse_size, int, f"a size: write a number of bytes, or a size such as {SIZE_EXAMPLES}")


def _read(
    value: object, with_unit: Callable[[str], float | None], plain: Callable[[str], float], wanted: str
) -> object:
    if not isinstance(value, str):
        return value
    found = with_unit(value)
    if found is not None:
        return found
    try:
        return plain(value)
    except ValueError:
        raise ValueError(f"{value!r} is not {wanted}") from None


def size_text(size: int) -> str:
    """A number of bytes as `bytes_of` reads it, with the largest unit that leaves a whole number: `64MiB`."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % length == 0:
            return f"{size // length}{unit}"
    return str(size)
