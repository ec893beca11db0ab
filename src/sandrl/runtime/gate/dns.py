"""Questions to a name server, and its answers (RFC 1035), as far as programs need them to connect."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

_HEADER = struct.Struct("!6H")
_ANSWER, _WANTS_RECURSION, _HAS_RECURSION = 0x8000, 0x0100, 0x0080
_OPCODE = 0x7800
_MOST_NAME, _MOST_LABEL = 253, 63
_INTERNET = 1
_OF_NAMES = dict.fromkeys(map(ord, "abcdefghijklmnopqrstuvwxyz0123456789-_."))
A, AAAA = 1, 28
_TTL_SECONDS = 60
_TO_NAME = 0xC000 | _HEADER.size


class Code(IntEnum):
    """How an answer begins."""

    FINE = 0
    FAILED = 2
    NO_SUCH_NAME = 3


class MessageError(ValueError):
    """Bytes that are no question."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for one name.

    Attributes:
        name: In lower case, without the last dot.
        kind: The type of record: `A`, `AAAA`, or another.
    """

    number: int
    flags: int
    name: str
    kind: int
    text: bytes

    @classmethod
    def read(cls, message: bytes) -> Self:
        """Reads a message.

        Raises:
            MessageError: If it is anything but one question about the Internet.
        """
        try:
            number, flags, questions, *_ = _HEADER.unpack_from(message)
            if flags & (_ANSWER | _OPCODE) or questions != 1:
                raise MessageError("not one question")
            labels, place = [], _HEADER.size
            while length := message[place]:
                if length > _MOST_LABEL or place + 1 + length > len(message):
                    raise MessageError("a label that is too long")
                labels.append(message[place + 1 : place + 1 + length].decode("ascii").lower())
                place += 1 + length
            kind, group = struct.unpack_from("!2H", message, place + 1)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MessageError(f"no question: {error}") from error
        name = ".".join(labels)
        if group != _INTERNET or not name or len(name) > _MOST_NAME or any("." in label for label in labels):
            raise MessageError("not a name of the Internet")
        return cls(number, flags, name, kind, message[_HEADER.size : place + 5])

    @property
    def is_of_host(self) -> bool:
        """Whether its name has only characters that names of hosts and services have."""
        return not self.name.translate(_OF_NAMES)

    def answer(self, code: Code, address: bytes = b"") -> bytes:
        """The answer: with an address, which is of the type that was asked for, or without any record."""
        flags = _ANSWER | _HAS_RECURSION | self.flags & _WANTS_RECURSION | code
        record = b""
        if address:
            record = struct.pack("!3HIH", _TO_NAME, self.kind, _INTERNET, _TTL_SECONDS, len(address)) + address
        return _HEADER.pack(self.number, flags, 1, bool(address), 0, 0) + self.text + record
