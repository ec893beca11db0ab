"""A step of a build that runs a program, as a build asks the daemon for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

OUTPUT, RESULT = b"o", b"r"
"""How messages of the daemon begin: a piece of the output, and at last a `StepResult` in JSON."""


@dataclass(frozen=True, slots=True)
class StepVolume:
    """A directory of a step that is not part of the image.

    Attributes:
        content: A tar archive of what is in it at first; empty for nothing.
        kept: Where a tar archive of it is written after a success; empty for nowhere.
    """

    target: str
    content: str = ""
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A program, and the image whose next layer is what it changes.

    Attributes:
        image: The digest of a stored image.
        text: The instruction, for the history of the image.
        environment: All of its variables.
        user: As `USER` names it.
        network: `public` or `none`.
        private_hosts: Hosts that it may reach although they belong to this machine or its networks.
        recording: The prepared recording that its connections are attached to; empty for none.
        files: A tar archive of files to put into the root; empty for none.
        left_out: Paths that do not become part of the layer.
    """

    image: str
    text: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    user: str
    network: str
    private_hosts: tuple[str, ...] = ()
    recording: str = ""
    files: str = ""
    volumes: tuple[StepVolume, ...] = ()
    left_out: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The step as values that JSON has."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Step:
        """The step of a `document`."""
        volumes = tuple(StepVolume(**each) for each in document["volumes"])
        lists = {name: tuple(document[name]) for name in ("arguments", "private_hosts", "left_out")}
        return cls(**{**document, **lists, "volumes": volumes})


@dataclass(frozen=True, slots=True)
class StepResult:
    """How the program of a step ended.

    Attributes:
        digest: The image with its layer; empty if it failed.
    """

    exit_code: int
    digest: str = ""
