"""How plain values cross between the judge and a completion.

The format is our own and expresses numbers, text and containers, so that decoding what a hostile process sent builds
nothing else. Anything that is not a plain value is left to the caller (`objects.py`). Types of the standard library
that tests compare (Counter, deque, Fraction, …) cross as their parts and are rebuilt by the receiver's own classes.

A mutable container gets the next index of its message on both sides. A container that stands in a message twice, or
that both sides still share since an earlier message, is sent as a reference: identity and cycles survive the crossing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sandrl.judge.guest.libraries import (
    CHANGEABLE_IN_LIBRARY,
    FORMS,
    array_of,
    change_in_library,
    packed_numbers,
    parts_in_library,
    place_in_library,
    rebuilt_in_library,
)

CHANGEABLE_COLLECTIONS = ("deque", "Counter", "OrderedDict", "defaultdict")
# Deeper nesting cannot be compared or printed by Python itself.
MAX_DEPTH = 4_000
MAX_BYTES = 256 << 20
_FEW_ITEMS = 16
_PIECE_BYTES = 1 << 16
# Frames that one level of nesting takes, on either side.
_FRAMES_A_LEVEL = 3


class Unsendable(Exception):
    """A value that cannot cross."""


class TooLarge(Unsendable):
    """A value of too many bytes."""


class Malformed(Exception):
    """What arrived is no value."""


def _time_parts(value: Any) -> tuple[Any, ...]:
    return (value.hour, value.minute, value.second, value.microsecond, value.tzinfo)


def _datetime_parts(value: Any) -> tuple[Any, ...]:
    return (value.year, value.month, value.day, *_time_parts(value))


def _viewed(value: Any) -> Any:
    # A whole `bytearray`, which is shared, or a copy.
    whole = value.obj
    return whole if type(whole) is bytearray and value.nbytes == len(whole) else value.tobytes()


def _zone(value: Any) -> Any:
    if value.key is None:
        raise Unsendable("a time zone that was read from a file")
    return (value.key,)


_NOTHING = type(None)
# How a time zone may arrive: rebuilt, or as an object of the sender.
_TIME = (int, _NOTHING, object)
_BY_TEXT = (
    ("decimal", "Decimal"),
    ("uuid", "UUID"),
    *[("pathlib", name) for name in ("PurePosixPath", "PosixPath", "PureWindowsPath")],
    *[("ipaddress", f"IPv{version}{name}") for version in (4, 6) for name in ("Address", "Network", "Interface")],
)
# Where the classes are found of objects that are rebuilt: what takes the arguments of the class from an object, which
# are plain values themselves, and the types that they may have. Some of these classes would also accept text that
# stands for a number as long as memory.
REBUILT: dict[tuple[str, str], tuple[Callable[[Any], tuple[Any, ...]], tuple[type, ...]]] = {
    **{place: (lambda value: (str(value),), (str,)) for place in _BY_TEXT},
    ("collections", "Counter"): (lambda value: (dict(value),), (dict,)),
    ("collections", "OrderedDict"): (lambda value: (list(value.items()),), (list,)),
    ("collections", "defaultdict"): (lambda value: (value.default_factory, dict(value)), (_NOTHING, dict, object)),
    ("collections", "deque"): (lambda value: (list(value), value.maxlen), (list, _NOTHING, int)),
    ("collections", "ChainMap"): (lambda value: tuple(value.maps), (object,)),
    ("collections", "UserDict"): (lambda value: (value.data,), (object,)),
    ("collections", "UserList"): (lambda value: (value.data,), (list,)),
    ("collections", "UserString"): (lambda value: (value.data,), (str,)),
    ("fractions", "Fraction"): (lambda value: (value.numerator, value.denominator), (int,)),
    ("datetime", "date"): (lambda value: (value.year, value.month, value.day), (int,)),
    ("datetime", "timedelta"): (lambda value: (value.days, value.seconds, value.microseconds), (int,)),
    ("datetime", "time"): (_time_parts, _TIME),
    ("datetime", "datetime"): (_datetime_parts, _TIME),
    ("datetime", "timezone"): (lambda value: value.__getinitargs__(), (object, str)),
    ("zoneinfo", "ZoneInfo"): (_zone, (str,)),
    ("array", "array"): (lambda value: (value.typecode, list(value)), (str, list)),
    ("builtins", "slice"): (lambda value: (value.start, value.stop, value.step), (object, str)),
    ("builtins", "mappingproxy"): (lambda value: (dict(value),), (object,)),
    ("builtins", "dict_keys"): (lambda value: (dict.fromkeys(value),), (dict,)),
    ("builtins", "dict_items"): (lambda value: (dict(value),), (dict,)),
    ("builtins", "dict_values"): (lambda value: (dict(enumerate(value)),), (dict,)),
    ("builtins", "memoryview"): (
        lambda value: (_viewed(value), value.format, value.shape),
        (bytes, bytearray, str, tuple),
    ),
}
# Those that can be changed: both sides keep them in step.
CHANGEABLE_PLACES = frozenset((*[("collections", name) for name in CHANGEABLE_COLLECTIONS], ("array", "array")))


def _rebuild_memoryview(data: bytes | bytearray, code: Any, shape: tuple[int, ...]) -> Any:
    view: Any = memoryview(data)
    if code == "B" and len(shape) == 1:
        return view
    return view.cast("B").cast(code, shape) if len(shape) > 1 else view.cast("B").cast(code)


# Builtin classes, of which some have no name in their module, and some no constructor.
_BUILTINS: dict[str, tuple[type, Callable[..., Any]]] = {
    "slice": (slice, slice),
    "mappingproxy": (type(type.__dict__), type(type.__dict__)),
    "dict_keys": (type({}.keys()), dict.keys),
    "dict_items": (type({}.items()), dict.items),
    "dict_values": (type({}.values()), dict.values),
    "memoryview": (memoryview, _rebuild_memoryview),
}
_BUILTIN_NAMES = {kind: name for name, (kind, _) in _BUILTINS.items()}


def rebuilt_place(kind: Any) -> tuple[str, str] | None:
    """Where the class of a value is found, if values of exactly that class cross as their parts."""
    if kind in _BUILTIN_NAMES:
        return "builtins", _BUILTIN_NAMES[kind]
    place = (kind.__module__, kind.__name__)
    if place[0] == "pathlib._local":
        place = ("pathlib", place[1])
    if place in REBUILT and getattr(sys.modules.get(place[0]), place[1], None) is kind:
        return place
    return None


def rebuilt_object(place: tuple[str, str], parts: tuple[Any, ...]) -> Any:
    """An object of one of the known classes; `Malformed` if its parts cannot be those of one."""
    allowed = REBUILT[place][1]
    for part in parts:
        # An object may be anything but text that the class would parse.
        if type(part) not in allowed and (object not in allowed or type(part) is str):
            raise Malformed("parts that were never sent")
    build = _BUILTINS[place[1]][1] if place[0] == "builtins" else getattr(__import__(place[0]), place[1])
    return build(*parts)


class Encoder:
    """Makes bytes of one message.

    `other` encodes a value that is no plain one; `shared` refers to the containers that both sides have, by their `id`.
    """

    def __init__(
        self,
        other: Callable[[Any, Encoder, int], None],
        shared: dict[int, Any] | None = None,
        deepest: int = MAX_DEPTH,
    ) -> None:
        self.other = other
        self.shared = shared or {}
        self.deepest = deepest
        self.clear()

    def clear(self) -> None:
        self.parts: list[bytes] = []
        # The mutable containers of this message, by index, and their indexes by `id`.
        self.containers: list[Any] = []
        self.indexes: dict[int, int] = {}
        # What the caller wants to remember of this message: objects and classes that it has described.
        self.described: set[int] = set()
        self.classes: list[int] = []

    def encode(self, *values: object) -> bytes:
        try:
            self.values(values)
        except RecursionError:
            # Few values are nested that deep; to raise the limit for each would cost more than to begin again.
            self.clear()
            with_deep_recursion(self.deepest, self.values, values)
        data = b"".join(self.parts)
        if len(data) > MAX_BYTES:
            raise TooLarge(f"the value is larger than {MAX_BYTES >> 20} MiB")
        return data

    def values(self, values: tuple[object, ...]) -> None:
        for value in values:
            self.value(value, self.deepest)

    def text(self, value: str) -> None:
        data = str.encode(value, "utf-8", "surrogatepass")
        self.parts.append(b"s%d;%s" % (len(data), data))

    def is_known(self, value: object) -> bool:
        """Whether a mutable container was sent already; refers to it if so, else gives it the next index."""
        key = id(value)
        if key in self.shared:
            self.parts.append(self.shared[key].reference)
            return True
        index = self.indexes.get(key)
        if index is not None:
            self.parts.append(b"@%d;" % index)
            return True
        self.indexes[key] = len(self.containers)
        self.containers.append(value)
        return False

    def value(self, value: Any, levels: int) -> None:
        kind = type(value)
        if kind is int:
            self.parts.append(b"i%x;" % value)
        elif kind is str:
            data = value.encode("utf-8", "surrogatepass")
            self.parts.append(b"s%d;%s" % (len(data), data))
        elif value is None:
            self.parts.append(b"N")
        elif kind is bool:
            self.parts.append(b"T" if value else b"F")
        elif kind is tuple and levels > 0 and len(value) <= _FEW_ITEMS:
            self.parts.append(b"u%d;" % len(value))
            for item in value:
                self.value(item, levels - 1)
        elif kind is float:
            # The one NaN that is the same everywhere: containers compare their items by identity first.
            shared = "math" in sys.modules and value is sys.modules["math"].nan
            self.parts.append(b"n" if shared else b"f%s;" % float.__repr__(value).encode())
        elif levels <= 0:
            raise Unsendable("the value is nested too deep")
        elif kind is tuple or kind is frozenset:
            self.items(_ITEM_TAGS[kind], value, levels)
        elif kind is list or kind is set:
            if not self.is_known(value):
                self.items(_ITEM_TAGS[kind], value, levels)
        elif kind is dict:
            if not self.is_known(value):
                self.parts.append(b"d%d;" % len(value))
                for key, item in value.items():
                    self.value(key, levels - 1)
                    self.value(item, levels - 1)
        elif kind is bytes:
            self.parts.append(b"b%d;%s" % (len(value), value))
        elif kind is bytearray:
            if not self.is_known(value):
                self.parts.append(b"B%d;%s" % (len(value), bytes(value)))
        elif kind is complex:
            self.parts.append(b"c%s;%s;" % (repr(value.real).encode(), repr(value.imag).encode()))
        elif kind is range:
            self.parts.append(b"r%x;%x;%x;" % (value.start, value.stop, value.step))
        elif value is Ellipsis or value is NotImplemented:
            self.parts.append(b"E" if value is Ellipsis else b"M")
        else:
            place = rebuilt_place(kind)
            if place is not None:
                self.rebuilt(value, place, levels)
            else:
                place = place_in_library(kind)
                if place is None or not self.of_library(value, kind, place, levels):
                    self.other(value, self, levels)

    def items(self, tag: bytes, value: Any, levels: int) -> None:
        """Adds the items of a container; many numbers as one text, which takes a tenth of the time."""
        self.parts.append(b"%s%d;" % (tag, len(value)))
        if len(value) > _FEW_ITEMS:
            kinds = set(map(type, value))
            if kinds == {int} or kinds == {float}:
                try:
                    text = " ".join(map(repr, value)).encode()
                except ValueError:
                    pass  # numbers of thousands of digits
                else:
                    self.parts.append(b"%s%d;%s" % (b"I" if int in kinds else b"G", len(text), text))
                    return
            packed = packed_numbers(kinds.pop(), value) if len(kinds) == 1 else None
            if packed is not None:
                self.parts.append(b"Y")
                self.text(packed[0])
                self.parts.append(b"b%d;%s" % (len(packed[1]), packed[1]))
                return
        self.parts.append(b"-")
        for item in value:
            self.value(item, levels - 1)

    def rebuilt(self, value: object, place: tuple[str, str], levels: int) -> None:
        if place in CHANGEABLE_PLACES and self.is_known(value):
            return
        self.parts.append(b"x")
        self.text(place[0])
        self.text(place[1])
        try:
            parts = REBUILT[place][0](value)
        except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise Unsendable(f"a {place[1]} whose parts cannot be taken ({error})") from error
        self.value(parts, levels - 1)

    def of_library(self, value: object, kind: Any, place: tuple[str, str], levels: int) -> bool:
        is_changeable = change_in_library(kind) is not None
        is_new = id(value) not in self.indexes and id(value) not in self.shared
        parts = parts_in_library(place, value) if is_new or not is_changeable else ()
        if parts is None:
            return False
        if not is_changeable or not self.is_known(value):
            self.parts.append(b"y")
            self.text(place[0])
            self.text(place[1])
            self.value(parts, levels - 1)
        return True


class Decoder:
    """Reads one message; `other` reads, after its tag, what is not a plain value."""

    def __init__(
        self,
        data: bytes,
        other: Callable[[bytes, Decoder], Any],
        deepest: int = MAX_DEPTH + 100,
    ) -> None:
        self.data = data
        self.position = 0
        self.other = other
        self.deepest = deepest
        self.depth = 0
        self.containers: list[Any] = []

    def whole(self) -> Any:
        values = self.all()
        if len(values) != 1:
            raise Malformed("something follows the value")
        return values[0]

    def all(self) -> list[Any]:
        try:
            return self.rest()
        except RecursionError:
            self.position = self.depth = 0
            self.containers.clear()
            values: list[Any] = with_deep_recursion(self.deepest, self.rest)
            return values

    def rest(self) -> list[Any]:
        values = []
        end = len(self.data)
        while self.position < end:
            values.append(self.value())
        return values

    def field(self) -> bytes:
        end = self.data.find(b";", self.position)
        if end < 0:
            raise Malformed("the value ends early")
        field = self.data[self.position : end]
        self.position = end + 1
        return field

    def count(self) -> int:
        """A length that what is left of the data can hold."""
        number = int(self.field())
        if not 0 <= number <= len(self.data) - self.position:
            raise Malformed("a length that cannot be")
        return number

    def block(self) -> bytes:
        size = self.count()
        block = self.data[self.position : self.position + size]
        self.position += size
        return block

    def text(self) -> str:
        if self.take() != b"s":
            raise Malformed("no text where one must be")
        return str(self.block(), "utf-8", "surrogatepass")

    def take(self) -> bytes:
        byte = self.data[self.position : self.position + 1]
        self.position += 1
        return byte

    def value(self) -> Any:
        position = self.position
        tag = self.data[position : position + 1]
        self.position = position + 1
        if tag == b"i":
            return int(self.field(), 16)
        if tag == b"s":
            return str(self.block(), "utf-8", "surrogatepass")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"f":
            return float(self.field())
        self.depth += 1
        if self.depth > self.deepest:
            raise Malformed("nested too deeply")
        made: Any = self.composed(tag) if tag != b"u" else tuple([self.value() for _ in range(self.count())])
        self.depth -= 1
        return made

    def composed(self, tag: bytes) -> Any:
        if tag == b"t" or tag == b"Z":
            return _ITEM_KINDS[tag](self.items())
        if tag == b"l" or tag == b"S":
            made: Any = _ITEM_KINDS[tag]()
            self.containers.append(made)
            (made.extend if tag == b"l" else made.update)(self.items())
            return made
        if tag == b"d":
            made = {}
            self.containers.append(made)
            for _ in range(self.count()):
                key = self.value()
                made[key] = self.value()
            return made
        if tag == b"b":
            return bytes(self.block())
        if tag == b"B":
            made = bytearray(self.block())
            self.containers.append(made)
            return made
        if tag == b"@":
            index = int(self.field())
            if not 0 <= index < len(self.containers) or self.containers[index] is None:
                raise Malformed("a container that was never sent")
            return self.containers[index]
        if tag == b"n":
            return __import__("math").nan
        if tag == b"c":
            return complex(float(self.field()), float(self.field()))
        if tag == b"r":
            return range(int(self.field(), 16), int(self.field(), 16), int(self.field(), 16))
        if tag == b"x":
            return self.rebuilt(REBUILT, CHANGEABLE_PLACES, rebuilt_object)
        if tag == b"y":
            return self.rebuilt(FORMS, CHANGEABLE_IN_LIBRARY, rebuilt_in_library)
        return self.other(tag, self)

    def items(self) -> list[Any]:
        size = self.count()
        tag = self.take()
        if tag == b"-":
            return [self.value() for _ in range(size)]
        if tag == b"Y":
            return list(array_of(self.text(), (size,), self.value()))
        if tag not in (b"I", b"G"):
            raise Malformed("items of no kind")
        made: list[Any] = []
        end = self.count() + self.position
        while self.position < end:
            # Piece by piece: the parts of a text take ten times as much memory as the text.
            stop = self.data.find(b" ", min(self.position + _PIECE_BYTES, end), end)
            stop = end if stop < 0 else stop
            made.extend(map(int if tag == b"I" else float, self.data[self.position : stop].split(b" ")))
            self.position = min(stop + 1, end)
        if len(made) != size:
            raise Malformed("another number of items than was said")
        return made

    def rebuilt(self, known: Any, changeable: frozenset[tuple[str, str]], build: Callable[..., Any]) -> object:
        """An object made of the parts that follow; one that can be changed is counted before these.

        Whether it can be changed is known here as it is where it was sent: by its type alone.
        """
        place = (self.text(), self.text())
        if place not in known:
            raise Malformed("an unknown class")
        index = len(self.containers)
        if place in changeable:
            self.containers.append(None)
        parts = self.value()
        if type(parts) is not tuple:
            raise Malformed("no parts")
        made = build(place, parts)
        if place in changeable:
            self.containers[index] = made
        return made


_ITEM_KINDS: dict[bytes, Any] = {b"l": list, b"t": tuple, b"S": set, b"Z": frozenset}
_ITEM_TAGS = {kind: tag for tag, kind in _ITEM_KINDS.items()}
_CONSTANTS: dict[bytes, object] = {b"N": None, b"T": True, b"F": False, b"E": Ellipsis, b"M": NotImplemented}


def with_deep_recursion(levels: int, work: Callable[..., Any], *arguments: object) -> Any:
    """Calls a function that may call itself so many times."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, levels * _FRAMES_A_LEVEL + 1000))
    try:
        return work(*arguments)
    finally:
        sys.setrecursionlimit(limit)
