"""The instructions of a Dockerfile, each with its line. A file with one that is not supported is refused as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from sandrl.errors import InputError
from sandrl.files import read_regular
from sandrl.runtime.images.dockerfile.statements import (
    MOST_BYTES,
    Document,
    Statement,
    Statements,
    raw_words,
    read_statements,
)
from sandrl.runtime.images.dockerfile.words import array, number_of, pairs

_OPTION = re.compile(r"--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)")
_STAGE_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|m|s|ms|us|µs|ns))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_MOST_DURATION = 40
_NANOSECONDS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_MOUNTS: Mapping[str, frozenset[str]] = {
    "bind": frozenset({"target", "source", "from", "readwrite", "readonly"}),
    "cache": frozenset({"target", "id", "sharing", "readwrite", "readonly", "mode", "uid", "gid"}),
    "tmpfs": frozenset({"target", "size"}),
    "secret": frozenset({"target", "id", "required", "env", "mode", "uid", "gid"}),
}
_ALIASES = {"dst": "target", "destination": "target", "src": "source", "ro": "readonly", "rw": "readwrite"}
_LATER = "until this is supported, build the image elsewhere and import it: sandrl images import FILE NAME"

Command = str | tuple[str, ...]
"""The text for a shell, or the words of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What all instructions have.

    Attributes:
        line: Its first line, from 1.
        text: The instruction in one line, for people.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class From(Instruction):
    """Begins a stage; the words may have variables."""

    image: str
    name: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount of a `RUN`; the values may have variables."""

    kind: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Instruction):
    """A command; `network` is `default` or `none`."""

    command: Command
    mounts: tuple[Mount, ...]
    network: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Instruction):
    """`COPY` or `ADD`; the words may have variables.

    Attributes:
        origin: The stage or the image of `--from`; empty for the context.
        documents: Sources that are in the file itself, by the words that name them (`<<NAME`).
    """

    sources: tuple[str, ...]
    destination: str
    documents: Mapping[str, Document]
    is_add: bool
    origin: str = ""
    owner: str = ""
    mode: str = ""
    checksum: str = ""
    keeps_parents: bool = False
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables(Instruction):
    """`ENV`, `LABEL` or `ARG`: names and values, with their quotes and variables; None for an `ARG` without a value."""

    keyword: str
    pairs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Instruction):
    """`WORKDIR`, `USER`, `STOPSIGNAL`, `MAINTAINER` (one value), `EXPOSE` or `VOLUME` (several), with variables."""

    keyword: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Instruction):
    """`ENTRYPOINT`, `CMD` or `SHELL`."""

    keyword: str
    command: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck(Instruction):
    """A health check as the configuration of an image has it."""

    document: Mapping[str, object]


@dataclass(slots=True)
class Stage:
    """A stage: its `FROM`, and what follows."""

    start: From
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile.

    Attributes:
        path: As it is named in messages.
        arguments: The `ARG`s before the first `FROM`.
    """

    path: str
    escape: str
    arguments: tuple[Variables, ...]
    stages: tuple[Stage, ...]

    def stage(self, name: str, before: int | None = None) -> int | None:
        """The number of a stage by its name or number, of those before another one; None if there is none."""
        last = len(self.stages) if before is None else before
        for number in reversed(range(last)):
            if self.stages[number].start.name == name.lower():
                return number
        return int(name) if name.isascii() and name.isdigit() and len(name) < 6 and int(name) < last else None


def read_dockerfile(path: Path, shown: str) -> Dockerfile:
    """Reads a Dockerfile, which messages call `shown`.

    Raises:
        InputError: If it cannot be read, or has what is not supported; it names the line.
    """
    try:
        content = read_regular(path, MOST_BYTES)
        text = content.decode()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, InputError) as error:
        raise InputError(f"is not a Dockerfile: {error}", path=path) from error
    return parse_dockerfile(text, shown)


def parse_dockerfile(text: str, path: str) -> Dockerfile:
    """Reads the text of a Dockerfile.

    Raises:
        InputError: If it has what is not supported; it names the line.
    """
    try:
        statements = read_statements(text)
    except InputError as error:
        raise error.at(path, error.line) from None
    arguments: list[Variables] = []
    stages: list[Stage] = []
    for each in statements.all:
        try:
            parsed = _parse(each, statements)
            if isinstance(parsed, From):
                stages.append(Stage(parsed))
            elif stages:
                stages[-1].instructions.append(parsed)
            elif isinstance(parsed, Variables) and parsed.keyword == "ARG":
                arguments.append(parsed)
            else:
                raise InputError(f"{each.keyword} stands before the first FROM", hint="begin with FROM IMAGE")
        except InputError as error:
            raise error.at(path, each.line) from None
    if not stages:
        raise InputError("has no FROM", path=path, hint="begin with FROM IMAGE")
    return Dockerfile(path, statements.escape, tuple(arguments), tuple(stages))


def _parse(statement: Statement, statements: Statements) -> Instruction:
    reader = _READERS.get(statement.keyword)
    if statement.keyword == "ONBUILD":
        message = "ONBUILD is not supported: it is for images that others build on"
        raise InputError(message, hint=_LATER)
    if reader is None:
        close = get_close_matches(statement.keyword, _READERS, 1)
        hint = f"did you mean {close[0]}?" if close else None
        raise InputError(f"{statement.keyword[:40]!r} is not an instruction", hint=hint)
    if not statement.rest.strip():
        raise InputError(f"{statement.keyword} has nothing after it")
    return reader(statement, statements.escape)


def _options(statement: Statement, known: Sequence[str], several: Sequence[str] = ()) -> tuple[dict[str, str], str]:
    # Options, those that may be given several times joined by line feeds, and what follows them.
    found: dict[str, str] = {}
    rest = statement.rest.lstrip()
    while (option := _OPTION.match(rest)) is not None:
        name, value = option[1], option[2]
        if name not in known and name not in several:
            close = get_close_matches(name, [*known, *several], 1)
            hint = f"did you mean --{close[0]}?" if close else _LATER
            raise InputError(f"--{name} of {statement.keyword} is not supported", hint=hint)
        if name in found and name not in several:
            raise InputError(f"--{name} is given twice")
        given = "true" if value is None and name in _SWITCHES else value
        if not given:
            raise InputError(f"--{name} has no value")
        found[name] = f"{found[name]}\n{given}" if name in found else given
        rest = rest[option.end() :]
    if rest.startswith("--"):
        raise InputError(f"{rest.split()[0]!r} is not an option of {statement.keyword}")
    if not rest.strip():
        raise InputError(f"{statement.keyword} has nothing after its options")
    return found, rest


_SWITCHES = frozenset({"link", "parents"})


def _switch(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise InputError(f"--{name} is neither true nor false")
    return value == "true"


def _from(statement: Statement, _escape: str) -> From:
    options, rest = _options(statement, ["platform"])
    words = rest.split()
    name = ""
    if len(words) == 3 and words[1].lower() == "as":
        name = words[2].lower()
    elif len(words) != 1:
        raise InputError("FROM needs IMAGE, or IMAGE AS NAME")
    if name and not _STAGE_NAME.fullmatch(name):
        raise InputError(f"{words[2]!r} is not the name of a stage: letters, digits, `_`, `.` and `-` are needed")
    return From(
        line=statement.line, text=statement.text, image=words[0], name=name, platform=options.get("platform", "")
    )


def _command(rest: str) -> Command:
    return found if (found := array(rest)) is not None else rest.strip()


def _run(statement: Statement, escape: str) -> Run:
    options, rest = _options(statement, ["network", "security"], ["mount"])
    network = options.get("network", "default")
    if network not in ("default", "none"):
        raise InputError(f"--network={network} is not supported: the network of the host is out of reach", hint=_LATER)
    if options.get("security", "sandbox") != "sandbox":
        raise InputError("--security is not supported: programs of a build are always isolated")
    command = _command(rest)
    if not command:
        raise InputError("RUN has no program")
    mounts = tuple(_mount(each, escape) for each in options.get("mount", "").splitlines())
    return Run(
        line=statement.line,
        text=statement.text,
        command=command,
        mounts=mounts,
        network=network,
        documents=statement.documents,
    )


def _mount(text: str, _escape: str) -> Mount:
    options: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = _ALIASES.get(name.lower(), name.lower())
        options[name] = value.strip("\"'") if equals else "true"
    kind = options.pop("type", "bind")
    if kind not in _MOUNTS:
        message = f"a mount of the type {kind!r} is not supported: only {', '.join(_MOUNTS)} are"
        raise InputError(message, hint=_LATER)
    for name in options:
        if name not in _MOUNTS[kind]:
            raise InputError(f"{name!r} of a mount of the type {kind} is not supported", hint=_LATER)
    if kind != "secret" and not options.get("target"):
        raise InputError(f"a mount of the type {kind} has no target")
    if kind == "secret" and not (options.get("id") or options.get("target")):
        raise InputError("a mount of the type secret has neither id nor target")
    if options.get("sharing", "shared") not in ("shared", "private", "locked"):
        raise InputError(f"sharing={options['sharing']} of a mount is not known: shared, private or locked is")
    return Mount(kind=kind, options=options)


def _copy(statement: Statement, escape: str) -> Copy:
    is_add = statement.keyword == "ADD"
    own = ["checksum"] if is_add else ["from", "parents"]
    options, rest = _options(statement, ["chown", "chmod", "link", *own], ["exclude"])
    words = array(rest) or tuple(raw_words(rest, escape))
    if len(words) < 2:
        raise InputError(f"{statement.keyword} needs SOURCE … DESTINATION")
    *sources, destination = words
    _switch(options, "link")
    names = {each.name: each for each in statement.documents}
    documents = {}
    for word in sources:
        if word.startswith("<<") and (name := word.removeprefix("<<").removeprefix("-").strip("\"'")) in names:
            documents[word] = names[name]
    if "$" in options.get("from", ""):
        raise InputError("--from cannot have variables", hint="give the stage a name: FROM IMAGE AS NAME")
    if documents and options.get("from"):
        raise InputError("a here-document cannot come --from elsewhere")
    mode = options.get("chmod", "")
    if mode and "$" not in mode and not re.fullmatch(r"[0-7]{3,4}", mode):
        raise InputError(f"--chmod={mode} is not supported: only octal modes such as 755 are")
    if len(sources) > 1 and not destination.endswith("/") and destination not in (".", "..") and "$" not in destination:
        raise InputError(f"several sources need a directory as their destination: write {destination}/")
    for each in sources:
        if is_add and re.match(r"git@|git://|https?://\S+\.git(?:[#?]|$)", each):
            raise InputError("repositories of git are not supported by ADD", hint="clone it into the context before")
    return Copy(
        line=statement.line,
        text=statement.text,
        sources=tuple(sources),
        destination=destination,
        documents=documents,
        is_add=is_add,
        origin=options.get("from", ""),
        owner=options.get("chown", ""),
        mode=mode,
        checksum=options.get("checksum", ""),
        keeps_parents=_switch(options, "parents"),
        excluded=tuple(options.get("exclude", "").splitlines()),
    )


def _variables(statement: Statement, escape: str) -> Variables:
    found: list[tuple[str, str | None]] = []
    if statement.keyword == "ARG":
        for word in raw_words(statement.rest, escape):
            name, equals, value = word.partition("=")
            found.append((name, value if equals else None))
    else:
        found.extend(pairs(statement.rest, escape))
    for name, _ in found:
        if statement.keyword == "ARG" and not _VARIABLE_NAME.fullmatch(name):
            raise InputError(f"{name!r} is not the name of a variable")
    return Variables(line=statement.line, text=statement.text, keyword=statement.keyword, pairs=tuple(found))


def _setting(statement: Statement, escape: str) -> Setting:
    rest = statement.rest.strip()
    values: tuple[str, ...] = (rest,)
    if statement.keyword == "VOLUME":
        values = array(rest) or tuple(rest.split())
    elif statement.keyword == "EXPOSE":
        values = tuple(raw_words(rest, escape))
    elif statement.keyword == "USER" and len(rest.split()) > 1:
        raise InputError("USER needs one name, or NAME:GROUP")
    return Setting(line=statement.line, text=statement.text, keyword=statement.keyword, values=values)


def _program(statement: Statement, _escape: str) -> Program:
    command = _command(statement.rest)
    if statement.keyword == "SHELL" and (isinstance(command, str) or not command):
        raise InputError('SHELL needs an array of strings, such as ["/bin/bash", "-c"]')
    return Program(line=statement.line, text=statement.text, keyword=statement.keyword, command=command)


def _health_check(statement: Statement, _escape: str) -> HealthCheck:
    known = ("interval", "timeout", "start-period", "start-interval", "retries")
    if statement.rest.strip().upper() == "NONE":
        return HealthCheck(line=statement.line, text=statement.text, document={"Test": ["NONE"]})
    options, rest = _options(statement, known)
    keyword, _, command = rest.strip().partition(" ")
    if keyword.upper() != "CMD" or not command.strip():
        raise InputError("HEALTHCHECK needs NONE, or CMD and a command")
    words = _command(command)
    document: dict[str, object] = {"Test": ["CMD-SHELL", words] if isinstance(words, str) else ["CMD", *words]}
    for name, value in options.items():
        key = "".join(part.capitalize() for part in name.split("-"))
        if name == "retries":
            document[key] = number_of(value, "--retries")
        else:
            if not _DURATION.fullmatch(value) or len(value) > _MOST_DURATION:
                raise InputError(f"--{name}={value} is not a duration such as 30s")
            document[key] = sum(int(float(n) * _NANOSECONDS[unit]) for n, unit in _DURATION_PART.findall(value))
    return HealthCheck(line=statement.line, text=statement.text, document=document)


_READERS: Mapping[str, Callable[[Statement, str], Instruction]] = {
    "FROM": _from,
    "RUN": _run,
    "COPY": _copy,
    "ADD": _copy,
    **dict.fromkeys(("ENV", "ARG", "LABEL"), _variables),
    **dict.fromkeys(("WORKDIR", "USER", "STOPSIGNAL", "MAINTAINER", "EXPOSE", "VOLUME"), _setting),
    **dict.fromkeys(("ENTRYPOINT", "CMD", "SHELL"), _program),
    "HEALTHCHECK": _health_check,
}
