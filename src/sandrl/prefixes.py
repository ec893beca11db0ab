"""Finds ids by their prefixes, in the same way for every kind of id.

A complete id always matches only itself; a prefix must match exactly one id. An ambiguous prefix is refused with the
list of candidates, because a guess could stop or remove the wrong object.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandrl.errors import InputError

_MOST_CANDIDATES = 10


def find_id(given: str, known: Iterable[str], *, noun: str, optional: str = "") -> str | None:
    """The id that is meant by its beginning; None if none begins like that.

    The noun says what the ids are of, in the singular; how all of them begin (`job-`) is optional.

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
        raise InputError(f"{given!r} matches several {noun} ids: {shown}{more}", hint="give more characters of the id")
    return found[0] if found else None
