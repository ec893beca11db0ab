"""`sandrl images build`: builds an image of a Dockerfile, and shows how far it is."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.output import Json
from sandrl.cli.progress import LiveView, Remarks
from sandrl.cli.text import visible
from sandrl.errors import InterruptedRunError, UsageError
from sandrl.events import BuildFailed, BuildOutput, BuildStep, Emit, Event
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SHOWN_LINES = 6


class Form(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    PLAIN = "plain"


class BuildNetwork(StrEnum):
    """The network of the programs of a build."""

    PUBLIC = "public"
    NONE = "none"


def build(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The directory of the Dockerfile, or of a Compose file with one service.",
            file_okay=False,
        ),
    ],
    tag: Annotated[
        str, typer.Option("--tag", "-t", metavar="NAME", help="The name of the image; default: that of a Compose file.")
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Another Dockerfile, or Compose file.", dir_okay=False),
    ] = None,
    build_arg: Annotated[
        list[str] | None,
        typer.Option("--build-arg", metavar="NAME=VALUE", help="The value of an ARG; NAME alone takes the variable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret", metavar="id=ID,src=FILE", help="A secret for RUN --mount=type=secret; or id=ID,env=NAME."
        ),
    ] = None,
    target: Annotated[
        str, typer.Option("--target", metavar="STAGE", help="The stage to build; default: the last.")
    ] = "",
    platform: Annotated[
        str, typer.Option("--platform", metavar="OS/ARCHITECTURE", help="Only that of this machine is possible.")
    ] = "",
    network: Annotated[
        BuildNetwork, typer.Option("--network", help="The network of programs of the build.")
    ] = BuildNetwork.PUBLIC,
    private_host: Annotated[
        list[str] | None,
        typer.Option(
            "--private-host",
            metavar="HOST",
            help="A host of this machine or its networks that programs may reach: a package mirror; repeatable.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="DIR", help="Keep all downloads of the build in this directory.", file_okay=False
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="DIR",
            help="Take all downloads from this directory, without a network.",
            file_okay=False,
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Take each step again.")] = False,
    progress: Annotated[
        Form, typer.Option("--progress", help="`plain` prints all output; `auto` does unless this is a terminal.")
    ] = Form.AUTO,
    json_: Json = False,
) -> None:
    """Build an image of a Dockerfile and store it. Steps that are stored are not taken again."""
    from sandrl.cli.images import say_stored
    from sandrl.runtime.images.builds import build_image, find_build, parse_arguments, parse_secrets
    from sandrl.runtime.images.references import parse_reference
    from sandrl.runtime.recording.recorder import RecordingMode

    environment = os.environ
    if record is not None and replay is not None:
        raise UsageError("--record and --replay exclude each other")
    recording = None
    if record is not None:
        recording = record, RecordingMode.RECORD
    elif replay is not None:
        recording = replay, RecordingMode.REPLAY
    try:
        with _progress(progress) as emit:
            wanted, given = find_build(directory, file, environment, emit)
            if not (name := tag or given):
                raise UsageError("the image needs a name", hint="add --tag NAME")
            shown_name = str(parse_reference(name))
            wanted = replace(
                wanted,
                arguments={**wanted.arguments, **parse_arguments(build_arg or [], environment)},
                secrets=parse_secrets(secret or [], environment),
                target=target or wanted.target,
                platform=platform,
                network=network.value,
                private_hosts=tuple(private_host or ()),
                is_fresh=no_cache,
            )
            settings = load_settings()
            image = build_image(wanted, name, settings, environment=environment, recording=recording, emit=emit)
    except KeyboardInterrupt:
        hint = "finished steps are stored: the same command continues from there"
        raise InterruptedRunError("interrupted: the image is not built", hint=hint) from None
    say_stored(image, shown_name, json_output=json_)


@contextmanager
def _progress(form: Form) -> Iterator[Emit]:
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False)
    is_live = form is Form.AUTO and sys.stderr.isatty() and not console.is_dumb_terminal
    with _LiveBuild(console) if is_live else _PlainBuild() as show:
        yield show


class _PlainBuild(Remarks):
    # As BuildKit prints it: each line begins with the number of its step.
    def __call__(self, event: Event) -> None:
        match event:
            case BuildStep(number, place, instruction, "begun"):
                self.put(f"#{number} [{place}] {instruction}")
            case BuildStep(condition="runs"):
                pass
            case BuildStep(number, _, _, "cached"):
                self.put(f"#{number} CACHED\n")
            case BuildStep(number, _, _, _, seconds):
                self.put(f"#{number} DONE {seconds:.1f}s\n")
            case BuildOutput(number, seconds, line):
                self.put(f"#{number} {seconds:.3f} {line}")
            case _:
                super().__call__(event)


class _LiveBuild(LiveView):
    # A line for each finished step; of the one at hand, the last lines of its output.
    def __init__(self, console: Console) -> None:
        self._step: BuildStep | None = None
        self._lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._seconds = 0.0
        super().__init__(console, stays=False)

    def __call__(self, event: Event) -> None:
        match event:
            case BuildStep(condition="begun"):
                with self.lock:
                    self._step, self._seconds = event, 0.0
                    self._lines.clear()
            case BuildStep(condition="runs"):
                pass
            case BuildStep(_, place, instruction, condition, seconds):
                with self.lock:
                    self._step = None
                end = "CACHED" if condition == "cached" else f"{seconds:.1f}s"
                self.say(f" => [{place}] {instruction}  {end}", style="")
            case BuildOutput(_, seconds, line):
                with self.lock:
                    self._seconds = seconds
                    self._lines.append(line)
            case BuildFailed():
                with self.lock:
                    self._step = None
                super().__call__(event)
            case _:
                super().__call__(event)

    def render(self) -> RenderableType:
        from rich.text import Text

        with self.lock:
            if self._step is None:
                return Text("building …")
            head = f" => [{self._step.place}] {self._step.instruction}  {self._seconds:.1f}s"
            lines = [head, *(f" => => {line}" for line in self._lines)]
        return Text("\n".join(visible(line) for line in lines), no_wrap=True, overflow="ellipsis")
