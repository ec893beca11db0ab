"""Reads `task.toml` of Harbor's task directory, schema 1.0 to 1.4: the texts that Harbor 0.25 accepts, and its values.

Harbor's models convert values, and so do these. A field that Harbor ignores has no effect here; `unknown_fields` names
it.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address, ip_network
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sandrl.errors import InputError
from sandrl.problems.fields import reason_of
from sandrl.problems.tasks.task import Reach, RewardStrategy, VerifierMode
from sandrl.settings import NetworkMode

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")

MAIN_SERVICE = "main"

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_TASK_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")
_TOPOLOGY = re.compile(r"[1-9]\d*(x[1-9]\d*)+")
_LONG_NAME = re.compile(r"""(?:(?:(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_UNPORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
_UNITS, _MEGABYTES = "kKmMgG", (1 / 1024, 1.0, 1024.0)
_LONGEST_NAME = 255
_NOT_ALLOWLIST = "allowed_hosts has an effect with network_mode = 'allowlist' only"

# Headers of MCP servers.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_EMPTY_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}"
_CREDENTIAL = re.compile(rf"\s*(?:[A-Za-z]+\s+)?{_EMPTY_VARIABLE}(?:[\s:-]*{_EMPTY_VARIABLE})*\s*")


class HarborNetwork(StrEnum):
    NONE = "no-network"
    PUBLIC = "public"
    ALLOWLIST = "allowlist"


NETWORK_MODES = {
    HarborNetwork.NONE: NetworkMode.NONE,
    HarborNetwork.PUBLIC: NetworkMode.PUBLIC,
    HarborNetwork.ALLOWLIST: NetworkMode.ALLOWLIST,
}


class _Table(BaseModel):
    # What Harbor does not know is kept only to be named.
    model_config = ConfigDict(extra="allow")


def _hosts(hosts: list[str] | None) -> list[str] | None:
    return None if hosts is None else [_host(each.strip().lower().rstrip(".")) for each in hosts]


def _host(host: str) -> str:
    if not host:
        raise ValueError("has an empty host")
    try:
        if "/" in host and "%" not in host:
            return ip_network(host, strict=True).compressed
        if ":" in host and "/" not in host and "%" not in host:
            return _address(host, 6)
    except ValueError:
        pass
    if any(each in host for each in "/:[]"):
        raise ValueError(
            f"{host!r:.60} is neither a host, an address nor a range of them; leave out scheme, port and path"
        )
    name = host.removeprefix("*.")
    if name != host and _is_address(name):
        raise ValueError(f"{host!r:.60} has a * before an address; it is for names only")
    if "*" in name:
        raise ValueError(f"{host!r:.60} has a * that is not at its beginning, as in *.example.com")
    if not all(map(_LABEL.fullmatch, name.split("."))):
        raise ValueError(f"{host!r:.60} is neither the name of a host, an address nor a range of them")
    return host


def _address(host: str, version: int) -> str:
    address = ip_address(host)
    if address.version != version:
        raise ValueError
    return address.compressed


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


Hosts = Annotated[list[str] | None, AfterValidator(_hosts)]


def _service(value: str | None) -> str | None:
    if value is None:
        return None
    value = value.strip()
    if not _SERVICE.fullmatch(value):
        raise ValueError(f"{value!r:.60} is not the name of a Compose service")
    return value


def _reach(mode: HarborNetwork, hosts: list[str] | None) -> Reach:
    return Reach(NETWORK_MODES[mode], tuple(hosts or ()))


class _PhaseTable(_Table):
    network_mode: HarborNetwork | None = None
    allowed_hosts: Hosts = None

    @model_validator(mode="after")
    def _check_network(self) -> _PhaseTable:
        is_list = self.network_mode is HarborNetwork.ALLOWLIST
        if not is_list and (self.allowed_hosts if self.network_mode else self.allowed_hosts is not None):
            raise ValueError(_NOT_ALLOWLIST)
        return self

    @property
    def network(self) -> Reach | None:
        return None if self.network_mode is None else _reach(self.network_mode, self.allowed_hosts)


class AuthorTable(_Table):
    name: str
    email: str | None = None


def _task_name(name: str) -> str:
    if not _TASK_NAME.fullmatch(name) or ".." in name:
        raise ValueError(f"must be organization/name, of letters, digits, `.`, `_` and `-`, not {name!r:.60}")
    return name


class PackageTable(_Table):
    name: Annotated[str, AfterValidator(_task_name)]
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    authors: list[AuthorTable] = []
    keywords: list[str] = []


class SolutionTable(_Table):
    env: dict[str, str] = {}


class AgentTable(_PhaseTable):
    timeout_sec: float | None = None
    user: str | int | None = None


class HealthcheckTable(_Table):
    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


def _topology(value: str) -> str:
    value = value.strip()
    if not _TOPOLOGY.fullmatch(value):
        raise ValueError(f"must be dimensions such as 2x4 or 2x2x1, not {value!r:.60}")
    return value


class TpuTable(_Table):
    type: str = Field(min_length=1)
    topology: Annotated[str, AfterValidator(_topology)]


class SystemName(StrEnum):
    LINUX = "linux"
    WINDOWS = "windows"


def _cpus(value: float | None) -> float | None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("must be a finite number")
        return int(value) if value.is_integer() else value
    return value


class McpServerTable(_Table):
    name: str
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"],
        BeforeValidator(lambda value: "streamable-http" if value == "http" else value),
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _check(self) -> McpServerTable:
        for name, value in self.headers.items():
            _check_header(name, value)
        if self.transport == "stdio":
            if not self.command:
                raise ValueError("has no `command`, which the transport stdio needs")
            if self.headers:
                raise ValueError("has `headers`, which the transport stdio does not have")
        elif not self.url:
            raise ValueError(f"has no `url`, which the transport {self.transport} needs")
        return self


def _check_header(name: str, value: str) -> None:
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{name!r:.60} is not the name of a header")
    if "\r" in value or "\n" in value:
        raise ValueError(f"the header {name!r:.60} has a line end in it")
    variables = _VARIABLE.findall(value)
    if "${" in _VARIABLE.sub(" ", value) or any("${" in default for _, default in variables):
        raise ValueError(f"the header {name!r:.60} has a variable that is not ${{NAME}} or ${{NAME:-default}}")
    is_secret = bool(_SECRET.search(name)) or name.lower() in ("cookie", "set-cookie")
    written = any(default and (is_secret or _SECRET.search(variable)) for variable, default in variables)
    if written or (is_secret and value.strip() and not _CREDENTIAL.fullmatch(value)):
        raise ValueError(f"the header {name!r:.60} holds a credential; name a variable instead, as in ${{TOKEN}}")


def _megabytes(size: str) -> int:
    size = size.strip()
    try:
        if size and size[-1] in _UNITS:
            return int(float(size[:-1]) * _MEGABYTES[_UNITS.index(size[-1]) // 2])
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"must be a size such as 2G or 512M, not {size!r:.60}")


class EnvironmentTable(_Table):
    network_mode: HarborNetwork = HarborNetwork.PUBLIC
    allowed_hosts: Hosts = None
    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: Annotated[SystemName, BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)] = (
        SystemName.LINUX
    )
    cpus: Annotated[int | float | None, AfterValidator(_cpus)] = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: TpuTable | None = None
    mcp_servers: list[McpServerTable] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: HealthcheckTable | None = None
    workdir: str | None = None
    allow_internet: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _migrate(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old in ("memory", "storage"):
            # Without a unit it says nothing to Harbor.
            if isinstance(size := data.pop(old, None), str):
                megabytes = _megabytes(size)
                if data.setdefault(f"{old}_mb", megabytes) != megabytes:
                    raise ValueError(f"`{old}` is {size!r:.40}, and `{old}_mb` is {data[f'{old}_mb']!r:.40}")
        return data

    @model_validator(mode="after")
    def _check_network(self) -> EnvironmentTable:
        if self.network_mode is not HarborNetwork.ALLOWLIST and self.allowed_hosts:
            raise ValueError(_NOT_ALLOWLIST)
        is_said = "network_mode" in self.model_fields_set or self.allowed_hosts is not None
        if self.allow_internet is not None and not is_said:
            self.network_mode = HarborNetwork.PUBLIC if self.allow_internet else HarborNetwork.NONE
        return self

    @property
    def network(self) -> Reach:
        return _reach(self.network_mode, self.allowed_hosts)


class CollectTable(_Table):
    command: str
    service: Annotated[str, AfterValidator(_service)] = MAIN_SERVICE
    timeout_sec: float = 60.0
    user: str | int | None = None


class VerifierTable(_PhaseTable):
    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: VerifierMode | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = []

    @model_validator(mode="after")
    def _check_mode(self) -> VerifierTable:
        if self.environment_mode is VerifierMode.SHARED and self.environment is not None:
            raise ValueError("has an `environment`, and environment_mode = 'shared' says that there is none")
        return self

    @property
    def mode(self) -> VerifierMode | None:
        """Where it runs, if that is said here."""
        return self.environment_mode or (None if self.environment is None else VerifierMode.SEPARATE)


def _source(value: str) -> str:
    if ".." in PurePosixPath(value).parts:
        raise ValueError(f"must not have `..` in it, as {value!r:.60} has")
    return value


def _destination(value: str | None) -> str | None:
    if not value:
        return None
    path = PurePosixPath(value)
    if "\\" in value or path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError(f"must be a relative path with forward slashes and without `..`, not {value!r:.60}")
    if value.rstrip("/") == "manifest.json":
        raise ValueError("must not be manifest.json, which is reserved")
    return value


class ArtifactTable(_Table):
    source: Annotated[str, AfterValidator(_source)]
    destination: Annotated[str | None, AfterValidator(_destination)] = None
    exclude: list[str] = []
    service: Annotated[str | None, AfterValidator(_service)] = None

    @model_validator(mode="after")
    def _check_source(self) -> ArtifactTable:
        is_absolute = self.source.startswith("/") or _DRIVE.match(self.source)
        if self.service not in (None, MAIN_SERVICE) and not is_absolute:
            raise ValueError(f"has the source {self.source!r:.60}, which must be an absolute path in the service")
        return self


Artifacts = Annotated[
    list[ArtifactTable],
    BeforeValidator(
        lambda given: (
            [{"source": each} if isinstance(each, str) else each for each in given]
            if isinstance(given, list)
            else given
        )
    ),
]


def _step_name(name: str) -> str:
    if (
        not name.strip()
        or name in (".", "..")
        or name.endswith((".", " "))
        or _UNPORTABLE.search(name)
        or _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
        or len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME
    ):
        raise ValueError(f"must be the name of a directory on any system, not {name!r:.60}")
    return name


class StepTable(_Table):
    name: Annotated[str, AfterValidator(_step_name)]
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckTable | None = None
    artifacts: Artifacts = []


def _steps(steps: list[StepTable] | None) -> list[StepTable] | None:
    keys = [unicodedata.normalize("NFC", step.name).casefold() for step in steps or ()]
    for step, key in zip(steps or (), keys, strict=True):
        if keys.count(key) > 1:
            raise ValueError(f"has two steps of the name {step.name!r:.60}, not counting upper and lower case")
    return steps


class HarborConfig(_Table):
    """The whole of a `task.toml`."""

    schema_version: str = "1.4"
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}
    verifier: VerifierTable = VerifierTable()
    agent: AgentTable = AgentTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    source: str | None = None
    multi_step_reward_strategy: RewardStrategy | None = None
    steps: Annotated[list[StepTable] | None, AfterValidator(_steps)] = None
    artifacts: Artifacts = []

    @model_validator(mode="before")
    @classmethod
    def _rename_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            data.setdefault("schema_version", data.pop("version"))
        return data


def read_harbor_config(text: str, path: Any = None) -> HarborConfig:
    """Reads the text of a `task.toml`.

    Raises:
        InputError: If it is not TOML, or a field is wrong; the error names its line, or the field.
    """
    # `tomllib` needs minutes for names of thousands of parts.
    if long := _LONG_NAME.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise InputError("is not TOML that can be read: it is nested too deep", path=path, line=line)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError(f"is not TOML: {str(error).partition(' (at ')[0]}", path=path, line=line) from None
    except RecursionError:
        raise InputError("is not TOML that can be read: it is nested too deep", path=path) from None
    try:
        return HarborConfig.model_validate(document)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        parts = _known_parts(document, first)
        raise InputError(
            reason_of(first), path=path, line=_line_of(text, parts), field=_joined(parts) or None
        ) from None


def unknown_fields(table: BaseModel, place: str = "") -> Iterator[str]:
    """The fields of a table and of those in it that have no effect, because Harbor does not know them."""
    yield from (f"{place}{name}" for name in table.model_extra or ())
    for name in type(table).model_fields:
        value = getattr(table, name)
        for number, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, BaseModel):
                position = f"[{number}]" if isinstance(value, list) else ""
                yield from unknown_fields(each, f"{place}{name}{position}.")


# The place of an error as the file has it: without the members of unions, which pydantic names as well.
def _known_parts(document: object, error: Mapping[str, Any]) -> list[str | int]:
    parts: list[str | int] = []
    value: Any = document
    for part in error["loc"]:
        is_there = (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if not is_there:
            if error["type"] == "missing":
                parts.append(part)
            break
        value = value[part]
        parts.append(part)
    return parts


def _joined(parts: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


# The line on which a field of a table is assigned; None if it cannot be found by its words.
def _line_of(text: str, parts: list[str | int]) -> int | None:
    names = [part for part in parts if isinstance(part, str)]
    numbers = [part for part in parts if isinstance(part, int)]
    for length in range(len(names), 0, -1):
        header = re.compile(r"\s*\[+\s*" + r"\s*\.\s*".join(map(re.escape, names[: length - 1])) + r"\s*\]+\s*(#.*)?")
        wanted = re.compile(rf"\s*(?:\S+\s*\.\s*)*[\"']?{re.escape(names[length - 1])}[\"']?\s*[=.].*")
        is_within, seen = length == 1, -1
        for number, line in enumerate(text.split("\n"), 1):
            if line.lstrip().startswith("["):
                is_header = length > 1 and header.fullmatch(line) is not None
                seen += is_header
                is_within = is_header and (not numbers or not line.lstrip().startswith("[[") or seen == numbers[0])
            elif is_within and wanted.fullmatch(line):
                return number
    return None
