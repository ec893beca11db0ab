"""The packages that code in sandboxes may import: one layer for each set of requirements.

A layer is installed once from the user's package index, and kept by a digest of the requirements, the interpreter and
the platform. So later runs need no network, and all see the same versions. It has no file of the environment that runs
sandrl. Sandboxes see it read-only, in place of an empty `site-packages`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandrl.digests import digest_of
from sandrl.errors import SandrlError, UsageError
from sandrl.events import Emit, PackagesInstalling, Warned
from sandrl.runtime.host.images import is_host_system
from sandrl.runtime.installer import NotInstalledError, install
from sandrl.runtime.layers import LayerStore, show
from sandrl.runtime.state import RuntimeDirectory

_SCHEMA = 1
# The packages that have modules of other names, by the modules.
_PACKAGES = {
    "Crypto": "pycryptodome",
    "Levenshtein": "levenshtein",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "nacl": "pynacl",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}


def build_overlay(
    asked: Sequence[str], needed: Sequence[str], cache_dir: Path, state_dir: Path, *, image: str, emit: Emit
) -> str:
    """Makes sure that sandboxes of an image, whose Python version must be that of sandrl, can be shown packages.

    Returns:
        The name of the layer, for the annotation `sandrl.dev/packages`; empty if there is nothing to show.

    Raises:
        UsageError: If a package does not exist, has no wheel for this interpreter, or conflicts with another.
        ServiceError: If the package index does not answer, and the packages were not installed before.
    """
    if not asked and not needed:
        return ""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not is_host_system(image, own):
        message = f"packages are installed for Python {own}, which runs sandrl, and the image is {image}"
        if asked:
            raise UsageError(
                message, hint="leave `image` out, or have the packages in the image", fields=("packages", "image")
            )
        emit(Warned(message, "leave `image` out, or have the packages in the image", ("packages", "image")))
        return ""
    store = LayerStore(cache_dir)
    given = requirements_of(asked)
    wanted = requirements_of_problems(needed)
    while True:
        try:
            facts = _layer(store, _sorted([*given, *wanted]), emit) if given or wanted else None
            break
        except NotInstalledError as failure:
            if not wanted:
                raise failure.error from failure
            # Where it is not known which of them is the cause, all are left out.
            out = [each for each in wanted if canonicalize_name(each.name) == failure.culprit] or wanted
            names = ", ".join(sorted(map(str, out)))
            reason = failure.error.message.removeprefix("packages: ")
            emit(Warned(f"problems need {names}, which cannot be installed: {reason}", failure.error.hint))
            wanted = [each for each in wanted if each not in out]
    if facts is None:
        return ""
    overlays = RuntimeDirectory(state_dir).make_shown()
    name = str(facts["layer"])
    show(store.path(name), overlays / name)
    return name


def modules_of_packages(asked: Sequence[str], needed: Sequence[str], cache_dir: Path) -> frozenset[str] | None:
    """The modules at the top level of the layer of some packages; None if it is not there yet.

    Raises:
        UsageError: If a requirement is not valid.
    """
    wanted = requirements_of_problems(needed)
    facts = LayerStore(cache_dir).find(_request(_sorted([*requirements_of(asked), *wanted])))
    return None if facts is None else frozenset(map(str, facts.get("modules", ())))


def requirements_of(names: Sequence[str]) -> list[Requirement]:
    """Reads requirements; a range of versions that was split at its comma is one again.

    Raises:
        UsageError: If one is not valid.
    """
    found: list[str] = []
    for name in names:
        if found and (re.match(r"\s*[<>=!~]", name) or found[-1].count("[") > found[-1].count("]")):
            found[-1] += f",{name}"
        else:
            found.append(name)
    return [_requirement(name) for name in found]


def _requirement(text: str) -> Requirement:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        requirement = None
    if requirement is None or requirement.url is not None:
        raise UsageError(
            f"packages: {text!r} is not a package with an optional version",
            hint="as in `packages` numpy,pandas==2.2; a wheel of your own: set PIP_FIND_LINKS to its directory",
            fields=("packages",),
        )
    return requirement


def requirements_of_problems(names: Sequence[str]) -> list[Requirement]:
    """The requirements of what problems name, as requirements or modules; none for the standard library."""
    return [_requirement(_PACKAGES.get(name, name)) for name in names if name not in sys.stdlib_module_names]


def _sorted(requirements: Sequence[Requirement]) -> list[Requirement]:
    for requirement in requirements:
        requirement.name = canonicalize_name(requirement.name)
    return list({str(each): each for each in sorted(requirements, key=str)}.values())


def _request(requirements: Sequence[Requirement]) -> str:
    return digest_of([_SCHEMA, sys.version, sysconfig.get_platform(), *map(str, requirements)]).hex()


def _layer(store: LayerStore, requirements: Sequence[Requirement], emit: Emit) -> dict[str, Any]:
    request = _request(requirements)
    facts = store.find(request)
    if facts is not None:
        return facts
    try:
        with store.locked(request):
            facts = store.find(request)
            if facts is None:
                emit(PackagesInstalling(tuple(map(str, requirements))))
                facts = _made(store, requirements)
                store.keep(request, facts)
    except OSError as error:
        raise SandrlError(
            f"packages cannot be kept: {error.filename or ''}: {error.strerror}",
            hint="set SANDRL_CACHE_DIR to a directory with room",
            fields=("packages",),
        ) from error
    return facts


def _made(store: LayerStore, requirements: Sequence[Requirement]) -> dict[str, Any]:
    with store.building() as directory:
        install(requirements, directory)
        # `site` would run what is in them at the start of every interpreter, that of the judge included.
        for file in [*directory.glob("*.pth"), *directory.glob("*customize.py")]:
            file.unlink()
        # Hashes, not times: a copy of a file has another time. The code is only compiled, never run.
        options = ["-q", "-d", f"/usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"]
        options += ["--invalidation-mode", "unchecked-hash", "-j", "0"]
        command = [sys.executable, "-I", "-S", "-m", "compileall", *options, str(directory)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        installed = {found.name: found.version for found in distributions(path=[str(directory)])}
        modules = {path.name.partition(".")[0] for path in directory.iterdir() if path.suffix != ".dist-info"}
        return {
            "schema": _SCHEMA,
            "layer": store.publish(directory),
            "requirements": [str(each) for each in requirements],
            "installed": dict(sorted(installed.items())),
            "modules": sorted(name for name in modules if name.isidentifier() and name != "__pycache__"),
        }
