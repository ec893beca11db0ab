"""A base class for objects that are closed by `close` or at the end of a `with` block."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closing:
    """A base of whatever is closed; however its `with` block ends, the error goes on."""

    @abstractmethod
    def close(self) -> None:
        """Ends it; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
