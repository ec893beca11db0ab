"""The record of a user's cards, by the content of the problems, and other files of cards.

A card follows its problem wherever its file is, and ends when the content changes. The record is a file in the state
directory, to which commands append; a later one of them makes one card of those of the same content.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from sandrl.errors import InputError, ServiceError
from sandrl.files import write_whole
from sandrl.jsonl import BadRow, Row, RowAppender, read_rows
from sandrl.runs.cards import Card, merged
from sandrl.runs.index import find_run
from sandrl.runs.reader import MAX_LINE_BYTES, row_files
from sandrl.runs.rows import SCHEMA

FILE = f"{Card.file}.jsonl"
"""The name of the file with cards, in the state directory as in a run directory."""

_COMPACTED_BYTES = 1 << 20
_MOST_BYTES = 64 << 20


class CardRecord:
    """The cards in a user's state directory; processes may add to it at once."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE
        self._is_compacted = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever measured."""
        return not self._path.exists()

    def read(self) -> dict[str, Card]:
        """The card of each content, by its `key`; lines that cannot be read are left out.

        Raises:
            InputError: If the file cannot be read at all.
        """
        return {} if self.is_empty else merged(_each_card(self._path))

    def add(self, cards: Iterable[Card]) -> None:
        """Appends cards; each adds what it has measured to what is known of its content.

        Raises:
            ServiceError: If the file cannot be written.
        """
        rows = [card.to_json() for card in cards]
        if not rows:
            return
        with self._locked():
            if not self._is_compacted:
                self._compact()
                self._is_compacted = True
            with RowAppender(self._path) as file:
                for row in rows:
                    file.append(row)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A file of its own: that of the cards is replaced.
        path = self._path.with_suffix(".lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ServiceError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _compact(self) -> None:
        # One row of each content, and those of newer versions as they are. Without room on the disk all stay.
        with suppress(OSError, InputError):
            size = self._path.stat().st_size
            if size <= _COMPACTED_BYTES:
                return
            for left in self._path.parent.glob(f".{FILE}.*"):
                left.unlink()
            newer: dict[str, bytes] = {}
            cards = merged(_each_card(self._path, newer))
            rows = [*newer.values(), *(card.to_json() for card in cards.values())]
            while (left_bytes := sum(map(len, rows))) > _MOST_BYTES:
                # The cards that were measured longest ago.
                rows = rows[len(rows) // 10 + 1 :]
            if left_bytes <= size // 2 or size > _MOST_BYTES:
                write_whole(self._path, (row + b"\n" for row in rows))


def cards_at(place: str, state_dir: Path, runs_dir: Path) -> dict[str, Card]:
    """The cards of a run, of a file, or of a directory with a file of cards, by `key`.

    Args:
        place: A path, or the name of a run.

    Raises:
        InputError: If there is no such run or file, or it has no card.
    """
    path = Path(place)
    if path.is_file():
        cards = merged(_each_card(path))
    else:
        found = path if path.is_dir() and row_files(path, Card.file) else find_run(place, state_dir, runs_dir)
        path, cards = found / FILE, cards_of_run(found)
    if not cards:
        hint = "name a run of sandrl problems validate or sandrl redteam, or its cards.jsonl"
        raise InputError("has no cards", path=path, hint=hint, fields=("cards",))
    return cards


def begins_with_a_card(file: Path) -> bool:
    """Whether the first line of a file is a card, and no problem.

    Raises:
        InputError: If the file cannot be read at all.
    """
    rows = read_rows(file, max_line_bytes=MAX_LINE_BYTES, is_stored=True)
    return isinstance(row := next(rows, None), Row) and {"digest", "kind", "measured_at"} <= row.value.keys()


def cards_of_run(run: Path) -> dict[str, Card]:
    """The cards in a run directory, by `key`."""
    return merged(card for file in row_files(run, Card.file) for card in _each_card(file))


def _each_card(file: Path, newer: dict[str, bytes] | None = None) -> Iterator[Card]:
    for row in read_rows(file, max_line_bytes=MAX_LINE_BYTES, is_stored=True):
        if isinstance(row, BadRow):
            continue
        schema, digest = row.value.get("schema"), row.value.get("digest")
        if isinstance(schema, int) and schema > SCHEMA:
            if newer is not None and isinstance(digest, str):
                newer[f"{digest}@{row.value.get('verifier')}"] = json.dumps(row.value).encode("ascii")
            continue
        with suppress(ValidationError):
            yield Card.model_validate(row.value)
