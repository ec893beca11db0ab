"""Shared libraries of interpreters that are found only through `LD_LIBRARY_PATH`, as with the modules of a cluster.

Processes of the runtime start with few variables, so they are given the directories that their interpreter needs.
Sandboxes see single library files, read-only, and never the directories, because a directory may hold private files.
The dynamic linker itself lists the files that an interpreter loads, so its rules are not repeated here.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandrl.runtime.guest import rootfs

VARIABLE = "LD_LIBRARY_PATH"
PREFIX_LIBRARIES = "/usr/local/lib"
"""Where a sandbox sees the libraries in an interpreter's own prefix."""
# Nothing of a program runs; who gave up on a crowded machine would look for another daemon.
_TIMEOUT_SECONDS = 60
_FOUND = re.compile(r"^\s+(\S+) => (/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"error while loading shared libraries: ([^:\s]+):")


@dataclass(frozen=True, slots=True)
class Libraries:
    """The shared libraries that an interpreter and its standard library load: names, and paths of their files.

    Attributes:
        in_sandbox: What a sandbox must be shown in addition to the prefix and `/usr`.
        by_variable: What only `LD_LIBRARY_PATH` leads to.
    """

    in_sandbox: tuple[tuple[str, str], ...] = ()
    by_variable: tuple[tuple[str, str], ...] = ()


@functools.lru_cache(maxsize=64)
def find_libraries(executable: str, prefix: str, searched: str) -> Libraries:
    """What an interpreter loads with a value of `LD_LIBRARY_PATH`, see `search_path`."""
    # A path with a separator cannot be named; `_tkinter` has many libraries, and a sandbox has no display.
    found = [str(path) for path in Path(prefix).glob("lib*/python3*/lib-dynload/*.so")]
    modules = [path for path in found if "/_tkinter." not in path and not set(path) & {":", " "}]
    loaded = _trace(executable, modules, searched)
    without = _trace(executable, modules, "") if searched else loaded
    # A library that is only missing with its dependent, as those of libpython are, is not in these directories.
    by_variable = {
        name: path for name, path in loaded.items() if without.get(name) != path and _is_searched(path, searched)
    }
    if prefix == "/usr":
        return Libraries((), tuple(sorted(by_variable.items())))
    own = os.path.realpath(os.path.join(prefix, "lib"))
    has_own_path = shows_prefix_libraries(prefix)
    shown = {}
    for name, path in loaded.items():
        if os.path.dirname(path) == own and (has_own_path or name not in by_variable):
            continue
        is_found = name not in by_variable or os.path.realpath(path) == os.path.realpath(without.get(name, ""))
        if not (is_found and _is_in_system(path)):
            shown[name] = path
    return Libraries(tuple(sorted(shown.items())), tuple(sorted(by_variable.items())))


def shows_prefix_libraries(prefix: str) -> bool:
    """Whether programs of a sandbox must look for libraries in the prefix, which is at another path there."""
    return prefix != "/usr" and any(Path(prefix, "lib").glob("libpython3*.so*"))


def _is_in_system(path: str) -> bool:
    real = os.path.realpath(path)
    return real.startswith(tuple(f"/{name}/" for name in ("usr", *rootfs.TOP_LEVEL))) and not real.startswith(
        "/usr/local/"
    )


def _trace(executable: str, modules: list[str], searched: str) -> dict[str, str]:
    # What the dynamic linker would load for a program and modules of it: names and paths; nothing of them runs.
    environment = {"PATH": os.defpath, "LD_TRACE_LOADED_OBJECTS": "1"}
    environment["LD_PRELOAD"] = ":".join(modules)
    if searched:
        environment[VARIABLE] = searched
    printed, _ = _start(executable, environment)
    # Directories without symbolic links: `link/..` is not the directory that holds the link.
    return {
        name: os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        for name, path in _FOUND.findall(printed)
        if "/" not in name
    }


def _start(executable: str, environment: Mapping[str, str]) -> tuple[str, str]:
    # What an interpreter without a program prints.
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            env=dict(environment),
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return os.fsdecode(done.stdout), os.fsdecode(done.stderr)


def search_path() -> str:
    """`LD_LIBRARY_PATH` of this process, its relative directories made absolute, for processes that start elsewhere.

    An empty entry stands for the working directory. It is left out: it is usually a slip in `A:$LD_LIBRARY_PATH`. So
    is a directory whose absolute path the dynamic linker would read as several, or as another one.
    """
    entries = (entry for entry in re.split("[:;]", os.environ.get(VARIABLE, "")) if entry)
    return ":".join(dict.fromkeys(filter(None, map(_absolute, entries))))


def _absolute(entry: str) -> str | None:
    if entry.startswith("$"):
        return entry
    if "$" in entry:
        return entry if os.path.isabs(entry) else None
    path = os.path.realpath(entry)
    return None if set(path) & set(":;$") else path


def own_libraries() -> Libraries:
    prefix = os.path.realpath(sys.base_prefix)
    executable = os.path.join(prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    return find_libraries(executable if os.path.exists(executable) else sys.executable, prefix, search_path())


def start_environment() -> dict[str, str]:
    """The variable with which a bare copy of this interpreter starts; empty if it needs none.

    It has only directories with a needed library. Processes of sandboxes come from this copy by a fork, in which the
    dynamic linker keeps its paths, and a directory such as `/tmp` has files of the sandbox there.
    """
    searched = search_path()
    if not searched:
        return {}
    folders = {os.path.dirname(path) for _, path in own_libraries().by_variable}
    needed: list[str] = []
    for entry in searched.split(":"):
        # A file may be in a subdirectory for the processor, which goes first.
        below = sorted((each for each in folders if _is_searched(f"{each}/", entry)), key=len, reverse=True)
        needed += [entry] if "$" in entry else below
    return {VARIABLE: ":".join(dict.fromkeys(needed))} if needed else {}


def _is_searched(path: str, searched: str) -> bool:
    # Whether a library is in one of some directories, or may be: `$LIB` and the like stand for others.
    return any("$" in entry or path.startswith(f"{entry}/") for entry in searched.split(":"))


def describe_own() -> str:
    """Names what `LD_LIBRARY_PATH` provides for this interpreter, to tell runtimes apart; empty if that is nothing."""
    if not search_path():
        return ""
    return " ".join(f"{name}={path}" for name, path in own_libraries().by_variable)


def missing_library(environment: Mapping[str, str]) -> str | None:
    """The shared library without which this interpreter does not start; None if it fails for no or another reason."""
    return named_missing(_start(sys.executable, environment)[1])


def named_missing(output: str) -> str | None:
    """The library that the dynamic linker names in a message as missing, or None."""
    found = _MISSING.search(output)
    return found.group(1) if found else None


def advice(name: str) -> str:
    """What to do about a library that is missing when this interpreter is started again."""
    with suppress(OSError):
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
        # This process has loaded it.
        if found := re.search(rf" (/.*)/{re.escape(name)}$", text, re.MULTILINE):
            return f"export LD_LIBRARY_PATH={found[1]}, in the environment of this command"
    return f"set LD_LIBRARY_PATH to the directory that has {name} (module load), or use another Python"
