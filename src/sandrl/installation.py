"""How this sandrl was installed, and the command that adds a package to its environment.

A bare `pip install` can add a package to another environment, where sandrl does not find it: `uv tool` and `pipx` keep
an environment of their own for sandrl, and the `pip` on PATH may belong to another interpreter. `uv tool install`
removes extras that it is not given, so the command repeats the extras and packages that are there already.

A command names sandrl by what this copy was installed from: a checkout, a file or a repository. The bare name `sandrl`
is enough only where an index has it, or where pip finds it installed already.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PUBLISHED = False
"""Whether the public package index has sandrl. Until then, new environments need another source."""

TORCH_FOR_CPU = "torch==2.13.0+cpu"
"""The build of torch for machines without a GPU: the index of Python packages has only builds that need CUDA."""
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""The index that has it."""

_NAME = "sandrl"
_DRIVER = Path("/proc/driver/nvidia")
# What installs torch, and works without a GPU, with the version of torch that its other packages demand.
_TORCH = {
    "grpo": TORCH_FOR_CPU,
    "unsloth": TORCH_FOR_CPU,
    "tinker": TORCH_FOR_CPU,
    "art-tinker": "torch==2.11.0+cpu" if sys.version_info >= (3, 12) else "torch==2.10.0+cpu",
}
# The extras whose pins contradict one another, with the package that shows which one is installed.
_TRAINERS = {
    "grpo": "trl",
    "vllm": "trl",
    "unsloth": "unsloth",
    "art-tinker": "openpipe-art",
    "art-local": "openpipe-art",
}
# In a clone, `make` sets up an environment for each of them.
_MAKE_TARGETS = {"grpo": "venv-grpo", "unsloth": "venv-unsloth", "art-tinker": "venv-art"}


class Kind(StrEnum):
    """The program that made the environment in which sandrl is installed."""

    UV_TOOL = "uv tool"
    """`uv tool install`."""
    UVX = "uvx"
    """`uvx`, which is `uv tool run`: an environment in uv's cache."""
    PIPX = "pipx"
    """`pipx install`."""
    PIPX_RUN = "pipx run"
    """`pipx run`: an environment in pipx's cache."""
    UV_PIP = "uv pip"
    """A virtual environment without pip, made by uv."""
    PIP = "pip"
    """Any other environment: virtual, conda's, or the interpreter's own."""


@dataclass(frozen=True)
class Installation:
    """An environment with sandrl in it.

    Args:
        prefix: Its directory.
        python: Its interpreter.
        kind: The program that made it.
        clone: The checkout that it runs sandrl from, if that is an editable installation, or none at all.
        source: What sandrl was installed from, if it was no package index and can still be read: the path of a
            directory, or a URL.
        lost_source: Whether sandrl was installed from a file or a directory that no longer exists.
        has_pip: Whether pip is installed in it.
        is_managed: Whether pip refuses to change it without `--break-system-packages`.
    """

    prefix: Path
    python: Path
    kind: Kind
    clone: Path | None = None
    source: str | None = None
    lost_source: bool = False
    has_pip: bool = True
    is_managed: bool = False

    def command(self, *, extra: str | None = None, package: str | None = None, torch: str | None = None) -> str:
        """Returns the command that adds an extra of sandrl, or a requirement, and keeps what is installed.

        `torch` is the build for machines without a GPU, if the extra needs torch and shall have this one.
        """
        uv_backend = ["--torch-backend", "cpu"] if torch else []
        match self.kind:
            case Kind.UV_TOOL:
                return self._uv_tool(extra, package, uv_backend)
            case Kind.UVX:
                added = ["--with", package] if package else []
                return self._elsewhere("uvx", *uv_backend, "--from", self.named(extra), *added, _NAME)
            case Kind.PIPX if package:
                return _line("pipx", "inject", self.prefix.name, package)
            case Kind.PIPX:
                return self._pipx(extra, torch)
            case Kind.PIPX_RUN:
                return self._elsewhere("pipx", "run", "--spec", self.named(extra), _NAME)
        installer = self._installer()
        if torch:
            installer += uv_backend if installer[0] == "uv" else [*_index_words(), torch]
        if package:
            return _line(*installer, package)
        # Without its source, the version that is there is kept: pip finds it installed.
        return _line(*installer, *(["--editable"] if self.clone else []), self.named(extra, is_here=True))

    def named(self, *extras: str | None, is_here: bool = False) -> str:
        """Returns sandrl with extras as installers take it, from where this copy came, or as it `is_here` already."""
        if self.lost_source and not PUBLISHED and not is_here:
            return _requirement(extras, name=".")
        return _requirement(extras, source=str(self.clone or self.source or ""))

    def _elsewhere(self, *words: str) -> str:
        # The command that installs sandrl once more; without its source, it is typed in a clone.
        place = "in a clone of sandrl: " if self.lost_source and not PUBLISHED else ""
        return place + _line(*words)

    def new_environment(self, extra: str, torch: str | None) -> str:
        """Returns the command that installs sandrl with an extra into a new virtual environment."""
        directory = f"{_NAME}-{extra}"
        words = [f"{directory}/bin/pip", "install", *([*_index_words(), torch] if torch else []), self.named(extra)]
        return self._elsewhere("python3", "-m", "venv", directory) + " && " + _line(*words)

    def _uv_tool(self, extra: str | None, package: str | None, options: list[str]) -> str:
        receipt = _toml(self.prefix / "uv-receipt.toml").get("tool", {})
        extras, others, specifier = [extra], [], ""
        for each in receipt.get("requirements", []):
            if each.get("name") == _NAME:
                extras += each.get("extras", [])
                specifier = each.get("specifier", "")
            else:
                named = f"[{','.join(each['extras'])}]" if each.get("extras") else ""
                others.append(f"{each.get('name')}{named}{each.get('specifier', '')}")
        withs = [word for other in [*others, *([package] if package else [])] for word in ("--with", other)]
        install = ["uv", "tool", "install", *options]
        if self.clone is not None:
            return _line(*install, "--editable", self.named(*extras), *withs)
        return _line(*install, _requirement(extras, specifier, self.source or ""), *withs)

    def _pipx(self, extra: str | None, torch: str | None) -> str:
        if self.lost_source:
            # pipx installs again from the source; pip is content with the version that is there.
            return _line("pipx", "runpip", self.prefix.name, "install", _requirement([extra]))
        main = _json(self.prefix / "pipx_metadata.json").get("main_package", {})
        spec = str(main.get("package_or_url") or "")
        pip = [f"--pip-args={shlex.join([*_index_words(), torch])}"] if torch else []
        extras = re.search(r"\[([\w\s,.-]+)\]", spec)
        pin = re.fullmatch(rf"{_NAME}(?:\[[^\]]*\])?\s*([<>=!~][^;@]*)", spec)
        suffix = [f"--suffix={main['suffix']}"] if main.get("suffix") else []
        wanted = [extra, *(extras[1].split(",") if extras else [])]
        if self.clone is not None:
            return _line("pipx", "install", "--force", *suffix, *pip, "--editable", self.named(*wanted))
        requirement = _requirement(wanted, pin[1].strip() if pin else "", self.source or "")
        return _line("pipx", "install", "--force", *suffix, *pip, requirement)

    def _installer(self) -> list[str]:
        if self.has_pip:
            program = shutil.which("pip")
            own = program is not None and Path(program).parent.resolve() == self._scripts()
            pip = ["pip", "install"] if own else [str(self.python), "-m", "pip", "install"]
            return [*pip, "--break-system-packages"] if self.is_managed else pip
        if self.kind is Kind.UV_PIP or shutil.which("uv"):
            return ["uv", "pip", "install", "--python", str(self.python)]
        return ["pip", "--python", str(self.python), "install"]

    def again(self, package: str, options: list[str]) -> str:
        """Returns the command that installs a package anew that is there already; options name another index."""
        match self.kind:
            case Kind.PIPX:
                return _line("pipx", "runpip", self.prefix.name, "install", "--force-reinstall", *options, package)
            case Kind.UVX | Kind.PIPX_RUN:
                return self.command()
            case _:
                installer = self._installer()
        if installer[0] == "uv":
            backend = ["--torch-backend", "cpu"] if options else []
            return _line(*installer, "--reinstall", *backend, package)
        return _line(*installer, "--force-reinstall", *options, package)

    def _scripts(self) -> Path:
        return Path(sysconfig.get_path("scripts", vars={"base": str(self.prefix)})).resolve()


def installation() -> Installation:
    """Looks at the environment of this process."""
    return look_at(Path(sys.prefix), Path(sys.executable), is_virtual=sys.prefix != sys.base_prefix)


def look_at(prefix: Path, python: Path, *, is_virtual: bool) -> Installation:
    """Finds out how sandrl was installed into an environment (`sys.prefix`) with this interpreter."""
    clone, source, lost = _origin()
    has_pip = importlib.util.find_spec("pip") is not None
    if (prefix / "uv-receipt.toml").is_file():
        kind = Kind.UV_TOOL
    elif (prefix / "pipx_metadata.json").is_file():
        kind = Kind.PIPX_RUN if prefix.parent.name in {".cache", "cache"} else Kind.PIPX
    elif not _is_made_by_uv(prefix):
        kind = Kind.PIP
    elif any(part.startswith(("archive-v", "environments-v")) for part in prefix.parts):
        kind = Kind.UVX
    else:
        kind = Kind.PIP if has_pip else Kind.UV_PIP
    managed = not is_virtual and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()
    return Installation(prefix, python, kind, clone, source, lost, has_pip, managed)


def _is_made_by_uv(prefix: Path) -> bool:
    try:
        return re.search(r"^uv\s*=", (prefix / "pyvenv.cfg").read_text(encoding="utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


def _origin() -> tuple[Path | None, str | None, bool]:
    # The checkout that sandrl runs from; else what it was installed from, and whether that is gone; see PEP 610.
    try:
        text = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        root = Path(__file__).resolve().parents[2]
        return (root if (root / "pyproject.toml").is_file() else None), None, False
    try:
        found = json.loads(text or "null")
        url = _without_password(str(found["url"])) if found else ""
    except (ValueError, TypeError, KeyError):
        return None, None, False
    if not url:
        return None, None, False
    path = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if found.get("dir_info", {}).get("editable"):
        return path, None, False
    if path is not None and not path.exists():
        return None, None, True
    if path is not None and path.is_dir() and "dir_info" in found:
        return None, str(path), False
    version_control = found.get("vcs_info", {})
    if version_control:
        revision = version_control.get("requested_revision")
        url = f"{version_control['vcs']}+{url}{f'@{revision}' if revision else ''}"
    return None, url, False


def _without_password(url: str) -> str:
    # A URL as messages, logs and reports may show it. Installers should have removed its password (PEP 610).
    return re.sub(r"(?<=://)[^/@\s]*:[^/\s]*@", "", url)


def install_command(extra: str, *, directory: Path | None = None) -> str:
    """Returns the command that adds an extra to this environment, or to another one if trainers would conflict.

    It is typed in the directory, which is the working directory unless given.
    """
    here = installation()
    torch = None if has_gpu() else _TORCH.get(extra)
    if extra not in _TRAINERS:
        return here.command(extra=extra, torch=torch if installed_version("torch") is None else None)
    target = _MAKE_TARGETS.get(extra)
    if here.clone is not None and target and _is_made_by_make(here.clone, here.prefix, target):
        there = (directory or Path.cwd()) == here.clone
        program = Path("" if there else here.clone, f".{target}", "bin", _NAME)
        make = _line("make", *([] if there else ["-C", str(here.clone)]), target)
        return f"{make}, then {_line(str(program))}"
    others = {package for name, package in _TRAINERS.items() if name != extra} - {_TRAINERS[extra]}
    if any(installed_version(package) is not None for package in others):
        return f"in a new virtual environment: {here.new_environment(extra, torch)}"
    command = here.command(extra=extra, torch=torch if installed_version("torch") is None else None)
    return command if here.kind is not Kind.PIP else f"one trainer per environment: {command}"


def has_gpu() -> bool:
    """Whether the driver of NVIDIA's GPUs is loaded, so that torch's usual build is the right one."""
    return _DRIVER.is_dir()


def torch_command() -> str:
    """Returns the command that installs torch into this environment anew, in the build that fits this machine."""
    here = installation()
    if has_gpu():
        return here.again("torch", [])
    extra = next((name for name, package in _TRAINERS.items() if name in _TORCH and _is_there(package)), "grpo")
    return here.again(_TORCH[extra], _index_words())


def again_command(package: str) -> str:
    """Returns the command that installs a package of this environment anew, files included."""
    return torch_command() if package == "torch" else installation().again(package, [])


def _is_there(package: str) -> bool:
    return installed_version(package) is not None


def _is_made_by_make(clone: Path, prefix: Path, target: str) -> bool:
    return (clone / "tools" / "setup_venv.py").is_file() and prefix != clone / f".{target}"


def package_command(requirement: str) -> str:
    """Returns the command that adds a package to this environment: `ray[client]`, `unsloth>=2026.10`."""
    return installation().command(package=requirement)


def installed_version(package: str) -> str | None:
    """Returns the version of a package from its metadata, without an import; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _requirement(
    extras: Iterable[str | None], specifier: str = "", source: str | Path = "", *, name: str = _NAME
) -> str:
    # Names sandrl with extras; a source is a URL, or the path of a directory, which stands for the name.
    named = sorted({extra.strip() for extra in extras if extra})
    brackets = f"[{','.join(named)}]" if named else ""
    if str(source).startswith("/"):
        return f"{source}{brackets}"
    return f"{name}{brackets} @ {source}" if source else f"{name}{brackets}{specifier}"


def _index_words() -> list[str]:
    return ["--extra-index-url", TORCH_INDEX]


def _line(*words: str) -> str:
    # The command as a shell reads it; requirements are quoted even where bash needs no quotes, because zsh does.
    return " ".join(f"'{word}'" if "[" in word and "'" not in word else shlex.quote(word) for word in words)


def _toml(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
