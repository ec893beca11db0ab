"""The protocol of providers, for packages that add a runtime by an entry point of the group `sandrl.providers`.

These names stay as they are within a major version. The docstrings of `Provider`, `Connection`, `Client` and `Sandbox`
say what each part promises, and `sandrl runtime check NAME` tests it.
"""

from __future__ import annotations

from sandrl.errors import (
    AuthenticationError,
    InfrastructureError,
    NoRoomError,
    NotRunningError,
    ServiceError,
    UnknownSandboxError,
    UsageError,
)
from sandrl.events import Emit, RuntimeStarting, ignore
from sandrl.runtime.network import Network
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.owner import OwnerFacts
from sandrl.sandboxes.providers.protocol import (
    ENDED_STATUSES,
    PENDING_STATUSES,
    STATUSES,
    AttachedProgram,
    Client,
    Connection,
    Need,
    Output,
    Packages,
    Provider,
    Result,
    Sandbox,
    SandboxInfo,
    SharedDirectory,
    UnreachableNode,
)
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import NetworkMode, Settings

__all__ = [
    "ENDED_STATUSES",
    "PENDING_STATUSES",
    "STATUSES",
    "USUAL",
    "AttachedProgram",
    "AuthenticationError",
    "Client",
    "Command",
    "Connection",
    "Emit",
    "InfrastructureError",
    "Need",
    "Network",
    "NetworkMode",
    "NoRoomError",
    "NotRunningError",
    "Output",
    "OwnerFacts",
    "Packages",
    "Provider",
    "Result",
    "RuntimeStarting",
    "Sandbox",
    "SandboxInfo",
    "ServiceError",
    "Settings",
    "Shape",
    "SharedDirectory",
    "UnknownSandboxError",
    "UnreachableNode",
    "UsageError",
    "ignore",
]
