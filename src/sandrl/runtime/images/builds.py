"""Which image a directory describes, and its build with the local runtime of this user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import httpx

from sandrl import compose
from sandrl.errors import InputError, UsageError
from sandrl.events import Emit, RuntimeStarting, Warned, ignore
from sandrl.files import read_regular
from sandrl.runtime import daemon
from sandrl.runtime.downloads.settings import download_settings
from sandrl.runtime.images.build import Build, Surroundings, build
from sandrl.runtime.images.layouts import DOCKERFILE
from sandrl.runtime.images.reach import limited
from sandrl.runtime.images.store import StoredImage, open_store
from sandrl.runtime.images.transport import http_client
from sandrl.runtime.recording.attachment import attachment
from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.runtime.recording.recording import Recording
from sandrl.runtime.recording.transport import RecordedTransport
from sandrl.runtime.steps import Step, StepResult
from sandrl.settings import Settings

_MOST_SECRET_BYTES = 500 << 10


def find_build(
    directory: Path, file: Path | None, environment: Mapping[str, str], emit: Emit = ignore
) -> tuple[Build, str]:
    """What the Dockerfile, or the Compose file with one service, of a directory builds, and the name that it gives.

    A Compose file goes before a Dockerfile beside it, which it names; `file` is another Dockerfile or Compose file.

    Raises:
        InputError: If there is none, or it cannot be read.
    """
    if not directory.is_dir():
        raise InputError("is not a directory", path=directory, hint="name a directory with a Dockerfile")
    if file is None:
        found = [directory / name for name in (*compose.NAMES, "Dockerfile") if (directory / name).is_file()]
        if not found:
            names = f"Dockerfile, {', '.join(compose.NAMES)}"
            raise InputError(f"has none of {names}", path=directory, hint="name the directory of a Dockerfile")
        file = found[0]
    if file.suffix not in (".yaml", ".yml"):
        return Build(directory, file, str(file)), ""
    service = compose.read_service(file, environment)
    if service.others:
        emit(Warned(f"{file}: only the build is read, not {', '.join(service.others)}"))
    if service.context is None:
        raise InputError(f"has no build, only the image {service.image}", path=file, hint="name that image instead")
    dockerfile = service.context / service.dockerfile
    wanted = Build(service.context, dockerfile, str(dockerfile), arguments=service.arguments, target=service.target)
    return wanted, service.image


def build_image(
    wanted: Build,
    name: str | None,
    settings: Settings,
    *,
    environment: Mapping[str, str],
    recording: tuple[Path, RecordingMode] | None = None,
    emit: Emit = ignore,
) -> StoredImage:
    """Builds an image; programs run in sandboxes of the local runtime, which is started if one has to run.

    They have the user's package indexes, proxies and certificates.

    Args:
        recording: Where their downloads are recorded, or replayed from; replayed, nothing leaves this machine.

    Raises:
        SandrlError: As `build`, or if the recording cannot be used.
    """
    from sandrl.runtime.images.provision import provide

    store = open_store(settings)

    def run(step: Step, on_output: object) -> StepResult:
        def starting(message: str) -> None:
            emit(RuntimeStarting(message))

        endpoint = daemon.ensure_running(settings.state_dir, on_start=starting)
        return daemon.run_step(endpoint, step, on_output)  # type: ignore[arg-type]

    def provided(base: str) -> str:
        return provide(base, settings, environment=environment, emit=emit).rpartition("@")[2]

    with ExitStack() as held:
        attached = None
        if recording is not None:
            attached = held.enter_context(attachment(*recording, settings.state_dir, environment))

        @cache
        def around() -> Surroundings:
            downloads = download_settings(environment) if attached is None else attached.downloads
            for warning in downloads.warnings:
                emit(Warned(warning))
            file = "" if attached is None else attached.file
            return Surroundings(downloads.environment, downloads.files, downloads.reachable, file)

        def download() -> httpx.Client:
            reached = (*wanted.private_hosts, *around().hosts)
            return _client(reached) if recording is None else _recorded_client(reached, *recording)

        return build(store, wanted, name, provide=provided, run=run, download=download, surroundings=around, emit=emit)


def _client(private_hosts: Sequence[str]) -> httpx.Client:
    return limited(http_client(), private_hosts)


def _recorded_client(private_hosts: Sequence[str], directory: Path, mode: RecordingMode) -> httpx.Client:
    client = _client(private_hosts)
    return httpx.Client(
        transport=RecordedTransport(Recording(directory.absolute()), mode, client), headers=client.headers
    )


def build_reference(
    text: str,
    settings: Settings,
    *,
    environment: Mapping[str, str],
    private_hosts: tuple[str, ...] = (),
    emit: Emit = ignore,
) -> str:
    """The digest of the image of `dockerfile:DIR` or `dockerfile:FILE`, built unless all of its steps are stored.

    Raises:
        SandrlError: As `build`.
    """
    path = Path(text.removeprefix(DOCKERFILE))
    directory, file = (path.parent, path) if path.is_file() else (path, None)
    wanted, _ = find_build(directory, file, environment, emit)
    wanted = replace(wanted, private_hosts=private_hosts)
    return build_image(wanted, text, settings, environment=environment, emit=emit).digest


def parse_arguments(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Values of `ARG`s: `NAME=VALUE`, or `NAME` for that of the environment.

    Raises:
        UsageError: If one has no name.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise UsageError(f"{text!r} is not NAME=VALUE")
        if equals or name in environment:
            found[name] = value if equals else environment[name]
    return found


def parse_secrets(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, bytes]:
    """Contents of secrets by their ids: `id=ID,src=FILE`, `id=ID,env=NAME`, or `id=ID` for the variable `ID`.

    Raises:
        UsageError: If one is malformed, or cannot be read.
    """
    found = {}
    for text in texts:
        options = dict(part.partition("=")[::2] for part in text.split(","))
        options.pop("type", None)
        path = options.pop("src", options.pop("source", ""))
        name, variable = options.pop("id", ""), options.pop("env", "")
        if not name or options or (path and variable):
            raise UsageError("a secret is not id=ID,src=FILE or id=ID,env=NAME", hint="write id=token,src=token.txt")
        if path:
            try:
                found[name] = read_regular(Path(path).expanduser(), _MOST_SECRET_BYTES)
            except OSError as error:
                raise InputError(f"the secret {name!r} cannot be read: {error.strerror}", path=path) from error
        elif (variable or name) in environment:
            found[name] = os.fsencode(environment[variable or name])
        else:
            raise UsageError(f"the secret {name!r} has no value: the variable {variable or name} is not set")
    return found
