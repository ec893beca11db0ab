"""The images that tasks of our own start from: busybox, with the programs that Harbor's environment runs.

The second one has git, curl, and a Python with pytest besides; all of it is of this machine.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.image_trees import copy_program, make_busybox_tree, make_python_tree
from tests.support.programs import require_program

BASE = "localhost/tests/tasks:1"
TOOLS = "localhost/tests/tools:1"
PYTHON = "/usr/local/bin/python3"
_TOOLS = ("git", "curl")
_PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_PROGRAMS = ("bash", "tar", "gzip", "stat", "mkdir", "getent", "setpriv")
_APPLETS = (
    "wget",
    "httpd",
    "basename",
    "dirname",
    "cut",
    "sort",
    "wc",
    "kill",
    "date",
    "tail",
    "cp",
    "rmdir",
    "timeout",
)


def make_task_tree(place: Path, make: Callable[[Path], None] = make_busybox_tree) -> None:
    """Fills an empty directory with the root file system of `BASE`, which begins with another one."""
    make(place)
    for name in _APPLETS:
        (place / "bin" / name).symlink_to("busybox")
    for name in _PROGRAMS:
        copy_program(Path(require_program(name)), place)
    for name in ("tmp", "var/tmp"):
        (place / name).chmod(0o1777)
    (place / "home/app").chmod(0o755)


def make_tools_tree(place: Path) -> None:
    """Fills an empty directory with the root file system of `TOOLS`."""
    make_task_tree(place, make_python_tree)
    for name in _TOOLS:
        copy_program(Path(require_program(name)), place)
    for name in _PACKAGES:
        for file in importlib.metadata.files(name) or ():
            source, target = Path(str(file.locate())), place / "usr/lib/python3/dist-packages" / file
            if ".." not in file.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    program = place / "usr/bin/pytest"
    program.write_text(f"#!{PYTHON}\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n")
    program.chmod(0o755)


def import_task_base(environment: Mapping[str, str]) -> None:
    """Stores `BASE` in the store of images of an environment, by the command."""
    _import(BASE, make_task_tree, environment)


def import_task_tools(environment: Mapping[str, str]) -> None:
    """Stores `TOOLS` in the store of images of an environment, by the command."""
    _import(TOOLS, make_tools_tree, environment)


def _import(name: str, make: Callable[[Path], None], environment: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        make(tree)
        with tarfile.open(f"{folder}/tree.tar", "w") as archive:
            archive.add(tree, ".", filter=_owned)
        command = [sys.executable, "-m", "sandrl", "images", "import", f"rootfs:{folder}/tree.tar", name]
        subprocess.run(command, check=True, env=environment)


def write_files(place: Path, files: Mapping[str, str]) -> Path:
    """Writes the files of a task; returns its directory."""
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return place


def _owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file of root, or of `app` in its home, whoever runs the tests and whenever: the image is always the same."""
    # What Python has compiled names the time of its source.
    if not member.name.startswith("./usr/lib/python3"):
        member.mtime = 0
    member.uid = member.gid = 1000 if member.name.startswith("./home/app") else 0
    member.uname = member.gname = ""
    return member
