"""Protects the objects of a process from use in its forked children.

Only the thread that calls `fork` exists in the child. The SDK's event loop and gRPC's own threads do not, and gRPC
cannot be started again there: a new channel in the child of a process that has used gRPC waits indefinitely (grpcio
1.80), and with `GRPC_ENABLE_FORK_SUPPORT=1` gRPC ends the child itself, with exit code 64. So such a child gets an
error instead of a sandbox. The child of a process that has not used gRPC works like any other process.

Objects that belong to one process are registered: each is called once in every forked child, where it replaces its
locks (another thread may have held them during the fork) and drops everything that still belongs to the parent.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from sandrl.errors import ForkedProcessError
from sandrl.files import check_descriptors


class Inherited(Protocol):
    """An object that a forked child must not use as its parent does."""

    def after_fork(self) -> None:
        """Adapts the child's copy. Runs in the child, in its only thread; must not wait or raise."""


class _Process:
    has_used_grpc = False
    is_cut_off = False


_watched: WeakSet[Inherited] = WeakSet()


def watch(inherited: Inherited) -> None:
    """Calls the object's `after_fork` in every forked child, for as long as the object lives."""
    _watched.add(inherited)


def begin_grpc() -> None:
    """Says that this process is about to use gRPC.

    Switches gRPC's own fork handlers off, unless the user has decided about them. gRPC skips them at a fork while its
    threads are busy; the next fork in the child runs them with half of their state, and a signal ends the child.

    Raises:
        ForkedProcessError: If it cannot, because it was forked from a process that had used gRPC.
        UsageError: If it may not open enough files.
    """
    if _Process.is_cut_off:
        raise ForkedProcessError(
            "this process was forked from a process that had used sandboxes, so it cannot use sandboxes"
        )
    check_descriptors()
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    _Process.has_used_grpc = True


def _adapt() -> None:
    _Process.is_cut_off = _Process.is_cut_off or _Process.has_used_grpc
    for inherited in list(_watched):
        inherited.after_fork()


os.register_at_fork(after_in_child=_adapt)
