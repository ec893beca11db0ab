"""Time limits: of a whole completion, and of a single check of it.

The design decision: one timer of the kernel, set to whichever of the two ends first. Its signal raises, so nothing has
to ask how late it is.
"""

# The style is explained in `descriptors.py`.

import _signal  # type: ignore[import-not-found]

MYPY = False
if MYPY:
    from typing import Any
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.descriptors import DeadlineReached


class Clock:
    """What is left of a completion's time.

    Args:
        seconds: All of it.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.given = 0.0

    def start(self, most: "float | None" = None) -> None:
        """Has `DeadlineReached` raised when the time, or `most` seconds of it, are over."""
        self.given = self.left if most is None else min(self.left, most)
        _signal.setitimer(_signal.ITIMER_REAL, max(self.given, 0.001))

    def stop(self) -> None:
        """Stops counting."""
        rest, _ = _signal.setitimer(_signal.ITIMER_REAL, 0)
        self.left -= self.given - rest
        self.given = 0.0


def is_running() -> bool:
    """Whether the timer has not run out: who catches everything catches its exception, too."""
    return bool(_signal.getitimer(_signal.ITIMER_REAL)[0])


class Interruption:
    """Raises `DeadlineReached` on a signal while it is open, and swallows the signal otherwise."""

    def __init__(self, number: int) -> None:
        self.is_open = False
        _signal.signal(number, self.on_signal)

    def on_signal(self, number: int, frame: "Any") -> None:
        """Handles the signal."""
        if self.is_open:
            self.is_open = False
            raise DeadlineReached


def too_long(seconds: float) -> str:
    """What is said of code that took more than its time."""
    return f"it ran longer than {seconds:g} s"
