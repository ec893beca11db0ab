"""Formats a run's flags: the observation, the metric, the threshold, and what to try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sandrl.cli.flags import plain_flags, spelled
from sandrl.runs.metrics import Unit

if TYPE_CHECKING:
    from sandrl.events import FlagRaised
    from sandrl.runs.flags import Flag


def raised_line(event: FlagRaised) -> str:
    """A flag that is raised while a run is being written, as a line; steps are counted from 1, as beside it."""
    again = " again" if event.times > 1 else ""
    return (
        f"Flag at step {event.step + 1}{again}: {event.name}: {event.message} ({_measured(event)}); try: {_hint(event)}"
    )


def flag_lines(flags: Iterable[Flag]) -> list[str]:
    """The flags of a run, three lines for each; nothing in them is a model's text."""
    return [
        line
        for flag in flags
        for line in (f"! {flag.message}", f"  {_hint(flag)}", f"  {flag.name}: {_measured(flag)}, {_steps(flag)}")
    ]


def _measured(flag: Flag | FlagRaised) -> str:
    names = ", ".join(flag.metrics)
    if flag.value is None or flag.threshold is None:
        return names
    return f"{names}: {_shown(flag.value, flag.unit)}, threshold {_shown(flag.threshold, flag.unit)}"


def _shown(value: float, unit: str) -> str:
    return f"{value:.0%}" if unit == Unit.SHARE else f"{value:.3g}"


def _steps(flag: Flag) -> str:
    one = flag.first_step == flag.last_step
    return f"step {flag.last_step}" if one else f"steps {flag.first_step} to {flag.last_step}"


def _hint(flag: Flag | FlagRaised) -> str:
    return spelled(flag.hint, flag.fields, plain_flags(flag.fields))
