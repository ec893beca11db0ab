"""The final state of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class State:
    digest: str
    image: str
    path: Path | None = None

    @classmethod
    def load(cls, path: str) -> Self:
        raise NotImplementedError
