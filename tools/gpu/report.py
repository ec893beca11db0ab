"""The report of a script: checks that pass or fail, measurements, and the versions of all libraries.

The text is Markdown, so that it can be copied into an issue. Values of secrets in the
environment are masked in it, and the home directory is written as `~`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 8


class State(StrEnum):
    """How a check ended."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    """Only a GPU can show it, and the script was tried without one."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was verified.

    Attributes:
        name: What should hold.
        state: Whether it does.
        detail: What was found.
    """

    name: str
    state: State
    detail: str = ""


def checked(name: str, holds: bool, detail: str = "") -> Check:
    """A check that passes if its condition holds."""
    return Check(name, State.PASS if holds else State.FAIL, detail)


@dataclass(slots=True)
class Report:
    """All that a script found out.

    Attributes:
        title: What was verified.
        commands: The command lines that were run, in order.
        machine: The GPU, the driver and the versions of libraries, by name.
        measured: The numbers of each run, by the name of the run and of the number.
        checks: What was verified, in order.
    """

    title: str
    commands: list[str] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=dict)
    measured: dict[str, Mapping[str, str]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if checks were made and none failed, else 1."""
        return int(not self.checks or any(check.state is State.FAIL for check in self.checks))

    def text(self) -> str:
        """The report as Markdown."""
        runs = list(self.measured)
        names = list(dict.fromkeys(name for numbers in self.measured.values() for name in numbers))
        rows = [[name, *(self.measured[run].get(name, "-") for run in runs)] for name in names]
        states = [check.state for check in self.checks]
        parts = [
            f"## {self.title}",
            _table(["machine", ""], [[name, value] for name, value in self.machine.items()]),
            "\n".join(["```sh", *self.commands, "```"]),
            _table(["measured", *runs], rows) if rows else "Nothing was measured.",
            "\n".join(_line(check) for check in self.checks),
            f"{', '.join(f'{states.count(state)} {state}' for state in State)}: {'FAIL' if self.exit_code else 'PASS'}",
        ]
        return masked("\n\n".join(parts))

    def write(self, path: Path) -> None:
        """Writes the report as one JSON document."""
        document = {**asdict(self), "exit_code": self.exit_code}
        path.write_text(masked(json.dumps(document, indent=2, ensure_ascii=False)) + "\n", encoding="utf-8")


def masked(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Text without secrets and without the name of the user's home directory.

    Args:
        text: Any text.
        environment: The variables whose values are secrets if their name says so; those of this process by default.
    """
    known = os.environ if environment is None else environment
    secrets = [
        value
        for name, value in known.items()
        if len(value) >= _SHORTEST_SECRET and any(word in name.upper() for word in _SECRET_NAMES)
    ]
    # The longest first: one may contain another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    home = known.get("HOME", "").rstrip("/")
    return text.replace(home, "~") if home.count("/") > 1 else text


def _line(check: Check) -> str:
    return f"- {check.state} {check.name}" + (f": {check.detail}" if check.detail else "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
