"""The state of a stage of a build: its layers so far, and what the configuration of its image says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandrl.errors import InputError
from sandrl.runtime.images.dockerfile import instructions as of
from sandrl.runtime.images.dockerfile.instructions import Instruction
from sandrl.runtime.images.dockerfile.words import number_of
from sandrl.runtime.images.store import StoredImage

_SHELL = ("/bin/sh", "-c")
_MOST_PORTS = 65_536


@dataclass(slots=True)
class State:
    """A stage so far.

    Attributes:
        key: Of its layers.
        image: A stored image with these layers; None for none.
        config: What the configuration of the image says about its programs.
        arguments: The values of `ARG`s.
        sets_command: Whether the stage has a `CMD`.
    """

    key: str
    image: StoredImage | None
    config: dict[str, Any]
    author: str
    history: list[dict[str, Any]]
    arguments: dict[str, str] = field(default_factory=dict)
    sets_command: bool = False

    @property
    def environment(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.config.get("Env") or () if "=" in each)

    @property
    def variables(self) -> dict[str, str]:
        return self.arguments | self.environment

    @property
    def directory(self) -> str:
        return str(self.config.get("WorkingDir") or "/")

    @property
    def shell(self) -> tuple[str, ...]:
        return tuple(self.config.get("Shell") or _SHELL)

    def note(self, instruction: Instruction, *, is_empty: bool) -> None:
        """Adds an instruction to the history, which is `is_empty` if it has no layer."""
        entry: dict[str, Any] = {"created_by": instruction.text}
        self.history = [*self.history, {**entry, "empty_layer": True} if is_empty else entry]

    def configure(self, instruction: Instruction, expanded: Callable[[str], str]) -> None:
        """Does an instruction that changes no files; `expanded` replaces the variables of a word.

        Raises:
            InputError: If a value is malformed.
        """
        config = self.config
        match instruction:
            case of.Variables(keyword="ENV"):
                pairs = _pairs(instruction, expanded)
                config["Env"] = [f"{name}={value}" for name, value in (self.environment | pairs).items()]
            case of.Variables():
                config["Labels"] = {**(config.get("Labels") or {}), **_pairs(instruction, expanded)}
            case of.Program(keyword="SHELL"):
                config["Shell"] = [*instruction.command]
            case of.Program():
                words = instruction.command
                command = [*self.shell, words] if isinstance(words, str) else [*words]
                key = "Entrypoint" if instruction.keyword == "ENTRYPOINT" else "Cmd"
                config[key] = command
                if key == "Cmd":
                    self.sets_command = True
                elif not self.sets_command:
                    # The arguments of the base image are for its own program.
                    config.pop("Cmd", None)
            case of.HealthCheck():
                config["Healthcheck"] = dict(instruction.document)
            case of.Setting():
                self._set(instruction, [expanded(each) for each in instruction.values])
        self.note(instruction, is_empty=True)

    def _set(self, instruction: of.Setting, values: list[str]) -> None:
        config = self.config
        match instruction.keyword:
            case "USER":
                config["User"] = values[0]
            case "STOPSIGNAL":
                config["StopSignal"] = values[0]
            case "MAINTAINER":
                self.author = values[0]
            case "VOLUME":
                config["Volumes"] = {**(config.get("Volumes") or {}), **{each: {} for each in values if each}}
            case "EXPOSE":
                ports = [port for each in values for word in each.split() for port in _ports(word)]
                config["ExposedPorts"] = {**(config.get("ExposedPorts") or {}), **{each: {} for each in ports}}


def checked(config: dict[str, Any], described: str) -> dict[str, Any]:
    """The configuration of an image, of which the store has read some fields only.

    Raises:
        InputError: If another field that a build reads is malformed.
    """
    for name in ("Labels", "Volumes", "ExposedPorts"):
        if not isinstance(config.get(name), dict | None):
            raise InputError(f"its {name} are not a mapping", path=described)
    shell = config.get("Shell") or []
    if not isinstance(shell, list) or not all(isinstance(each, str) for each in shell):
        raise InputError("its Shell is not a list of strings", path=described)
    return config


def _pairs(instruction: of.Variables, expanded: Callable[[str], str]) -> dict[str, str]:
    return {expanded(name): expanded(value or "") for name, value in instruction.pairs}


def _ports(word: str) -> list[str]:
    text, _, protocol = word.partition("/")
    protocol = protocol.lower() or "tcp"
    first, dash, last = text.partition("-")
    start = number_of(first, "a port")
    end = number_of(last, "a port") if dash else start
    if not start <= end < _MOST_PORTS or protocol not in ("tcp", "udp", "sctp"):
        raise InputError(f"{word[:40]!r} is not a port, such as 80 or 80/udp")
    return [f"{each}/{protocol}" for each in range(start, end + 1)]
