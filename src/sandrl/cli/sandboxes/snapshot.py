"""`sandrl sandboxes snapshot`: stores a sandbox as an image."""

from __future__ import annotations

from typing import Annotated

import typer

from sandrl.cli.output import Json, print_json
from sandrl.cli.sandboxes.options import Id, inventory_with
from sandrl.cli.text import counted, human_size, visible
from sandrl.errors import UnknownSandboxError
from sandrl.settings import RuntimeKind, load_settings


def snapshot(
    id_: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the image: NAME or NAME:TAG.")],
    json_: Json = False,
) -> None:
    """Store a sandbox of the local runtime as an image: the image it started from, with all changed files.

    Its programs continue; memory and running programs are not part of the image. Files of volumes are not, either.
    """
    from sandrl.runtime.daemon import save_image
    from sandrl.runtime.state import find_all

    settings = load_settings()
    id_ = inventory_with(settings, RuntimeKind.LOCAL.value, id_).find(id_)
    saved = next(filter(None, (save_image(each, id_, name) for each in find_all(settings.state_dir))), None)
    if saved is None:
        raise UnknownSandboxError(id_)
    if json_:
        print_json({"name": name, **saved})
    else:
        size = f"{counted(saved['layers'], 'layer')}, {human_size(saved['size'])}"
        typer.echo(f"Stored {visible(name)}: {saved['digest']} ({size})")
