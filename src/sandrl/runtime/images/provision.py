"""The image that a user names: of the store, of a file, of a Dockerfile, or of a registry, from which it is pulled."""

from __future__ import annotations

from collections.abc import Mapping

from sandrl.events import Emit, ignore
from sandrl.runtime.images.layouts import DOCKERFILE, parse_file_reference
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.store import open_store
from sandrl.settings import Settings


def provide(
    text: str,
    settings: Settings,
    *,
    environment: Mapping[str, str],
    private_hosts: tuple[str, ...] = (),
    emit: Emit = ignore,
) -> str:
    """Makes sure that the store has an image, with all of its layers unpacked; what is stored wins over a registry.

    Args:
        environment: Says where credentials of registries are.
        private_hosts: Hosts of this machine and its networks that programs of a build may reach.
        emit: Is called by several threads.

    Returns:
        A name of the image with its digest, which means the same image at any time.

    Raises:
        SandrlError: If there is no such image, or it cannot be stored.
    """
    if text.startswith(DOCKERFILE):
        from sandrl.runtime.images.builds import build_reference

        return build_reference(text, settings, environment=environment, private_hosts=private_hosts, emit=emit)
    store = open_store(settings)
    digest = store.digest_of(text)
    if digest is not None:
        image = store.open(digest, emit)
    elif parse_file_reference(text) is not None:
        image = store.add_file(text, emit)
    else:
        from sandrl.runtime.images.registry import pull

        image = pull(store, text, settings, environment=environment, emit=emit)
    return _pinned(text, image.digest)


def _pinned(text: str, digest: str) -> str:
    is_digest = digest.removeprefix("sha256:").startswith(text.removeprefix("sha256:"))
    if is_digest or parse_file_reference(text) is not None:
        return digest
    # The digest that the user named may be that of an index, or of an image for which this one stands in.
    name, _, _ = str(parse_reference(text)).partition("@")
    return f"{name}@{digest}"
