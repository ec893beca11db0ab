"""Runs the work of a command: with the settings of the environment, progress output, and handling of interrupts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from sandrl.cli import notify, signals
from sandrl.cli.progress import Progress
from sandrl.events import Emit
from sandrl.settings import Settings, load_settings

if TYPE_CHECKING:
    from sandrl.sandboxes import Interrupt

_Request = TypeVar("_Request", contravariant=True)
_Finished = TypeVar("_Finished", covariant=True)


class Work(Protocol[_Request, _Finished]):
    """What the library does for a command."""

    def __call__(self, request: _Request, settings: Settings, *, emit: Emit, interrupt: Interrupt) -> _Finished:
        """Does it; told what happens is `emit`, and `interrupt` says when to stop."""


def carry_out(work: Work[_Request, _Finished], request: _Request, show: Progress) -> _Finished:
    """Does a command's work, shows how it goes, and passes signals to it meanwhile."""
    from sandrl.sandboxes import Interrupt

    interrupt = Interrupt()
    with show, signals.passed_to(interrupt):
        return work(request, load_settings(), emit=notify.watched(show), interrupt=interrupt)
