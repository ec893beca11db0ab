"""Reads the environment variables once into typed settings.

This record determines the directories, services and credentials of a command. It can be printed (its representation
holds no secret) and created by hand in a test. Reading it looks at the file system, but creates nothing.

Other modules read variables that are not settings of a command: the isolation and interpreters of this machine
(`sandrl.runtime`), the environment of a job, such as Slurm (`sandrl.sandboxes.tags`), and the user's terminal, pager
and shell (`sandrl.cli`). Variables of a library are set or read where that library is loaded.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from sandrl.errors import AuthenticationError, SandrlError, UsageError
from sandrl.suggestions import VALUES, near

_CREDENTIALS_HINT = "set CWSANDBOX_API_KEY (or WANDB_API_KEY and WANDB_ENTITY_NAME), or use `runtime` local"


class RuntimeKind(StrEnum):
    """The runtimes of sandrl itself; `auto` decides by the credentials that are present.

    Each of the others names a module in `sandrl.sandboxes.providers`. Packages add runtimes of other names, so the kind
    of a runtime is a text: see `runtime_names`.
    """

    AUTO = "auto"
    LOCAL = "local"
    REMOTE = "remote"
    DAEMONLESS = "daemonless"
    RAY = "ray"
    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"


class NetworkMode(StrEnum):
    """What the programs of a sandbox may reach of the network."""

    NONE = "none"
    ALLOWLIST = "allowlist"
    PUBLIC = "public"


RUNTIME_WORDS = f"{'|'.join(RuntimeKind)}|NAME[:ADDRESS]"
"""How a runtime is named; only that of a Ray cluster may have an address."""
PROVIDERS_GROUP = "sandrl.providers"
"""The group of the entry points by which packages add runtimes."""

_RUNTIME_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@functools.cache
def runtime_names() -> tuple[str, ...]:
    """The names of all runtimes but `auto`: sandrl's own, and those that installed packages add."""
    from importlib.metadata import entry_points  # slow to import, and most commands name a runtime of sandrl's own

    own = [each.value for each in RuntimeKind if each is not RuntimeKind.AUTO]
    added = {each.name for each in entry_points(group=PROVIDERS_GROUP) if _RUNTIME_NAME.fullmatch(each.name)}
    return (*own, *sorted(added - set(RuntimeKind)))


def _is_runtime(word: str) -> bool:
    # The packages of this environment are looked through for names that are not sandrl's own only.
    return word in set(RuntimeKind) or word in runtime_names()


def split_runtime(named: str) -> tuple[str, str | None]:
    """Takes the name of a runtime apart: its kind, and the address of a Ray cluster where one is named.

    Raises:
        UsageError: If there is no such runtime.
    """
    problem = runtime_problem(named)
    if problem:
        raise UsageError(f"runtime {problem}", fields=("runtime",))
    word, _, address = named.partition(":")
    return word, address.strip() or None


def runtime_problem(named: str) -> str:
    """Says why there is no runtime of a name, without the field that has it; empty if there is one."""
    word, colon, address = named.partition(":")
    if _is_runtime(word) and (not colon or (word == RuntimeKind.RAY and address.strip())):
        return ""
    known = (RuntimeKind.AUTO.value, *runtime_names())
    meant = "" if word in known else near(word, known, VALUES)
    return f"is {named!r}; use one of {', '.join(known)} or ray:ADDRESS{meant}"


class ReportTo(StrEnum):
    """Where metrics go besides the run directory; `auto` decides by what is active and which key is set."""

    AUTO = "auto"
    NONE = "none"
    WANDB = "wandb"
    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    TRACKIO = "trackio"


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """The runtime that will be used.

    Attributes:
        kind: Which; never `AUTO`.
        address: Where it was said to be; None if nothing was said.
    """

    kind: str
    reason: str
    address: str | None = None


_KEYS_OF_LIBRARIES = ("HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    Attributes:
        state_dir: The user's own directory for the local runtime and the index of runs.
        cache_dir: For what can be made again.
        runs_dir: Where new run directories are made; relative to the current directory by default.
        config_dir: What the user has set for all commands, such as prices; by default there is nothing.
        base_url: Address of the sandbox service, where it is not the usual one.
        tinker_base_url: Address of that service, where it is not the usual one.
        wandb_training_base_url: Address of W&B Training, where it is not the usual one.
        wandb_mode: Whether it works `online`, `offline` or is `disabled`; what suits it unless set.
        wandb_entity: The entity it is used with; both together are credentials for the sandbox service, too.
        keys_of_libraries: What libraries log in with by themselves: it is masked, and not used.
        service_token: The token of `sandrl serve`, for the service and for those who ask it.
        service_url: The address of one, where integrations of trainers score with it.
        problems: The problems that integrations of trainers find by their names.
        harbor_registry: The registry of sets of tasks, a file or an address, where it is not the public one.
        images_size: How large the store of images may grow, as a size; it may grow without a limit unless set.
        sandbox_storage: How much a sandbox from an image may write to disk, as a size; it writes to memory unless set.
        ray_address: Where the Ray cluster is, as Ray takes it.
        docker_host: Where Docker's daemon is, if not at one of its usual sockets; so `container_host` for Podman.
        oci_runtime: The OCI runtime of containers, such as `runsc`; the engine's own choice unless set.
        kubeconfig: The files of the configuration of Kubernetes, if not the usual one or that of the pod it runs in.
        kubernetes_context: The context of it; the current one unless set.
        kubernetes_namespace: The namespace of sandboxes; that of the context unless set.
        kubernetes_warm_pool: The warm pool that sandboxes are taken from; each has a pod of its own unless set.
        kubernetes_runtime_class: The RuntimeClass of pods; that of the cluster unless set.
        registry_mirrors: `HOST=ADDRESS` each: servers that are asked for images before the registry HOST.
        insecure_registries: `HOST[:PORT]` each: registries that may be asked over plain HTTP.
        rank: Which process of a distributed job this is, from 0, as its launcher says.
        world_size: How many processes that job has.
    """

    state_dir: Path
    cache_dir: Path
    runs_dir: Path = Path("runs")
    config_dir: Path = Path(os.devnull)
    api_key: str | None = field(default=None, repr=False)
    api_key_source: str | None = None
    base_url: str | None = None
    base_url_source: str | None = None
    wandb_api_key: str | None = field(default=None, repr=False)
    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = None
    tinker_api_key: str | None = field(default=None, repr=False)
    tinker_api_key_source: str | None = None
    tinker_base_url: str | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_mode: str | None = None
    wandb_training_base_url: str | None = None
    keys_of_libraries: tuple[str, ...] = field(default=(), repr=False)
    service_token: str | None = field(default=None, repr=False)
    service_url: str | None = None
    problems: str | None = None
    harbor_registry: str | None = None
    images_size: str | None = None
    sandbox_storage: str | None = None
    ray_address: str | None = None
    docker_host: str | None = None
    container_host: str | None = None
    oci_runtime: str | None = None
    kubeconfig: str | None = None
    kubernetes_context: str | None = None
    kubernetes_namespace: str | None = None
    kubernetes_warm_pool: str | None = None
    kubernetes_runtime_class: str | None = None
    registry_mirrors: tuple[str, ...] = ()
    insecure_registries: tuple[str, ...] = ()
    rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Reads the settings; a variable that is empty counts as not set."""
        values = {name: value for name, value in environment.items() if value.strip()}
        api_key_source = _first_set(values, "CWSANDBOX_API_KEY", "AVIATO_API_KEY")
        base_url_source = _first_set(values, "CWSANDBOX_BASE_URL", "AVIATO_BASE_URL")
        tinker_source = _first_set(values, "ART_TINKER_API_KEY", "TINKER_API_KEY")
        return cls(
            state_dir=_directory(values, "SANDRL_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
            cache_dir=_directory(values, "SANDRL_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
            runs_dir=Path(values.get("SANDRL_RUNS_DIR", "runs")),
            config_dir=_directory(values, "SANDRL_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
            api_key=values[api_key_source] if api_key_source else None,
            api_key_source=api_key_source,
            base_url=values[base_url_source] if base_url_source else None,
            base_url_source=base_url_source,
            wandb_api_key=values.get("WANDB_API_KEY"),
            openai_api_key=values.get("OPENAI_API_KEY"),
            openai_base_url=values.get("OPENAI_BASE_URL"),
            tinker_api_key=values[tinker_source] if tinker_source else None,
            tinker_api_key_source=tinker_source,
            tinker_base_url=values.get("TINKER_BASE_URL"),
            wandb_entity=values.get("WANDB_ENTITY_NAME"),
            wandb_project=values.get("WANDB_PROJECT"),
            wandb_mode=values.get("WANDB_MODE"),
            wandb_training_base_url=values.get("WANDB_TRAINING_BASE_URL"),
            keys_of_libraries=tuple(values[name] for name in _KEYS_OF_LIBRARIES if name in values),
            service_token=values.get("SANDRL_SERVICE_TOKEN"),
            service_url=values.get("SANDRL_SERVICE_URL"),
            problems=values.get("SANDRL_PROBLEMS"),
            harbor_registry=values.get("SANDRL_HARBOR_REGISTRY"),
            images_size=values.get("SANDRL_IMAGES_SIZE"),
            sandbox_storage=values.get("SANDRL_SANDBOX_STORAGE"),
            ray_address=values.get("RAY_ADDRESS"),
            docker_host=values.get("DOCKER_HOST"),
            container_host=values.get("CONTAINER_HOST"),
            oci_runtime=values.get("SANDRL_OCI_RUNTIME"),
            kubeconfig=values.get("KUBECONFIG"),
            kubernetes_context=values.get("SANDRL_KUBERNETES_CONTEXT"),
            kubernetes_namespace=values.get("SANDRL_KUBERNETES_NAMESPACE"),
            kubernetes_warm_pool=values.get("SANDRL_KUBERNETES_WARM_POOL"),
            kubernetes_runtime_class=values.get("SANDRL_KUBERNETES_RUNTIME_CLASS"),
            registry_mirrors=_items(values, "SANDRL_REGISTRY_MIRRORS"),
            insecure_registries=_items(values, "SANDRL_INSECURE_REGISTRIES"),
            rank=_number(values, "RANK", 0),
            world_size=_number(values, "WORLD_SIZE", 1),
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be written or shown."""
        keys = (self.api_key, self.wandb_api_key, self.openai_api_key, self.tinker_api_key, self.service_token)
        return (*(key for key in keys if key), *self.keys_of_libraries)

    @property
    def credentials(self) -> str | None:
        """Names what authenticates with the sandbox service, never its value; None if nothing does."""
        if self.api_key_source:
            return self.api_key_source
        if self.wandb_api_key and self.wandb_entity:
            return "WANDB_API_KEY with WANDB_ENTITY_NAME"
        return None

    def container_engines(self, kind: str) -> tuple[str, ...]:
        """Where Docker or Podman may be: at the address that is set, else at the user's own socket or the machine's."""
        own = f"unix:///run/user/{os.getuid()}"
        if kind == RuntimeKind.DOCKER:
            return (self.docker_host,) if self.docker_host else (f"{own}/docker.sock", "unix:///var/run/docker.sock")
        usual = (f"{own}/podman/podman.sock", "unix:///run/podman/podman.sock")
        return (self.container_host,) if self.container_host else usual

    def choose_runtime(self, requested: str = RuntimeKind.AUTO) -> RuntimeChoice:
        """Decides what runs sandboxes: the name of a runtime, or `ray:ADDRESS`.

        Raises:
            AuthenticationError: If the remote service was asked for, by option or by address, without credentials.
            UsageError: If there is no such runtime.
        """
        kind, address = split_runtime(requested)
        if kind not in (RuntimeKind.AUTO, RuntimeKind.REMOTE):
            return RuntimeChoice(kind, "requested", address)
        if self.credentials is not None:
            if kind == RuntimeKind.REMOTE:
                return RuntimeChoice(RuntimeKind.REMOTE, f"requested, with {self.credentials}")
            return RuntimeChoice(RuntimeKind.REMOTE, f"{self.credentials} is set")
        if kind == RuntimeKind.REMOTE:
            missing = "runtime remote needs credentials, and no credentials are set"
            raise AuthenticationError(missing, hint=_CREDENTIALS_HINT, fields=("runtime",))
        if self.base_url_source is not None:
            missing = f"{self.base_url_source} is set, but no credentials are"
            raise AuthenticationError(missing, hint=_CREDENTIALS_HINT, fields=("runtime",))
        return RuntimeChoice(RuntimeKind.LOCAL, "no sandbox credentials are set")


def load_settings() -> Settings:
    """Reads the settings from this process's environment."""
    return Settings.from_environment(os.environ)


def private_directory(path: Path, *, variable: str = "SANDRL_STATE_DIR") -> Path:
    """Makes a directory that nobody else can enter, or checks one that is there; a variable names another one.

    Raises:
        SandrlError: If it cannot be made, is a link, belongs to someone else, or others may write to it.
    """
    hint = f"set {variable} to a directory that belongs to you"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise SandrlError(f"{path}: cannot be created: {error.strerror}", hint=hint) from error
    if problem := _sharing_problem(status):
        raise SandrlError(f"{path}: {problem}", hint=hint)
    return path


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, "")
    return int(text) if text.isdecimal() else default


def _items(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(values.get(name, "").replace(",", " ").split())


def can_be_private(path: Path) -> str | None:
    """Tells whether `private_directory` would succeed, without making anything; None if so, else why not."""
    try:
        status = path.lstat()
    except OSError:
        return None if _can_be_made(path) else "cannot be created"
    can_write = os.access(path, os.W_OK | os.X_OK)
    return _sharing_problem(status) or (None if can_write else "cannot be written")


def _sharing_problem(status: os.stat_result) -> str | None:
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return "is not a directory that belongs to this user"
    return "other users can write to it" if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _first_set(values: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if name in values), None)


def _directory(values: Mapping[str, str], own: str, xdg: str, below_home: str) -> Path:
    # Chooses a directory: the user's word, else the desktop convention, else one in the temporary directory. Service
    # accounts have no usable home (unset, empty, `/nonexistent`, read-only); the temporary directory serves them, under
    # a name that carries the user id because others share it. Whoever makes the directory must do so with
    # `private_directory`.
    if own in values:
        return Path(values[own]).absolute()
    bases = [Path(values[xdg])] if xdg in values else []
    if Path(values.get("HOME", "")).is_absolute() and Path(values["HOME"]).is_dir():
        bases.append(Path(values["HOME"], below_home))
    for base in bases:
        # The XDG specification says to ignore relative paths.
        if base.is_absolute() and _can_be_made(base / "sandrl"):
            return base / "sandrl"
    import tempfile

    return Path(tempfile.gettempdir(), f"sandrl-{os.geteuid()}-{Path(below_home).name.lstrip('.')}")


def _can_be_made(path: Path) -> bool:
    try:
        while not path.exists():
            path = path.parent
        return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    except OSError:  # a directory above cannot even be searched
        return False
