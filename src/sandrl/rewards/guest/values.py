"""How values cross between the judge and a completion: plain values of exact builtin types, or opaque stand-ins.

The design decision: a format of our own that can express numbers, text and containers and nothing else, so that
decoding what a hostile process sent can build nothing but those. A subclass crosses as the builtin it is a kind of: an
`int` with a lying `__eq__` arrives as the plain number it holds. Types of the standard library that tests compare
(Counter, deque, Fraction, …) cross as their parts and are put together again by the receiving side's own classes.
"""

# ruff: noqa: UP037 - annotations must not run: `typing` is not imported

import sys

MYPY = False  # what type checkers take for true; `typing` itself would take 5 ms to import
if MYPY:
    from collections.abc import Callable
    from typing import Any

    Number = Callable[[object], int]
    StandInFor = Callable[[int, bool, str], object]

MAX_DEPTH = 150
# What the judge may hand over: more than it is ever answered, so that no answer is too deep to be handed on.
MAX_DEPTH_ASKED = 250
MAX_BYTES = 64 << 20


class Unsendable(Exception):
    """A value that cannot cross."""


class TooLarge(Unsendable):
    """A value of too many bytes."""


class Opaque:
    """Makes a value cross as a stand-in, whatever it is a kind of."""

    def __init__(self, value: object) -> None:
        self.value = value


class Malformed(Exception):
    """What arrived is no value."""


# Module, class, and how the parts to rebuild it from are taken; the parts are plain values themselves.
REBUILT: "dict[tuple[str, str], Callable[[Any], tuple[Any, ...]]]" = {
    ("collections", "Counter"): lambda value: (dict(value),),
    ("collections", "OrderedDict"): lambda value: (list(value.items()),),
    ("collections", "defaultdict"): lambda value: (None, dict(value)),
    ("collections", "deque"): lambda value: (list(value), value.maxlen),
    ("fractions", "Fraction"): lambda value: (value.numerator, value.denominator),
    ("decimal", "Decimal"): lambda value: (str(value),),
    ("datetime", "date"): lambda value: (value.year, value.month, value.day),
    ("datetime", "timedelta"): lambda value: (value.days, value.seconds, value.microseconds),
    ("datetime", "time"): lambda value: (value.hour, value.minute, value.second, value.microsecond),
    ("datetime", "datetime"): lambda value: (
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
    ),
}


def encode(value: object, stand_in: "Number", deepest: int = MAX_DEPTH) -> bytes:
    """The bytes of a value.

    Args:
        value: What to send.
        stand_in: Given an object that is no plain value, returns the whole number that stands for it, or raises
            `Unsendable`.
        deepest: How many levels of nesting may be sent.
    """
    parts: "list[bytes]" = []
    _encode(value, stand_in, parts, deepest)
    data = b"".join(parts)
    if len(data) > MAX_BYTES:
        raise TooLarge(f"the value is larger than {MAX_BYTES >> 20} MiB")
    return data


def _text(value: str) -> bytes:
    data = str.encode(value, "utf-8", "surrogatepass")
    return b"s%d;%s" % (len(data), data)


def _encode(value: "Any", stand_in: "Number", parts: "list[bytes]", levels: int) -> None:
    kind = type(value)
    if value is None:
        parts.append(b"N")
    elif kind is bool:
        parts.append(b"T" if value else b"F")
    elif kind is int:
        parts.append(b"i%x;" % value)
    elif kind is str:
        parts.append(_text(value))
    elif kind is float:
        # The one NaN that is the same everywhere: containers compare their items by identity first.
        shared = "math" in sys.modules and value is sys.modules["math"].nan
        parts.append(b"n" if shared else b"f%s;" % float.__repr__(value).encode())
    elif levels <= 0:
        raise Unsendable("the value is nested too deep")
    elif kind is list or kind is tuple or kind is set or kind is frozenset:
        parts.append(b"%s%d;" % (_CONTAINER_TAGS[kind], len(value)))
        for item in value:
            _encode(item, stand_in, parts, levels - 1)
    elif kind is dict:
        parts.append(b"d%d;" % len(value))
        for key, item in value.items():
            _encode(key, stand_in, parts, levels - 1)
            _encode(item, stand_in, parts, levels - 1)
    elif kind is bytes or kind is bytearray:
        parts.append(b"%s%d;%s" % (b"b" if kind is bytes else b"B", len(value), bytes(value)))
    elif kind is complex:
        parts.append(b"c%s;%s;" % (repr(value.real).encode(), repr(value.imag).encode()))
    elif kind is range:
        parts.append(b"r%x;%x;%x;" % (value.start, value.stop, value.step))
    elif kind is slice:
        parts.append(b"q")
        _encode((value.start, value.stop, value.step), stand_in, parts, levels - 1)
    elif value is Ellipsis:
        parts.append(b"E")
    else:
        _encode_other(value, kind, stand_in, parts, levels)


_CONTAINER_TAGS: "dict[type, bytes]" = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z"}


def _encode_other(value: "Any", kind: "Any", stand_in: "Number", parts: "list[bytes]", levels: int) -> None:
    place = (kind.__module__, kind.__name__)
    take_parts = REBUILT.get(place)
    module = sys.modules.get(place[0])
    if take_parts is not None and getattr(module, place[1], None) is kind:
        if getattr(value, "tzinfo", None) is not None:
            raise Unsendable("a time with a zone")
        parts.append(b"x%s%s" % (_text(place[0]), _text(place[1])))
        _encode(take_parts(value), stand_in, parts, levels - 1)
        return
    # A subclass crosses as what it is a kind of, by that class's own methods: those of the value may lie.
    if kind is Opaque:
        value, kind = value.value, type(value.value)
    else:
        for base, plain in _PLAIN_BASES:
            if isinstance(value, base):
                _encode(plain(value), stand_in, parts, levels - 1)
                return
    number = stand_in(value)
    parts.append(b"h%x;%s%s" % (number, b"c" if callable(value) else b"-", _text(kind.__name__[:200])))


_PLAIN_BASES: "tuple[tuple[type, Callable[[Any], object]], ...]" = (
    (int, lambda value: int.__add__(value, 0)),
    (str, lambda value: str.__add__("", value)),
    (float, lambda value: float.__add__(value, 0.0)),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (set, lambda value: set(set.__iter__(value))),
    (bytes, lambda value: bytes.__add__(value, b"")),
)


class Decoder:
    """Reads one value.

    Args:
        data: Its bytes.
        stand_in: Given the number, the callability and the type name of an opaque object, returns what stands for it.
        deepest: How many levels of nesting it may have.
    """

    def __init__(self, data: bytes, stand_in: "StandInFor", deepest: int = MAX_DEPTH) -> None:
        self.data = data
        self.position = 0
        self.stand_in = stand_in
        self.deepest = deepest

    def whole(self) -> object:
        """The value, which must be all there is."""
        value = self.value(0)
        if self.position != len(self.data):
            raise Malformed("something follows the value")
        return value

    def field(self) -> bytes:
        """The bytes up to the next semicolon."""
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
        """As many bytes as the length before them says."""
        size = self.count()
        block = self.data[self.position : self.position + size]
        self.position += size
        return block

    def text(self) -> str:
        """A string."""
        if self.take() != b"s":
            raise Malformed("no text where one must be")
        return str(self.block(), "utf-8", "surrogatepass")

    def take(self) -> bytes:
        """One byte."""
        byte = self.data[self.position : self.position + 1]
        self.position += 1
        return byte

    def value(self, depth: int) -> "Any":
        """The next value."""
        if depth > self.deepest + 2:
            raise Malformed("nested too deeply")
        tag = self.take()
        if tag == b"i":
            return int(self.field(), 16)
        if tag == b"s":
            return str(self.block(), "utf-8", "surrogatepass")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"f":
            return float(self.field())
        if tag == b"n":
            return __import__("math").nan
        if tag in _CONTAINERS:
            return _CONTAINERS[tag]([self.value(depth + 1) for _ in range(self.count())])
        if tag == b"d":
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(self.count())}
        if tag == b"b" or tag == b"B":
            return bytes(self.block()) if tag == b"b" else bytearray(self.block())
        if tag == b"c":
            return complex(float(self.field()), float(self.field()))
        if tag == b"r":
            return range(int(self.field(), 16), int(self.field(), 16), int(self.field(), 16))
        if tag == b"q":
            return slice(*self.parts(depth))
        if tag == b"x":
            return self.rebuilt(depth)
        if tag == b"h":
            number, is_callable = int(self.field(), 16), self.take() == b"c"
            return self.stand_in(number, is_callable, self.text())
        raise Malformed(f"no value starts with {tag!r}")

    def rebuilt(self, depth: int) -> object:
        """An object of one of the known classes, made from its parts."""
        place = (self.text(), self.text())
        if place not in REBUILT:
            raise Malformed("an unknown class")
        parts = self.parts(depth)
        # These classes also accept texts that stand for numbers as long as memory; we never send such.
        allowed = _ALLOWED_PARTS.get(place, (int,))
        if not parts or [part for part in parts if type(part) not in allowed]:
            raise Malformed("parts that were never sent")
        return getattr(__import__(place[0]), place[1])(*parts)

    def parts(self, depth: int) -> "tuple[Any, ...]":
        """A tuple."""
        parts = self.value(depth + 1)
        if type(parts) is not tuple:
            raise Malformed("no parts")
        return parts


_ALLOWED_PARTS: "dict[tuple[str, str], tuple[type, ...]]" = {
    ("collections", "Counter"): (dict,),
    ("collections", "OrderedDict"): (list,),
    ("collections", "defaultdict"): (type(None), dict),
    ("collections", "deque"): (list, type(None), int),
    ("decimal", "Decimal"): (str,),
}
_CONSTANTS: "dict[bytes, object]" = {b"N": None, b"T": True, b"F": False, b"E": Ellipsis}
_CONTAINERS: "dict[bytes, Callable[[list[Any]], object]]" = {b"l": list, b"t": tuple, b"S": set, b"Z": frozenset}


def decode(data: bytes, stand_in: "StandInFor", deepest: int = MAX_DEPTH) -> "Any":
    """The value that `encode` made bytes of; see `Decoder` for the arguments."""
    return Decoder(data, stand_in, deepest).whole()
