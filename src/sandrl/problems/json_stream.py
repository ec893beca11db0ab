"""Reads a large JSON document value by value: entries of an array, members of an object.

A value is decoded when its last character has been read, so memory holds one value and not the document. The standard
decoder decodes it; this module reads more text as long as the value is not complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from sandrl.errors import InputError
from sandrl.jsonl import MAX_PROBLEM_BYTES, READ_FAILURES, last_field, object_decoder, read_failure

_CHUNK_CHARACTERS = 1 << 20
_BLANKS = re.compile(r"\s*")
# The longest token that the end of a piece can cut without the decoder saying so: an escaped surrogate pair.
_TOKEN_CHARACTERS = 16


class JsonStream:
    """A document that is read from its beginning to its end, once; no value may have more than `most` characters."""

    def __init__(
        self, stream: IO[str], path: str | Path, *, most: int = MAX_PROBLEM_BYTES, is_foreign: bool = False
    ) -> None:
        self._stream = stream
        self._path = path
        self._most = most
        self._decoder = object_decoder(is_foreign=is_foreign)
        self._buffer, self._position = "", 0
        self.number = 1
        """The entry that is being read, for messages."""

    def entries(self) -> Iterator[Any]:
        """The entries of the array that comes next, each counted."""
        self.take("[")
        while self.next_character() != "]":
            value = self.value("the array is cut off")
            yield value
            del value
            if (character := self.next_character()) not in ",]":
                raise self._broken("expecting `,` or `]` after it")
            self.number += 1
            if character == ",":
                self.take(",")
        self.take("]")

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; the caller reads the value of each before it goes on."""
        self.take("{")
        while self.next_character("the object is cut off") != "}":
            key = self.value("the object is cut off")
            if not isinstance(key, str) or self.next_character("the object is cut off") != ":":
                raise self._broken("expecting a name and `:`")
            self.take(":")
            yield key
            if (character := self.next_character("the object is cut off")) not in ",}":
                raise self._broken(f"expecting `,` or `}}` after the value, in field {key!r:.100}")
            if character == ",":
                self.take(",")
        self.take("}")

    def next_character(self, cut: str = "the array is cut off") -> str:
        """The first character that is no blank; it stays."""
        while (position := _BLANKS.match(self._buffer, self._position).end()) == len(self._buffer):  # type: ignore[union-attr]
            self._buffer, self._position = self._read(_CHUNK_CHARACTERS), 0
            if not self._buffer:
                raise self._broken(cut)
        self._position = position
        return self._buffer[position]

    def take(self, character: str) -> None:
        """Passes over a character that comes next."""
        if self.next_character() != character:
            raise self._broken(f"expecting `{character}`")
        self._position += 1

    def refuse_more(self) -> None:
        """Refuses what stands after the document."""
        while _BLANKS.match(self._buffer, self._position).end() == len(self._buffer):  # type: ignore[union-attr]
            self._buffer, self._position = self._read(_CHUNK_CHARACTERS), 0
            if not self._buffer:
                return
        raise self._broken("there is more after the end of the document")

    def value(self, cut: str = "the array is cut off") -> Any:
        """Decodes the value that comes next."""
        self.next_character(cut)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
                # A number at the end of what was read may go on.
                reason = "" if end < len(self._buffer) else cut
            except json.JSONDecodeError as error:
                reason = f"{error.msg.removesuffix(' at')}{last_field(error)}"
                is_string = error.msg.startswith("Unterminated string")
                if not is_string and error.pos < len(self._buffer) - _TOKEN_CHARACTERS:
                    # More text does not change this.
                    raise self._broken(reason) from error
            except RecursionError as error:
                raise self._broken("nested too deeply") from error
            except ValueError as error:
                raise self._broken(str(error).partition(";")[0]) from error
            if not reason:
                self._position = end
                return value
            self._buffer, self._position = self._buffer[self._position :], 0
            if len(self._buffer) > self._most:
                raise self._broken(f"{reason}, or it is longer than {self._most >> 20} MiB")
            # As much again, so that a large value is not decoded from its beginning for each piece.
            if not (more := self._read(max(len(self._buffer), _CHUNK_CHARACTERS))):
                raise self._broken(reason if reason == cut else f"{reason}; the text is cut off")
            self._buffer += more
            del more

    def _read(self, characters: int) -> str:
        try:
            return self._stream.read(characters)
        except UnicodeDecodeError as error:
            raise InputError("invalid UTF-8", path=self._path, line=self.number) from error
        except READ_FAILURES as error:
            raise InputError(read_failure(error), path=self._path, line=self.number) from error

    def _broken(self, reason: str) -> InputError:
        return InputError(f"broken JSON: {reason}", path=self._path, line=self.number)
