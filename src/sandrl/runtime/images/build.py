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
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from sandrl.errors import BuildError, InputError, UsageError
from sandrl.events import BuildFailed, BuildOutput, BuildStep, Emit, Warned, ignore
from sandrl.files import read_regular
from sandrl.runtime.images.copying import Item, Layer, find_owner, write_layer
from sandrl.runtime.images.derived import DerivedImage
from sandrl.runtime.images.dockerfile import instructions as of
from sandrl.runtime.images.dockerfile.instructions import Dockerfile, Instruction
from sandrl.runtime.images.dockerfile.patterns import Ignored
from sandrl.runtime.images.dockerfile.words import expand, expand_document
from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.mounts import Mounts, joined
from sandrl.runtime.images.origins import Origin, RemoteFile, open_context
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.source import MOST_LAYERS, MOST_MANIFEST_BYTES, architecture
from sandrl.runtime.images.state import State, checked
from sandrl.runtime.images.steps import Steps, key_of_step
from sandrl.runtime.images.store import ImageStore, StoredImage
from sandrl.runtime.steps import Step, StepResult

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
_LAST_LINES, _LONGEST_LINE = 10, 1 << 16
_DOWNLOAD_MODE = 0o600
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What programs with a network are given that is no part of the image and changes no key.

    Attributes:
        environment: Variables; those of the image and of the step win.
        files: Contents by absolute path, readable for all.
        hosts: `HOST:PORT` that they may reach although they belong to this machine or its networks.
        recording: See `Step.recording`.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    recording: str = ""


NO_SURROUNDINGS = Surroundings()

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
    surroundings: Callable[[], Surroundings] = lambda: NO_SURROUNDINGS,
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
        builder = _Builder(store, wanted, dockerfile, provide, run, download, surroundings, emit, held)
        image = builder.image()
        if name is not None:
            store.give_name(image.digest, name)
        return image


class _Builder:
    def __init__(
        self,
        store: ImageStore,
        wanted: Build,
        dockerfile: Dockerfile,
        provide: Callable[[str], str],
        run: RunStep,
        download: Callable[[], httpx.Client],
        surroundings: Callable[[], Surroundings],
        emit: Emit,
        held: ExitStack,
    ) -> None:
        self._store = store
        self._wanted = wanted
        self._file = dockerfile
        self._provide = provide
        self._run = run
        self._download = download
        self._surroundings = surroundings
        self._emit = emit
        self._held = held
        self._steps = Steps(store)
        self._states: dict[int, State] = {}
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

    def _stage(self, number: int, variables: Mapping[str, str]) -> State:
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
        make: Callable[[Callable[[bytes], None]], tuple[State, bool]],
    ) -> State:
        self._number += 1
        number, began = self._number, time.monotonic()
        last: list[str] = []
        pending, runs = b"", False

        def tell(output: bytes) -> None:
            nonlocal pending, runs
            if not runs:
                runs = True
                self._emit(BuildStep(number, place, instruction.text, "runs", time.monotonic() - began))
            *lines, pending = (pending + output).split(b"\n")
            for line in lines:
                put(line)
            if len(pending) > _LONGEST_LINE:
                put(pending)
                pending = b""

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

    def _from(self, name: str, start: of.From) -> State:
        if name == _SCRATCH:
            return State(_SCRATCH, None, {"Env": [f"PATH={_SEARCH_PATH}"]}, "", [])
        try:
            image = self._provided(name)
        except InputError as error:
            raise error.at(self._file.path, start.line) from None
        manifest, _ = self._store.read(image.digest)
        document = json.loads(read_regular(self._store.contents.blob(manifest.config.digest), MOST_MANIFEST_BYTES))
        config = checked(dict(document.get("config") or {}), name)
        if config.pop("OnBuild", None):
            message = f"the image {name} has ONBUILD instructions, which are not supported"
            raise InputError(message, path=self._file.path, line=start.line)
        found = document.get("history")
        history = [each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict)]
        unknown = len(manifest.layers) - sum(not each.get("empty_layer") for each in history)
        history = [{"created_by": "unknown"}] * unknown + history
        return State(image.digest, image, config, str(document.get("author") or ""), history)

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

    def _configure(self, instruction: Instruction, state: State, global_arguments: Mapping[str, str]) -> None:
        if not (isinstance(instruction, of.Variables) and instruction.keyword == "ARG"):
            variables = state.variables
            state.configure(instruction, lambda text: self._expanded(text, variables, instruction))
            return
        for name, default in instruction.pairs:
            value = self._argument(name, default, state.variables, instruction)
            value = global_arguments.get(name) if value is None else value
            if value is not None:
                state.arguments[name] = value
        state.note(instruction, is_empty=True)

    # Instructions that change files

    def _work(self, instruction: Instruction, state: State, tell: Callable[[bytes], None]) -> tuple[State, bool]:
        match instruction:
            case of.Run():
                return self._run_program(instruction, state, tell)
            case of.Copy():
                return self._copy(instruction, state)
        assert isinstance(instruction, of.Setting), "it is WORKDIR"
        text = self._expanded(instruction.values[0], state.variables, instruction)
        directory = joined(state.directory, text)
        tree = self._tree(state)
        user = str(state.config.get("User") or "")
        with self._layer(tree, "/", owner=find_owner(user, tree) if user else None) as layer:
            layer.make_directory(directory)
            state, is_cached = self._with_layer(state, instruction, layer)
        state.config["WorkingDir"] = directory
        return state, is_cached

    def _layer(self, tree: MergedTree, directory: str, **more: Any) -> Layer:
        return Layer(tree, directory, self._store.scratch(), **more)

    def _tree(self, state: State) -> MergedTree:
        return self._tree_of(state.image, "the image")

    def _tree_of(self, image: StoredImage | None, described: str) -> MergedTree:
        layers = [self._store.layers / name for name in image.layers] if image else []
        return MergedTree(layers, described, keeps_owners=os.geteuid() == 0)

    def _origin(self, name: str, before: int | None) -> Origin:
        if not name:
            if self._context is None:
                self._context = open_context(self._wanted.context, self._wanted.dockerfile)
            return self._context
        stage = self._file.stage(name, before)
        if stage is not None and stage in self._states:
            return Origin(self._tree_of(self._states[stage].image, f"the stage {name}"), keeps_owners=True)
        return Origin(self._tree_of(self._provided(name), f"the image {name}"), keeps_owners=True)

    def _copy(self, instruction: of.Copy, state: State) -> tuple[State, bool]:
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
                    layer.write(document.name, destination, *_content(content.encode()), several=several)
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
        try:
            name = posixpath.basename(urlsplit(address).path)
        except ValueError as error:
            raise InputError(f"the address is not valid: {error}") from error
        if name in ("", ".", "..") and (several or destination.endswith("/")):
            raise InputError("the address has no file name", hint="write the name of the file as the destination")
        kind, _, digest = checksum.partition(":")
        if checksum and (kind != "sha256" or len(digest) != 64):
            raise InputError(f"--checksum={checksum} is not sha256: and 64 hexadecimal digits")
        remote = self._held.enter_context(RemoteFile(address, self._download, self._store.scratch()))
        digest = digest.lower() or remote.digest()
        layer.write(name, destination, remote.open, digest, several=several, mode=_DOWNLOAD_MODE)

    def _with_layer(self, state: State, instruction: Instruction, layer: Layer) -> tuple[State, bool]:
        items = layer.items
        if not items:
            state.note(instruction, is_empty=True)
            return state, True
        key = key_of_step("files", state.key, sorted(map(Item.described, items), key=str))

        def make() -> str:
            with tempfile.TemporaryFile(dir=self._store.scratch()) as file:
                write_layer(items, file)
                file.flush()
                path = Path(f"/proc/self/fd/{file.fileno()}")
                base = state.image.digest if state.image else None
                return self._store.add(DerivedImage(self._store, base, path, instruction.text), None).digest

        return self._made(state, instruction, key, make)

    def _made(self, state: State, instruction: Instruction, key: str, make: Callable[[], str]) -> tuple[State, bool]:
        image, is_cached = self._obtained(key, make)
        following = replace(state, key=key, image=image)
        following.note(instruction, is_empty=False)
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

    def _finished(self, state: State) -> StoredImage:
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

    def _run_program(self, instruction: of.Run, state: State, tell: Callable[[bytes], None]) -> tuple[State, bool]:
        if state.image is None:
            raise InputError("an image without files has no program to run", hint="copy the program into it before")
        base, user = state.image.digest, str(state.config.get("User") or "")
        environment = {"PATH": _SEARCH_PATH, **state.variables}
        network = "none" if instruction.network == "none" else self._wanted.network
        place = self._place_of(instruction)
        tree = self._tree(state)
        with Mounts(self._store, tree, state.directory) as mounts:
            mounts.add_settings(tree)
            arguments = _arguments_of(instruction, state, mounts)
            for mount in instruction.mounts:
                options = {
                    name: self._expanded(value, state.variables, instruction) for name, value in mount.options.items()
                }
                mounts.add(mount.kind, options, lambda name: self._origin(name, place), self._wanted.secrets)
            key = key_of_step(
                *("run", state.key, arguments, environment, state.directory, user),
                *(network, mounts.described),
            )
            proxies = {name: self._wanted.arguments[name] for name in _PROXIES & self._wanted.arguments.keys()}

            def make() -> str:
                around = NO_SURROUNDINGS if network == "none" else self._surroundings()
                mounts.add_unkeyed(around.files)
                step = Step(
                    image=base,
                    text=instruction.text,
                    arguments=arguments,
                    environment={**around.environment, **proxies, **environment, **mounts.environment},
                    directory=state.directory,
                    user=user,
                    network=network,
                    private_hosts=(*self._wanted.private_hosts, *around.hosts),
                    recording=around.recording,
                    files=mounts.packed(),
                    volumes=mounts.volumes(),
                    left_out=mounts.left_out(),
                )
                tell(b"")
                try:
                    result = self._run(step, tell)
                except UsageError as error:
                    raise InputError(str(error), hint=error.hint) from error
                if result.exit_code:
                    message = f"{self._file.path}:{instruction.line}: {instruction.text[:100]}"
                    raise BuildError(f"{message} failed with exit code {result.exit_code}")
                return result.digest

            return self._made(state, instruction, key, make)


def _arguments_of(instruction: of.Run, state: State, mounts: Mounts) -> tuple[str, ...]:
    command, documents = instruction.command, instruction.documents
    if not isinstance(command, str):
        return command
    if len(documents) == 1 and len(command.split()) == 1 and command.startswith("<<"):
        command = documents[0].content
        if command.startswith("#!"):
            return (mounts.add_script(documents[0].name, command),)
    elif documents:
        command = "\n".join([command, *(f"{each.content}{each.name}" for each in documents), ""])
    return (*state.shell, command)


def _is_directory(instruction: Instruction) -> bool:
    return isinstance(instruction, of.Setting) and instruction.keyword == "WORKDIR"


def _content(content: bytes) -> tuple[Callable[[], BytesIO], str]:
    return lambda: BytesIO(content), hashlib.sha256(content).hexdigest()
