"""A Python as in the modules of a cluster: its libpython is found only through `LD_LIBRARY_PATH`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "config-*", "__pycache__", "*-packages"
)
_MAIN = "int Py_BytesMain(int, char **);\nint main(int count, char **words) { return Py_BytesMain(count, words); }\n"


@dataclass(frozen=True)
class ModulePython:
    """Such an interpreter, with the packages of the environment that runs the tests.

    `program` is that of a virtual environment on top of `prefix`.
    """

    program: Path
    prefix: Path
    library: Path

    def variables(self, library: Path | None = None) -> dict[str, str]:
        """The variable that it needs to start."""
        return {"LD_LIBRARY_PATH": str(library or self.library)}


def build(folder: Path, library: Path, *, skip: Callable[[str], None]) -> ModulePython:
    """Copies the interpreter that runs the tests, and moves its libpython where only the variable leads.

    `library` is where its libpython goes; `skip` is called with the reason if this machine cannot build it.
    """
    original = _libpython()
    if original is None:
        skip(f"this Python has no shared libpython in {sysconfig.get_config_var('LIBDIR')}")
        raise AssertionError("skip raises")
    compiler = shutil.which("cc")
    if compiler is None:
        skip("needs a C compiler, cc")
        raise AssertionError("skip raises")
    prefix = folder / "prefix"
    (prefix / "bin").mkdir(parents=True)
    library.mkdir(parents=True, exist_ok=True)
    # Another name, of the same length: the system's own libpython must not be found in its place.
    name = re.sub(r"\d\.\d$", "9.9", original.name)
    content = original.read_bytes().replace(original.name.encode() + b"\0", name.encode() + b"\0")
    (library / name).write_bytes(content)
    source = folder / "main.c"
    source.write_text(_MAIN)
    program = prefix / "bin" / NAME
    subprocess.run([compiler, source, library / name, "-o", program, "-Wl,--allow-shlib-undefined"], check=True)
    for alias in ("python", "python3"):
        (prefix / "bin" / alias).symlink_to(NAME)
    standard = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(standard, prefix / "lib" / NAME, ignore=_LEFT_OUT, copy_function=_link, symlinks=False)
    (prefix / "lib" / NAME / "site-packages").mkdir()
    return ModulePython(_environment(folder, program), prefix, library)


def _libpython() -> Path | None:
    names = [sysconfig.get_config_var("INSTSONAME"), f"lib{NAME}.so.1.0"]
    folders = [sysconfig.get_config_var("LIBDIR"), f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"]
    paths = [Path(folder, name) for name in names for folder in folders if name and folder]
    return next((path for path in paths if ".so" in path.name and path.is_file()), None)


def _link(source: str, target: str) -> str:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def _environment(folder: Path, program: Path) -> Path:
    packages = folder / "venv" / "lib" / NAME / "site-packages"
    packages.mkdir(parents=True)
    (folder / "venv" / "bin").mkdir()
    (folder / "venv" / "pyvenv.cfg").write_text(f"home = {program.parent}\ninclude-system-site-packages = false\n")
    lines = [f"import site; site.addsitedir({sysconfig.get_path(kind)!r})" for kind in ("purelib", "platlib")]
    (packages / "packages.pth").write_text("\n".join(lines) + "\n")
    found = folder / "venv" / "bin" / "python"
    found.symlink_to(program)
    return found
