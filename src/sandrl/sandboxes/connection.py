"""Which runtime sandboxes come from, and how it is reached.

The design decision: the choice is made once, from settings, with its reason in words; what comes out is a plain
record that every later step takes as it is. One code path serves both runtimes: they differ in address, credentials
and image only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.addresses import check_address
from sandrl.errors import UsageError
from sandrl.events import Emit, RuntimeChosen, RuntimeStarting, ignore
from sandrl.settings import RuntimeKind, Settings

REMOTE_BASE_URL = "https://api.cwsandbox.com"
REMOTE_IMAGE = "python:3.11"
REMOTE_CONCURRENCY = 32
PACKAGES_ANNOTATION = "sandrl.dev/packages"


@dataclass(frozen=True, slots=True)
class Connection:
    """A runtime, ready to be asked for sandboxes.

    Attributes:
        kind: Local or remote.
        reason: Why this one, in a few words.
        base_url: Its address.
        token: The bearer token; None for W&B credentials.
        wandb_entity: The W&B entity, where W&B credentials are used.
        image: The container image of sandboxes.
        annotations: Annotations of every sandbox.
        suggested_concurrency: How many sandboxes at once suit it.
        isolation: How the local runtime isolates; empty for the remote one.
        has_site_packages: Whether sandboxes have installed packages that code may import.
        state_dir: Where jobs that use it are registered; None for those of a program that keeps no state.
        renew: Finds the runtime again after it ended, or starts it; None where that is not ours to do.
    """

    kind: RuntimeKind
    reason: str
    base_url: str
    image: str
    token: str | None = field(default=None, repr=False)
    wandb_entity: str | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    suggested_concurrency: int = 8
    isolation: str = ""
    has_site_packages: bool = False
    state_dir: Path | None = None
    renew: Callable[[], Connection] | None = field(default=None, repr=False, compare=False)

    @property
    def is_local(self) -> bool:
        """Whether it is the embedded local runtime."""
        return self.kind is RuntimeKind.LOCAL


def connect(
    settings: Settings,
    *,
    runtime: RuntimeKind = RuntimeKind.AUTO,
    image: str | None = None,
    packages: Sequence[str] = (),
    emit: Emit = ignore,
) -> Connection:
    """Chooses the runtime and makes sure the local one is there.

    Args:
        settings: What the environment says.
        runtime: What the user asked for.
        image: The image of sandboxes; the runtime's own default unless given.
        packages: Installed packages that code in local sandboxes may import.
        emit: Told what is chosen.

    Raises:
        AuthenticationError: If the remote service was asked for without credentials.
        RuntimeUnavailableError: If the local runtime cannot start or isolate on this machine.
        UsageError: If packages are asked for that cannot be given, or the remote service's address is none.
    """
    choice = settings.choose_runtime(runtime)
    if choice.kind is RuntimeKind.LOCAL:

        def connect_again() -> Connection:
            found = _connect_local(settings, choice.reason, image, packages, emit)
            return replace(found, renew=connect_again)

        connection = connect_again()
    else:
        connection = _connect_remote(settings, choice.reason, image, packages)
    emit(
        RuntimeChosen(
            kind=connection.kind,
            reason=connection.reason,
            address=connection.base_url,
            image=connection.image,
            isolation=connection.isolation,
        )
    )
    return connection


def find_connection(settings: Settings, *, runtime: RuntimeKind = RuntimeKind.AUTO) -> Connection | None:
    """The runtime as it is, to look after sandboxes that exist; never starts one.

    Args:
        settings: What the environment says.
        runtime: What the user asked for.

    Returns:
        Where its sandboxes are; None if the local runtime was chosen and does not run, which means it has none.

    Raises:
        AuthenticationError: If the remote service was asked for without credentials.
        UsageError: If its address is none.
    """
    choice = settings.choose_runtime(runtime)
    if choice.kind is not RuntimeKind.LOCAL:
        return _connect_remote(settings, choice.reason, None, ())
    from sandrl.runtime import daemon

    endpoint = daemon.find(settings.state_dir)
    if endpoint is None:
        return None
    return Connection(
        kind=RuntimeKind.LOCAL,
        reason=choice.reason,
        base_url=endpoint.base_url,
        image="",
        token=endpoint.token,
        state_dir=settings.state_dir,
    )


def _connect_local(
    settings: Settings, reason: str, image: str | None, packages: Sequence[str], emit: Emit
) -> Connection:
    from sandrl.runtime import daemon
    from sandrl.runtime import packages as overlays

    while True:
        endpoint = daemon.ensure_running(settings.state_dir, on_start=lambda message: emit(RuntimeStarting(message)))
        status = daemon.status(settings.state_dir)
        if status.running and status.base_url == endpoint.base_url:
            break  # else it ended in between
    image = image or status.default_image
    annotations: tuple[tuple[str, str], ...] = ()
    if packages:
        annotations = ((PACKAGES_ANNOTATION, overlays.build_overlay(packages, settings.state_dir, image=image)),)
    return Connection(
        kind=RuntimeKind.LOCAL,
        reason=reason,
        base_url=endpoint.base_url,
        image=image,
        token=endpoint.token,
        annotations=annotations,
        suggested_concurrency=status.suggested_concurrency,
        isolation=status.isolation,
        has_site_packages=bool(packages),
        state_dir=settings.state_dir,
    )


def _connect_remote(settings: Settings, reason: str, image: str | None, packages: Sequence[str]) -> Connection:
    if packages:
        raise UsageError(
            "--packages is for the local runtime; remotely the image decides what is installed",
            hint="use --image with an image that has them, or --runtime local",
        )
    if settings.base_url is not None:
        source = str(settings.base_url_source)
        check_address(settings.base_url, source, hint=f"unset {source} for the usual address, {REMOTE_BASE_URL}")
    return Connection(
        kind=RuntimeKind.REMOTE,
        reason=reason,
        base_url=settings.base_url or REMOTE_BASE_URL,
        image=image or REMOTE_IMAGE,
        token=settings.api_key,
        wandb_entity=settings.wandb_entity,
        suggested_concurrency=REMOTE_CONCURRENCY,
        has_site_packages=True,
        state_dir=settings.state_dir,
    )
