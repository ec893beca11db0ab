"""`sandrl images`: the images that sandboxes of this user can start from, and the room that they take."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.builds import build
from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json
from sandrl.cli.progress import LiveView, Remarks, remark
from sandrl.cli.tables import Column, Table
from sandrl.cli.text import counted, human_size, visible
from sandrl.cli.units import size_option
from sandrl.errors import InterruptedRunError
from sandrl.events import Emit, Event, ImageProgress, ImageReading
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sandrl.runtime.images.removal import ImageRow, Removed
    from sandrl.runtime.images.store import ImageStore, StoredImage

app = typer.Typer(name="images", help="Images of sandboxes: ls, build, pull, import, export, rm, prune.")
app.command("build")(build)

_SHOWN_DIGITS = 12

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A name, or a digest or its beginning.", autocompletion=values.image_names)
]


@app.command("ls")
def list_stored(json_: Json = False) -> None:
    """List the images of this user: names, digest, sizes, last use."""
    from sandrl.runtime.images.removal import list_images

    rows = list_images(_store())
    if json_:
        print_json({"images": [asdict(row) for row in rows]})
        return
    table = Table(
        [
            Column("name"),
            Column("digest"),
            Column("stored", is_number=True),
            Column("unpacked", is_number=True),
            Column("shared", rank=2, is_number=True),
            Column("layers", rank=3, is_number=True),
            Column("last use", rank=1),
        ]
    )
    for row in rows:
        if not row.is_step:
            _add(table, row)
    if rows:
        table.print()
    else:
        typer.echo(
            "No image is stored; store one with: sandrl images pull NAME, or sandrl images import FILE NAME", err=True
        )
    if steps := [row for row in rows if row.is_step]:
        kept = counted(len(steps), "step")
        typer.echo(f"{kept} of builds kept beside them; remove them with: sandrl images prune", err=True)


@app.command("pull")
def pull_images(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME", help="Images of registries: NAME, NAME:TAG, HOST/NAME:TAG, HOST:PORT/NAME@sha256:…"
        ),
    ],
    platform: Annotated[
        str,
        typer.Option(
            "--platform",
            metavar="OS/ARCHITECTURE[/VARIANT]",
            help="The platform of an image for several; default: that of this machine.",
        ),
    ] = "",
    json_: Json = False,
) -> None:
    """Store images of registries, or what their names mean there now. A second call resumes an interrupted pull."""
    from sandrl.runtime.images.references import parse_reference
    from sandrl.runtime.images.registry import pull

    settings, store = load_settings(), _store()
    given = [str(parse_reference(name)) for name in names]
    stored = []
    for name in given:
        try:
            with progress() as emit:
                image = pull(store, name, settings, environment=os.environ, platform=platform, emit=emit)
        except KeyboardInterrupt:
            hint = f"resume the pull: sandrl images pull {name}"
            raise InterruptedRunError(f"interrupted: {name} is not stored yet", hint=hint) from None
        stored.append(_stored_document(image, name))
        if not json_:
            say_stored(image, name, json_output=False)
    if json_:
        print_json({"images": stored})


@app.command("import")
def import_image(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="An OCI layout, a file of `docker save`, or a root file system (.tar, .tar.gz, .tar.zst). "
            "oci:DIR:TAG and docker-archive:FILE:NAME select one of several images; rootfs:FILE is also possible.",
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The name to give it: NAME:TAG, or NAME@sha256:… for a stand-in of that image."
        ),
    ],
    json_: Json = False,
) -> None:
    """Store an image from a file or directory under a name, which then wins over a registry."""
    from sandrl.runtime.images.layouts import FileReference, detect_form, parse_file_reference
    from sandrl.runtime.images.references import parse_reference

    shown_name = str(parse_reference(name))
    store = _store()
    reference = parse_file_reference(file) or FileReference(detect_form(path := Path(file)), path.absolute(), "")
    with _interruptible(f"{shown_name} is not stored"), progress() as emit:
        image = store.import_file(reference, name, emit)
    say_stored(image, shown_name, json_output=json_)


@app.command("export")
def export_image(
    name: _Name,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A new file for `docker load` (.tar, .tar.gz), or a new directory for an OCI layout."
        ),
    ],
    json_: Json = False,
) -> None:
    """Write an image to a file or directory, with which it can be imported elsewhere."""
    from sandrl.runtime.images.export import export, target_of

    target = target_of(file)
    with _interruptible(f"{target} is not written"), progress() as emit:
        image = export(_store(), name, target, emit)
    if json_:
        print_json({"digest": image.digest, "written": str(target)})
    else:
        typer.echo(f"Wrote {visible(name)} to {visible(str(target))}")


@app.command("rm")
def remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME", help="Names, or digests or their beginnings.", autocompletion=values.image_names
        ),
    ],
    json_: Json = False,
) -> None:
    """Remove names, and images that have no other name. An image that a sandbox uses stays until the sandbox ends."""
    from sandrl.runtime.images import removal

    _say_removed([removal.remove(_store(), names)], json_output=json_)


@app.command("prune")
def prune(
    keep_size: Annotated[
        int | None,
        size_option(help="Also remove the images that were not used for the longest time, until all take this much."),
    ] = None,
    json_: Json = False,
) -> None:
    """Remove images without a name, and what interrupted commands have left."""
    from sandrl.runtime.images import removal

    _say_removed([removal.prune(_store(), keep_size)], json_output=json_)


def say_stored(image: StoredImage, name: str, *, json_output: bool) -> None:
    """Says which image a command has stored."""
    if json_output:
        print_json(_stored_document(image, name))
    else:
        size = f"{counted(len(image.layers), 'layer')}, {human_size(image.size)}"
        typer.echo(f"Stored {visible(name)}: {image.digest} ({size})")


def _stored_document(image: StoredImage, name: str) -> dict[str, Any]:
    return {"name": name, "digest": image.digest, "size": image.size, "layers": len(image.layers)}


@contextmanager
def progress() -> Iterator[Emit]:
    """Shows how far images are copied and unpacked, on standard error."""
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False)
    is_live = sys.stderr.isatty() and not console.is_dumb_terminal
    with _LiveImage(console) if is_live else Remarks() as show:
        yield show


@contextmanager
def _interruptible(consequence: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"interrupted: {consequence}") from None


class _LiveImage(LiveView):
    # One line for each part at hand; one that is done stays until there is another, because its digest takes time, too.
    def __init__(self, console: Console) -> None:
        self._lines: dict[tuple[bool, int], str] = {}
        self._done: set[tuple[bool, int]] = set()
        super().__init__(console, stays=False)

    def __call__(self, event: Event) -> None:
        if isinstance(event, ImageProgress):
            done, total = min(event.done, event.total), event.total
            verb = "unpacking" if event.is_unpacking else "copying"
            line = f"{verb} {event.part} of {event.parts}: {human_size(done)} of {human_size(total)}"
            with self.lock:
                for each in self._done:
                    self._lines.pop(each, None)
                self._lines[event.is_unpacking, event.part] = line
                self._done = {(event.is_unpacking, event.part)} if done == total else set()
        elif not isinstance(event, ImageReading) and (text := remark(event)) is not None:
            self.put(text)

    def render(self) -> RenderableType:
        with self.lock:
            return "\n".join(self._lines.values()) or "reading …"


def _store() -> ImageStore:
    from sandrl.runtime.images.store import open_store

    return open_store(load_settings())


def _add(table: Table, row: ImageRow) -> None:
    used = "in use" if row.is_used else datetime.fromtimestamp(row.used_at, UTC).strftime("%Y-%m-%d %H:%M")
    sizes = [human_size(each) for each in (row.blob_bytes, row.layer_bytes, row.shared_bytes)]
    digest = row.digest.removeprefix("sha256:")[:_SHOWN_DIGITS]
    for name in row.names or ("-",):
        table.add(visible(name), digest, *sizes, str(len(row.layers)), used)
        # Another name of the same image takes no more room.
        sizes = ["", "", ""]


def _say_removed(removed: list[Removed], *, json_output: bool) -> None:
    freed = sum(each.freed_bytes for each in removed)
    images = [name for each in removed for name in each.images]
    kept = [digest for each in removed for digest in each.kept]
    if json_output:
        print_json({"removed": images, "in_use": kept, "freed_bytes": freed})
        return
    for name in images:
        typer.echo(f"Removed {visible(name)}")
    typer.echo(f"Freed {human_size(freed)}")
    for digest in kept:
        typer.echo(
            f"{digest} is used by a sandbox and stays; remove it when that has ended: sandrl images prune", err=True
        )
