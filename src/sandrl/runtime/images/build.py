"""Builds images of Dockerfiles: the stages that the target needs, one instruction after the other.

A state is the layers so far and what the configuration says. Each instruction that changes files has a key: the digest
of all that goes into it, which begins with the key of the state before. A key that is known names the stored image
whose layers are the next state, so nothing is made again, and labels and the like change no key.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BufferedRandom, BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import httpx

from sandrl.errors import BuildError, InputError, ServiceError
from sandrl.events import BuildFailed, BuildOutput, BuildStep, Emit, Warned, ignore
from sandrl.files import read_regular
from sandrl.runtime.images import locks
from sandrl.runtime.images.copying import Item, Layer, Origin, find_owner, write_layer
from sandrl.runtime.images.derived import DerivedImage
from sandrl.runtime.images.dockerfile import instructions as of
from sandrl.runtime.images.dockerfile.instructions import Dockerfile, Instruction
from sandrl.runtime.images.dockerfile.patterns import Ignored
from sandrl.runtime.images.dockerfile.words import expand, expand_document, number_of
from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.source import MOST_LAYERS, MOST_MANIFEST_BYTES, architecture
from sandrl.runtime.images.steps import Steps, key_of_step
from sandrl.runtime.images.store import ImageStore, StoredImage
from sandrl.runtime.steps import Step, StepResult, StepVolume

_SHELL = ("/bin/sh", "-c")
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Their values are for a build alone: they change neither a key nor the image.
_PROXIES = frozenset(
    name
    for each in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
    for name in (each, each.upper())
)
_SCRATCH = "scratch"
_MOST_IGNORE_BYTES = 1 << 20
_MOST_DOWNLOAD_BYTES = 8 << 30
_MOST_PORTS = 65_536
_LAST_LINES = 10
_SECRET_MODE, _SCRIPT_MODE, _DOWNLOAD_MODE = 0o400, 0o755, 0o600
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Build:
    """What is to be built.

    Attributes:
        context: The directory whose files can be copied.
        dockerfile: Where the Dockerfile is.
        shown: The Dockerfile, as messages name it.
        arguments: Values of `ARG`s.
        secrets: Contents of secrets by their ids.
        target: The stage to build; empty for the last one.
        network: Of its programs: `public` or `none`.
        private_hosts: Hosts that its programs may reach although they belong to this machine or its networks.
        is_fresh: Whether nothing that is stored of earlier builds is used.
    """

    context: Path
    dockerfile: Path
    shown: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    target: str = ""
    platform: str = ""
    network: str = "public"
    private_hosts: tuple[str, ...] = ()
    is_fresh: bool = False


RunStep = Callable[[Step, Callable[[bytes], None]], StepResult]
"""Runs a program of a build; is told where its output goes."""


def build(
    store: ImageStore,
    wanted: Build,
    name: str | None,
    *,
    provide: Callable[[str], str],
    run: RunStep,
    download: Callable[[], httpx.Client],
    emit: Emit = ignore,
) -> StoredImage:
    """Builds an image and gives it a name.

    Args:
        provide: The digest of a base image by its name, which is stored then.
        download: Opens a client for what `ADD` names by an address.

    Raises:
        InputError: If the Dockerfile cannot be built; it names the line.
        BuildError: If a program of it failed.
        SandrlError: If an image, or a program, cannot be had.
    """
    dockerfile = of.read_dockerfile(wanted.dockerfile, wanted.shown)
    store.make()
    with ExitStack() as held:
        builder = _Builder(store, wanted, dockerfile, provide, run, download, emit, held)
        image = builder.image()
        if name is not None:
            store.give_name(image.digest, name)
        return image


@dataclass(slots=True)
class _State:
    # `key` of the layers; `image` has them, None for none.
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


class _Builder:
    def __init__(
        self,
        store: ImageStore,
        wanted: Build,
        dockerfile: Dockerfile,
        provide: Callable[[str], str],
        run: RunStep,
        download: Callable[[], httpx.Client],
        emit: Emit,
        held: ExitStack,
    ) -> None:
        self._store = store
        self._wanted = wanted
        self._file = dockerfile
        self._provide = provide
        self._run = run
        self._download = download
        self._emit = emit
        self._held = held
        self._steps = Steps(store)
        self._states: dict[int, _State] = {}
        self._images: dict[str, StoredImage] = {}
        self._number = 0
        self._used_arguments: set[str] = set()
        self._platform = {
            f"{side}{name}": value
            for side in ("TARGET", "BUILD")
            for name, value in (
                ("PLATFORM", f"linux/{architecture()}"),
                ("OS", "linux"),
                ("ARCH", architecture()),
                ("VARIANT", ""),
            )
        }
        self._context: Origin | None = None

    def image(self) -> StoredImage:
        stages = self._file.stages
        target = len(stages) - 1
        if self._wanted.target:
            found = self._file.stage(self._wanted.target)
            if found is None:
                known = ", ".join(each.start.name for each in stages if each.start.name) or "its stages have no names"
                raise InputError(f"has no stage {self._wanted.target!r}: {known}", path=self._file.path)
            target = found
        self._check_platform(self._wanted.platform, None)
        global_arguments = self._global_arguments()
        needed = self._needed(target, global_arguments)
        for number in sorted(needed):
            self._states[number] = self._stage(number, global_arguments)
        for name in self._wanted.arguments:
            if name not in self._used_arguments | _PROXIES:
                self._emit(Warned(f"{self._file.path} has no ARG {name}, so its value has no effect"))
        return self._finished(self._states[target])

    # Stages

    def _global_arguments(self) -> dict[str, str]:
        found = dict(self._platform)
        for each in self._file.arguments:
            for name, default in each.pairs:
                value = self._argument(name, default, found, each)
                if value is not None:
                    found[name] = value
        return found

    def _argument(self, name: str, default: str | None, variables: Mapping[str, str], at: Instruction) -> str | None:
        self._used_arguments.add(name)
        if name in self._wanted.arguments:
            return self._wanted.arguments[name]
        return None if default is None else self._expanded(default, variables, at)

    def _expanded(self, text: str, variables: Mapping[str, str], at: Instruction) -> str:
        try:
            return expand(text, variables, self._file.escape)
        except InputError as error:
            raise error.at(self._file.path, at.line) from None

    def _base(self, number: int, variables: Mapping[str, str]) -> str:
        start = self._file.stages[number].start
        name = self._expanded(start.image, variables, start)
        if not name:
            raise InputError(
                f"FROM {start.image} names no image: a variable is empty", path=self._file.path, line=start.line
            )
        return name

    def _needed(self, target: int, variables: Mapping[str, str]) -> set[int]:
        found: set[int] = set()
        pending = [target]
        while pending:
            number = pending.pop()
            if number in found:
                continue
            found.add(number)
            names = [self._base(number, variables)]
            for each in self._file.stages[number].instructions:
                if isinstance(each, of.Copy) and each.origin:
                    names.append(each.origin)
                elif isinstance(each, of.Run):
                    names += [mount.options["from"] for mount in each.mounts if "from" in mount.options]
            pending += [stage for name in names if (stage := self._file.stage(name, number)) is not None]
        return found

    def _stage(self, number: int, variables: Mapping[str, str]) -> _State:
        stage = self._file.stages[number]
        start = stage.start
        self._check_platform(self._expanded(start.platform, variables, start), start)
        name = self._base(number, variables)
        work = [each for each in stage.instructions if isinstance(each, of.Run | of.Copy) or _is_directory(each)]
        shown = stage.start.name or ("" if len(self._file.stages) == 1 else f"stage-{number}")
        label = f"{shown} " if shown else ""
        total = len(work) + 1
        own = self._file.stage(name, number)
        if own is not None:
            before = self._states[own]
            state = replace(before, config=json.loads(json.dumps(before.config)), arguments={}, sets_command=False)
        else:
            is_stored = name == _SCRATCH or self._store.digest_of(name) is not None
            state = self._told(start, f"{label}1/{total}", lambda tell: (self._from(name, start), is_stored))
        below = len(state.image.layers) if state.image else 0
        if below + sum(not _is_directory(each) for each in work) > MOST_LAYERS:
            message = f"an image has at most {MOST_LAYERS} layers, and this stage has more"
            raise InputError(message, path=self._file.path, line=start.line, hint="join several RUN to one")
        place = 1
        for each in stage.instructions:
            try:
                if each in work:
                    place += 1
                    state = self._told(each, f"{label}{place}/{total}", lambda tell: self._work(each, state, tell))  # noqa: B023
                else:
                    self._configure(each, state, variables)
            except InputError as error:
                raise (error if error.line else error.at(self._file.path, each.line)) from None
        return state

    def _told(
        self,
        instruction: Instruction,
        place: str,
        make: Callable[[Callable[[bytes], None]], tuple[_State, bool]],
    ) -> _State:
        self._number += 1
        number, began = self._number, time.monotonic()
        last: list[str] = []
        pending = b""

        def tell(output: bytes) -> None:
            nonlocal pending
            *lines, pending = (pending + output).split(b"\n")
            for line in lines:
                put(line)

        def put(line: bytes) -> None:
            text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
            last.append(text)
            del last[:-_LAST_LINES]
            self._emit(BuildOutput(number, time.monotonic() - began, text))

        self._emit(BuildStep(number, place, instruction.text, "begun", 0.0))
        try:
            state, is_cached = make(tell)
        except BuildError:
            if pending:
                put(pending)
            self._emit(BuildFailed(place, instruction.text, self._file.path, instruction.line, tuple(last)))
            raise
        if pending:
            put(pending)
        condition = "cached" if is_cached else "done"
        self._emit(BuildStep(number, place, instruction.text, condition, time.monotonic() - began))
        return state

    def _from(self, name: str, start: of.From) -> _State:
        if name == _SCRATCH:
            return _State(_SCRATCH, None, {"Env": [f"PATH={_SEARCH_PATH}"]}, "", [])
        try:
            image = self._provided(name)
        except InputError as error:
            raise error.at(self._file.path, start.line) from None
        manifest, _ = self._store.read(image.digest)
        document = json.loads(read_regular(self._store.contents.blob(manifest.config.digest), MOST_MANIFEST_BYTES))
        config = _checked(dict(document.get("config") or {}), name)
        if config.pop("OnBuild", None):
            message = f"the image {name} has ONBUILD instructions, which are not supported"
            raise InputError(message, path=self._file.path, line=start.line)
        history = [each for each in document.get("history") or () if isinstance(each, dict)]
        unknown = len(manifest.layers) - sum(not each.get("empty_layer") for each in history)
        history = [{"created_by": "unknown"}] * unknown + history
        return _State(image.digest, image, config, str(document.get("author") or ""), history)

    def _provided(self, name: str) -> StoredImage:
        if name not in self._images:
            parse_reference(name)
            self._images[name] = self._leased(self._provide(name))
        return self._images[name]

    def _leased(self, digest: str) -> StoredImage:
        return self._held.enter_context(self._store.lease(digest))

    def _check_platform(self, wanted: str, start: of.From | None) -> None:
        own = self._platform["TARGETPLATFORM"]
        if wanted not in ("", own) and not (wanted.startswith(f"{own}/") and wanted.count("/") == 2):
            message = f"an image for {wanted} cannot be built here: this machine is {own}"
            raise InputError(message, path=self._file.path, line=start.line if start else None)

    # Instructions that change the configuration alone

    def _configure(self, instruction: Instruction, state: _State, global_arguments: Mapping[str, str]) -> None:
        config = state.config
        match instruction:
            case of.Variables(keyword="ARG"):
                for name, default in instruction.pairs:
                    value = self._argument(name, default, state.variables, instruction)
                    value = global_arguments.get(name) if value is None else value
                    if value is not None:
                        state.arguments[name] = value
            case of.Variables(keyword="ENV"):
                variables = state.variables
                pairs = self._pairs(instruction, variables)
                config["Env"] = [f"{name}={value}" for name, value in (state.environment | pairs).items()]
            case of.Variables():
                config["Labels"] = {**(config.get("Labels") or {}), **self._pairs(instruction, state.variables)}
            case of.Program(keyword="SHELL"):
                config["Shell"] = [*instruction.command]
            case of.Program():
                words = instruction.command
                command = [*state.shell, words] if isinstance(words, str) else [*words]
                key = "Entrypoint" if instruction.keyword == "ENTRYPOINT" else "Cmd"
                config[key] = command
                if key == "Cmd":
                    state.sets_command = True
                elif not state.sets_command:
                    # The arguments of the base image are for its own program.
                    config.pop("Cmd", None)
            case of.HealthCheck():
                config["Healthcheck"] = dict(instruction.document)
            case of.Setting():
                self._set(instruction, state)
        _note(state, instruction, is_empty=True)

    def _pairs(self, instruction: of.Variables, variables: Mapping[str, str]) -> dict[str, str]:
        return {
            self._expanded(name, variables, instruction): self._expanded(value or "", variables, instruction)
            for name, value in instruction.pairs
        }

    def _set(self, instruction: of.Setting, state: _State) -> None:
        values = [self._expanded(each, state.variables, instruction) for each in instruction.values]
        config = state.config
        match instruction.keyword:
            case "USER":
                config["User"] = values[0]
            case "STOPSIGNAL":
                config["StopSignal"] = values[0]
            case "MAINTAINER":
                state.author = values[0]
            case "VOLUME":
                config["Volumes"] = {**(config.get("Volumes") or {}), **{each: {} for each in values if each}}
            case "EXPOSE":
                ports = [port for each in values for word in each.split() for port in _ports(word)]
                config["ExposedPorts"] = {**(config.get("ExposedPorts") or {}), **{each: {} for each in ports}}

    # Instructions that change files

    def _work(self, instruction: Instruction, state: _State, tell: Callable[[bytes], None]) -> tuple[_State, bool]:
        match instruction:
            case of.Run():
                return self._run_program(instruction, state, tell)
            case of.Copy():
                return self._copy(instruction, state)
        assert isinstance(instruction, of.Setting), "it is WORKDIR"
        text = self._expanded(instruction.values[0], state.variables, instruction)
        directory = _joined(state.directory, text)
        tree = self._tree(state)
        user = str(state.config.get("User") or "")
        with self._layer(tree, "/", owner=find_owner(user, tree) if user else None) as layer:
            layer.make_directory(directory)
            state, is_cached = self._with_layer(state, instruction, layer)
        state.config["WorkingDir"] = directory
        return state, is_cached

    def _layer(self, tree: MergedTree, directory: str, **more: Any) -> Layer:
        return Layer(tree, directory, self._store.scratch(), **more)

    def _tree(self, state: _State) -> MergedTree:
        return self._tree_of(state.image, "the image")

    def _tree_of(self, image: StoredImage | None, described: str) -> MergedTree:
        layers = [self._store.layers / name for name in image.layers] if image else []
        return MergedTree(layers, described, keeps_owners=os.geteuid() == 0)

    def _origin(self, name: str, before: int | None) -> Origin:
        if not name:
            if self._context is None:
                self._context = _context_of(self._wanted)
            return self._context
        stage = self._file.stage(name, before)
        if stage is not None and stage in self._states:
            return Origin(self._tree_of(self._states[stage].image, f"the stage {name}"), keeps_owners=True)
        return Origin(self._tree_of(self._provided(name), f"the image {name}"), keeps_owners=True)

    def _copy(self, instruction: of.Copy, state: _State) -> tuple[_State, bool]:
        variables = state.variables

        def expanded(text: str) -> str:
            return self._expanded(text, variables, instruction)

        tree = self._tree(state)
        mode = expanded(instruction.mode)
        if mode and not (mode.isdigit() and len(mode) <= 4 and set(mode) <= set("01234567")):
            raise InputError(f"--chmod={mode} is not supported: only octal modes such as 755 are")
        owner = find_owner(expanded(instruction.owner), tree) if instruction.owner else None
        destination = expanded(instruction.destination)
        several = len(instruction.sources) > 1
        origin = self._origin(instruction.origin, self._place_of(instruction))
        files: list[str] = []
        with self._layer(tree, state.directory, owner=owner, mode=int(mode, 8) if mode else None) as layer:
            for word in instruction.sources:
                document = instruction.documents.get(word)
                source = word if document else expanded(word)
                if document is not None:
                    content = document.content
                    if document.expands:
                        content = expand_document(content, variables, self._file.escape)
                    _write(layer, document.name, content.encode(), destination, several=several)
                elif instruction.is_add and source.startswith(("http://", "https://")):
                    self._add_remote(layer, source, destination, expanded(instruction.checksum), several=several)
                else:
                    files.append(source)
            if files:
                layer.copy(
                    origin,
                    files,
                    destination,
                    keeps_parents=instruction.keeps_parents,
                    excluded=Ignored.parse([expanded(each) for each in instruction.excluded]),
                    unpacks=instruction.is_add,
                )
            return self._with_layer(state, instruction, layer)

    def _place_of(self, instruction: Instruction) -> int:
        return next(number for number, stage in enumerate(self._file.stages) if instruction in stage.instructions)

    def _add_remote(self, layer: Layer, address: str, destination: str, checksum: str, *, several: bool) -> None:
        name = posixpath.basename(urlsplit(address).path)
        if not name and destination.endswith("/"):
            raise InputError(f"{address} has no file name", hint="write the name of the file as the destination")
        kind, _, digest = checksum.partition(":")
        if checksum and (kind != "sha256" or len(digest) != 64):
            raise InputError(f"--checksum={checksum} is not sha256: and 64 hexadecimal digits")
        opened: list[BufferedRandom] = []

        def fetched() -> BufferedReader:
            if not opened:
                opened.append(self._held.enter_context(self._downloaded(address)))
            opened[0].seek(0)
            # What is read is closed; the file itself is needed again.
            return os.fdopen(os.dup(opened[0].fileno()), "rb")

        if not digest:
            with fetched() as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        layer.write(name, destination, fetched, digest.lower(), several=several, mode=_DOWNLOAD_MODE)

    def _downloaded(self, address: str) -> BufferedRandom:
        file = _temporary(self._store.scratch())
        try:
            with self._download() as client, client.stream("GET", address, follow_redirects=True) as response:
                if not response.is_success:
                    raise ServiceError(f"{address} answers {response.status_code}", hint="check the address")
                for chunk in response.iter_bytes(_CHUNK):
                    file.write(chunk)
                    if file.tell() > _MOST_DOWNLOAD_BYTES:
                        raise InputError(f"{address} is larger than {_MOST_DOWNLOAD_BYTES >> 30} GiB")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ServiceError(f"{address} cannot be downloaded: {reason}", hint="check the network") from error
        return file

    def _with_layer(self, state: _State, instruction: Instruction, layer: Layer) -> tuple[_State, bool]:
        items = layer.items
        if not items:
            _note(state, instruction, is_empty=True)
            return state, True
        key = key_of_step("files", state.key, sorted(map(Item.described, items), key=str))

        def make() -> str:
            with _temporary(self._store.scratch()) as file:
                write_layer(items, file)
                file.flush()
                path = Path(f"/proc/self/fd/{file.fileno()}")
                base = state.image.digest if state.image else None
                return self._store.add(DerivedImage(self._store, base, path, instruction.text), None).digest

        return self._made(state, instruction, key, make)

    def _made(self, state: _State, instruction: Instruction, key: str, make: Callable[[], str]) -> tuple[_State, bool]:
        image, is_cached = self._obtained(key, make)
        following = replace(state, key=key, image=image)
        _note(following, instruction, is_empty=False)
        return following, is_cached

    def _obtained(self, key: str, make: Callable[[], str]) -> tuple[StoredImage, bool]:
        if not self._wanted.is_fresh and (digest := self._steps.find(key)) is not None:
            return self._leased(digest), True
        with self._steps.making(key):
            if not self._wanted.is_fresh and (digest := self._steps.find(key)) is not None:
                return self._leased(digest), True
            image = self._leased(make())
            self._steps.keep(key, image.digest)
            return image, False

    def _finished(self, state: _State) -> StoredImage:
        changes = {"config": state.config, "history": state.history, "architecture": architecture(), "os": "linux"}
        if state.author:
            changes["author"] = state.author
        described = [each.get("created_by") for each in state.history]
        key = key_of_step("image", state.key, state.config, described, state.author)

        def make() -> str:
            base = state.image.digest if state.image else None
            source = DerivedImage(self._store, base, None, self._file.path, changes)
            return self._store.add(source, None).digest

        return self._obtained(key, make)[0]

    # Programs

    def _run_program(self, instruction: of.Run, state: _State, tell: Callable[[bytes], None]) -> tuple[_State, bool]:
        if state.image is None:
            raise InputError("an image without files has no program to run", hint="copy the program into it before")
        environment = {"PATH": _SEARCH_PATH, **state.variables}
        network = "none" if instruction.network == "none" else self._wanted.network
        tree = self._tree(state)
        with ExitStack() as opened:
            files = opened.enter_context(self._layer(tree, state.directory))
            mounts = _Mounts(files, opened, self._store.scratch())
            arguments = self._program(instruction, state, mounts)
            for mount in instruction.mounts:
                self._mount(mount, instruction, state, mounts, environment)
            key = key_of_step(
                *("run", state.key, arguments, environment, state.directory, state.config.get("User") or ""),
                *(instruction.network, mounts.described),
            )
            proxies = {name: self._wanted.arguments[name] for name in _PROXIES & self._wanted.arguments.keys()}
            base = state.image.digest

            def make() -> str:
                step = Step(
                    image=base,
                    text=instruction.text,
                    arguments=arguments,
                    environment=proxies | environment | mounts.environment,
                    directory=state.directory,
                    user=str(state.config.get("User") or ""),
                    network=network,
                    private_hosts=self._wanted.private_hosts,
                    files=mounts.packed(),
                    volumes=tuple(mounts.volumes()),
                    left_out=mounts.left_out(),
                )
                result = self._run(step, tell)
                if result.exit_code:
                    message = f"{self._file.path}:{instruction.line}: {instruction.text[:100]}"
                    raise BuildError(f"{message} failed with exit code {result.exit_code}")
                return result.digest

            return self._made(state, instruction, key, make)

    def _program(self, instruction: of.Run, state: _State, mounts: _Mounts) -> tuple[str, ...]:
        command, documents = instruction.command, instruction.documents
        if not isinstance(command, str):
            return command
        if len(documents) == 1 and len(command.split()) == 1 and command.startswith("<<"):
            command = documents[0].content
            if command.startswith("#!"):
                digest = hashlib.sha256(command.encode()).hexdigest()
                mounts.add_file(f"/tmp/{documents[0].name}-{digest[:12]}", command.encode(), _SCRIPT_MODE)
                return (f"/tmp/{documents[0].name}-{digest[:12]}",)
        elif documents:
            command = "\n".join([command, *(f"{each.content}{each.name}" for each in documents), ""])
        return (*state.shell, command)

    def _mount(
        self,
        mount: of.Mount,
        instruction: of.Run,
        state: _State,
        mounts: _Mounts,
        environment: Mapping[str, str],
    ) -> None:
        options = {name: self._expanded(value, state.variables, instruction) for name, value in mount.options.items()}
        target = _joined(state.directory, options.get("target", ""))
        match mount.kind:
            case "tmpfs":
                mounts.add_volume(target, ["tmpfs", target])
            case "cache":
                name = hashlib.sha256(options.get("id", target).encode()).hexdigest()[:32]
                kept = self._store.caches / f"{name}.tar"
                mounts.add_volume(
                    target, ["cache", target, name], kept=kept, lock=self._store.contents.locks / f"caches-{kept.name}"
                )
            case "secret":
                self._mount_secret(options, target, mounts)
            case _:
                self._mount_files(options, target, mounts, self._place_of(instruction))

    def _mount_secret(self, options: Mapping[str, str], target: str, mounts: _Mounts) -> None:
        name = options.get("id") or posixpath.basename(target)
        content = self._wanted.secrets.get(name)
        if content is None:
            if options.get("required", "false").lower() in ("true", "1"):
                raise InputError(f"the secret {name!r} is required and was not given")
            return
        variable = options.get("env", "")
        if variable:
            mounts.environment[variable] = content.decode("utf-8", "surrogateescape")
        if not variable or "target" in options:
            place = target if "target" in options else f"/run/secrets/{name}"
            mode = number_of(options["mode"], "mode", base=8) if "mode" in options else _SECRET_MODE
            owner = number_of(options.get("uid", "0"), "uid"), number_of(options.get("gid", "0"), "gid")
            mounts.add_file(place, content, mode, owner, described=["secret", place, mode, owner])
        mounts.described.append(["secret", name, variable])

    def _mount_files(self, options: Mapping[str, str], target: str, mounts: _Mounts, before: int) -> None:
        origin = self._origin(options.get("from", ""), before)
        source = options.get("source", "/")
        real = origin.tree.resolve(tuple(source.split("/")))
        if origin.tree.is_directory(real):
            nothing = MergedTree([], "nothing", keeps_owners=False)
            layer = mounts.opened.enter_context(self._layer(nothing, "/"))
            layer.copy(origin, [source], "/")
            mounts.add_volume(target, ["bind", target, [each.described() for each in layer.items]], layer=layer)
        else:
            before_items = len(mounts.files.items)
            mounts.files.copy(origin, [source], target)
            mounts.described.append(["bind", [each.described() for each in mounts.files.items[before_items:]]])


class _Mounts:
    # What the program of a step sees that is not part of the image.
    def __init__(self, files: Layer, opened: ExitStack, scratch: Path) -> None:
        self.files = files
        self.opened = opened
        self._scratch = scratch
        self.described: list[object] = []
        self.environment: dict[str, str] = {}
        self._volumes: list[tuple[str, Layer | None, Path | None, Path | None]] = []

    def add_file(
        self,
        path: str,
        content: bytes,
        mode: int,
        owner: tuple[int, int] = (0, 0),
        described: object = None,
    ) -> None:
        _write(self.files, "", content, path, mode=mode, owner=owner)
        self.described.append(described or ["file", path, hashlib.sha256(content).hexdigest(), mode])

    def add_volume(
        self,
        target: str,
        described: object,
        *,
        layer: Layer | None = None,
        kept: Path | None = None,
        lock: Path | None = None,
    ) -> None:
        self.described.append(described)
        self._volumes.append((target, layer, kept, lock))

    def packed(self) -> str:
        if not self.files.items:
            return ""
        # In memory, so that nothing of a secret is left, whatever happens to this process.
        file = os.fdopen(os.memfd_create("sandrl-files", os.MFD_CLOEXEC), "w+b")
        return self._archive(file, self.files.items)

    def volumes(self) -> Sequence[StepVolume]:
        found = []
        for target, layer, kept, lock in self._volumes:
            if lock is not None:
                self.opened.callback(os.close, locks.take(lock, exclusive=True))
            content = str(kept) if kept and kept.exists() else ""
            if layer is not None:
                content = self._archive(self.opened.enter_context(_temporary(self._scratch)), layer.items)
            found.append(StepVolume(target, content, str(kept) if kept else ""))
        return found

    def left_out(self) -> tuple[str, ...]:
        files = ["/".join(each.path) for each in self.files.items]
        for target, *_ in self._volumes:
            self.files.make_directory(target)
        return (*files, *("/".join(each.path) for each in self.files.items if "/".join(each.path) not in files))

    def _archive(self, file: IO[bytes], items: Sequence[Item]) -> str:
        self.opened.enter_context(file)
        write_layer(items, file)
        file.flush()
        return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _temporary(scratch: Path) -> BufferedRandom:
    return tempfile.TemporaryFile(dir=scratch)


def _write(
    layer: Layer,
    name: str,
    content: bytes,
    destination: str,
    *,
    several: bool = False,
    mode: int | None = None,
    owner: tuple[int, int] = (0, 0),
) -> None:
    more = {} if mode is None else {"mode": mode}
    digest = hashlib.sha256(content).hexdigest()
    layer.write(name, destination, lambda: BytesIO(content), digest, several=several, owner=owner, **more)


def _context_of(wanted: Build) -> Origin:
    # The ignore file of a Dockerfile of its own goes before that of the context.
    for path in (
        wanted.dockerfile.with_name(f"{wanted.dockerfile.name}.dockerignore"),
        wanted.context / ".dockerignore",
    ):
        try:
            lines = (
                read_regular(path, _MOST_IGNORE_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
            )
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        try:
            ignored = Ignored.parse(lines)
        except InputError as error:
            raise error.at(path) from None
        break
    else:
        ignored = Ignored()
    if not wanted.context.is_dir():
        raise InputError("is not a directory", path=wanted.context, hint="name the directory of the build")
    return Origin(MergedTree([wanted.context.resolve()], str(wanted.context), keeps_owners=False), ignored)


def _is_directory(instruction: Instruction) -> bool:
    return isinstance(instruction, of.Setting) and instruction.keyword == "WORKDIR"


def _note(state: _State, instruction: Instruction, *, is_empty: bool) -> None:
    entry: dict[str, Any] = {"created_by": instruction.text}
    state.history = [*state.history, {**entry, "empty_layer": True} if is_empty else entry]


def _ports(word: str) -> list[str]:
    text, _, protocol = word.partition("/")
    protocol = protocol.lower() or "tcp"
    first, dash, last = text.partition("-")
    start = number_of(first, "a port")
    end = number_of(last, "a port") if dash else start
    if not start <= end < _MOST_PORTS or protocol not in ("tcp", "udp", "sctp"):
        raise InputError(f"{word[:40]!r} is not a port, such as 80 or 80/udp")
    return [f"{each}/{protocol}" for each in range(start, end + 1)]


def _joined(directory: str, path: str) -> str:
    return "/" + posixpath.normpath(posixpath.join(directory, path)).lstrip("/")


def _checked(config: dict[str, Any], described: str) -> dict[str, Any]:
    # An image may have anything in the fields that nobody has read so far.
    for name in ("Labels", "Volumes", "ExposedPorts"):
        if not isinstance(config.get(name), dict | None):
            raise InputError(f"its {name} are not a mapping", path=described)
    shell = config.get("Shell") or []
    if not isinstance(shell, list) or not all(isinstance(each, str) for each in shell):
        raise InputError("its Shell is not a list of strings", path=described)
    return config
