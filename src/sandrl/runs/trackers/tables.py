"""Tables of completions for trackers: prompt, completion, reward, checks and reason.

They are read from the run directory, where secrets are masked. Of the completions only places in files are kept until a
table is made, so memory does not grow with a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sandrl.files import open_regular
from sandrl.runs.explanations import failed_checks
from sandrl.runs.reader import MAX_LINE_BYTES, RunReader, row_files
from sandrl.runs.rows import TrajectoryRow

COLUMNS = ("task_id", "prompt", "completion", "reward", "passed", "total", "status", "reason")
"""The columns of a table of completions."""

MAX_ROWS = 100
"""The first completions of a step or an evaluation are in its table, no more."""

MAX_CHARACTERS = 8_000
"""The middle of a longer text is left out."""

TRAINING = "table/completions"
EVALUATION = "table/held_out"

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values; each has one for every column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(slots=True)
class _Places:
    # Where the completions of a table are: index, file and offset of each, by what a later row replaces.
    attempt: int
    found: dict[tuple[Path, int], tuple[int, Path, int]]


class CompletionTables:
    """The tables of a run that may still grow; `every` is the number of steps from one to the next, 0 for none.

    Every evaluation of a policy has a table, too.
    """

    def __init__(self, run: Path, every: int) -> None:
        self._run = run
        self._every = every
        self._read: defaultdict[Path, int] = defaultdict(int)
        self._places: dict[tuple[int, bool], _Places] = {}

    def has(self, step: int) -> bool:
        """Whether a step has a table."""
        if self._every:
            self._look()
        return any((step, held_out) in self._places for held_out in (False, True))

    def at(self, step: int) -> dict[str, Table]:
        """The tables of a step by name; none where nothing is wanted, or nothing was completed."""
        if not self.has(step):
            return {}
        named = ((TRAINING, False), (EVALUATION, True))
        return {
            name: self._table(places)
            for name, held_out in named
            if (places := self._places.get((step, held_out))) is not None
        }

    def _look(self) -> None:
        # Reads what has been appended since the last time.
        for path in row_files(self._run, TrajectoryRow.file):
            with open(open_regular(path), "rb") as file:
                file.seek(self._read[path])
                while (line := file.readline(MAX_LINE_BYTES + 1)).endswith(b"\n"):
                    self._note(line, path)
                    self._read[path] += len(line)

    def _note(self, line: bytes, path: Path) -> None:
        try:
            row = json.loads(line)
            held_out, attempt, index = bool(row.get("held_out")), int(row.get("attempt", 1)), int(row["index"])
            # Scoring without training is step 0, and a later attempt at it does single completions again.
            is_of_step, step = row.get("step") is not None, int(row.get("step") or 0)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        if not held_out and step % self._every:
            return
        places = self._places.setdefault((step, held_out), _Places(attempt, {}))
        if attempt > places.attempt and is_of_step:
            places.attempt, places.found = attempt, {}
        places.found[path, self._read[path] if is_of_step else -1 - index] = (index, path, self._read[path])

    def _table(self, places: _Places) -> Table:
        problems = RunReader(self._run).problems()
        rows = []
        for _, path, offset in sorted(places.found.values(), key=lambda place: place[0])[:MAX_ROWS]:
            with open(open_regular(path), "rb") as file:
                file.seek(offset)
                line = file.readline(MAX_LINE_BYTES + 1)
            try:
                row = TrajectoryRow.model_validate_json(line)
            except ValidationError:
                continue
            problem = problems.get(row.problem or "")
            rows.append(
                (
                    row.task_id,
                    _bounded("" if problem is None else problem.prompt),
                    _bounded(_written(row)),
                    row.reward,
                    row.passed,
                    row.total,
                    row.status,
                    _bounded(row.detail or next((check.detail for check in failed_checks(row, problems)), "")),
                )
            )
        return Table(COLUMNS, tuple(rows))


def _written(row: TrajectoryRow) -> str:
    # What the policy has written: a completion, or the messages of an episode with what it got from its tools.
    if row.completion is not None or not row.messages:
        return row.completion or row.code or ""
    said = []
    for message in row.messages:
        if message.role in ("assistant", "tool"):
            calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
            said.append(f"[{message.role}] {message.content}{calls}")
    return "\n".join(said)


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
