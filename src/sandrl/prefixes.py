"""Ids by their beginnings, for every kind of id the same.

The design decision: an id that is given whole always means itself, a beginning only if it means one thing. What is
ambiguous is refused with the candidates, because a guess would stop or remove the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandrl.errors import InputError

_MOST_CANDIDATES = 10


def find_id(given: str, known: Iterable[str], *, noun: str, optional: str = "") -> str | None:
    """The id that is meant.

    Args:
        given: The id, or its beginning.
        known: The ids there are.
        noun: What they are ids of, in the singular.
        optional: How ids begin, which may be left out: `job-`.

    Returns:
        The id; None if none begins like that.

    Raises:
        InputError: If several begin like that.
    """
    ids = list(dict.fromkeys(known))
    spellings = [given, f"{optional}{given}"] if optional else [given]
    for spelling in spellings:
        if spelling in ids:
            return spelling
    found = [each for each in ids if given and any(each.startswith(spelling) for spelling in spellings)]
    if len(found) > 1:
        shown = ", ".join(found[:_MOST_CANDIDATES])
        more = f" and {len(found) - _MOST_CANDIDATES} more" if len(found) > _MOST_CANDIDATES else ""
        raise InputError(
            f"{given!r} is the beginning of several {noun} ids: {shown}{more}", hint="give more of the one you mean"
        )
    return found[0] if found else None
