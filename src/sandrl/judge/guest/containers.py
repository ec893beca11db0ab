"""Containers that both processes keep in step, and the plain values that objects of derived classes hold.

All of it works by the methods of builtin types: those of a class of the completion may lie.
"""

from __future__ import annotations

import sys
from typing import Any

from sandrl.judge.guest.libraries import change_in_library, is_same_data, parts_in_library, place_in_library
from sandrl.judge.guest.values import CHANGEABLE_COLLECTIONS, CHANGEABLE_PLACES, rebuilt_place

CHANGEABLE = (list, dict, set, bytearray)
UNCHANGEABLE = (int, str, float, complex, bytes, tuple, frozenset)


def is_solid(kind: Any) -> bool:
    """Whether values of a type cross as plain values, and of types derived from it with their plain value."""
    if kind in CHANGEABLE or kind in UNCHANGEABLE:
        return True
    is_named = kind.__module__ == "collections" and kind.__name__ in CHANGEABLE_COLLECTIONS
    return is_named and getattr(sys.modules["collections"], kind.__name__, None) is kind


def solid_base(kind: Any) -> type | None:
    return next(filter(is_solid, type.__dict__["__mro__"].__get__(kind)), None)


def is_changeable(kind: Any) -> bool:
    """Whether objects of exactly this class are containers that both sides keep in step."""
    return kind in CHANGEABLE or rebuilt_place(kind) in CHANGEABLE_PLACES or change_in_library(kind) is not None


def content_kind(kind: Any) -> type:
    """The type of the content of a container, as it crosses."""
    if issubclass(kind, dict):
        return dict
    return list if kind.__name__ in ("deque", "array") else kind


def plain_form(value: Any, solid: Any) -> object:
    """What a value of a type, or of one that is derived from it, holds."""
    if change_in_library(solid) is not None:
        return value.copy()
    if solid in (list, tuple, set, frozenset):
        return solid(solid.__iter__(value))
    if solid in (str, bytes):
        return solid.__add__(solid(), value)
    if solid in (int, float, complex):
        return solid.__add__(value, solid())
    if solid is bytearray:
        return bytearray.__getitem__(value, slice(None))[:]
    return list(solid.__iter__(value)) if content_kind(solid) is list else dict(solid.items(value))


def fill(value: Any, solid: Any, content: Any) -> None:
    change = change_in_library(solid)
    if change is not None:
        change(value, content)
    elif solid in (list, bytearray):
        solid.__setitem__(value, slice(None), content)
    elif solid.__name__ == "array":
        value[:] = solid(value.typecode, content)
    else:
        solid.clear(value)
        if solid is set or solid.__name__ == "deque":
            (solid.update if solid is set else solid.extend)(value, content)
        else:
            for key, item in content.items():
                solid.__setitem__(value, key, item)


def size_of(value: Any) -> int:
    return len(value) if change_in_library(type(value)) is None else int(value.size)


def snapshot(value: Any) -> list[Any]:
    """The content of a mutable container, to find out later whether it was changed."""
    if isinstance(value, dict):
        content = list(value)
        content.extend(value.values())
        if hasattr(value, "default_factory"):
            content.append(value.default_factory)
        return content
    if type(value) is set:
        return sorted(value, key=id)
    place = place_in_library(type(value))
    if place is not None:
        return [parts_in_library(place, value)]
    return [bytes(value)] if type(value) is bytearray else list(value)


def has_changed(value: Any, before: list[Any]) -> bool:
    """Whether a container holds other objects than it did, or in another order."""
    now = snapshot(value)
    if place_in_library(type(value)) is not None:
        return not is_same_data(now[0], before[0])
    if type(value) is bytearray or (now and type(value).__name__ == "array"):
        return now != before
    return len(now) != len(before) or not all(map(_is, now, before))


def _is(one: object, other: object) -> bool:
    return one is other
