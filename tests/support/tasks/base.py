"""The image that all tasks of our own start from: busybox, with the programs that Harbor's environment runs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.image_trees import copy_program, make_busybox_tree
from tests.support.programs import require_program

BASE = "localhost/tests/tasks:1"
_PROGRAMS = ("bash", "tar", "gzip", "stat", "mkdir", "getent", "setpriv")
_APPLETS = ("wget", "httpd", "basename", "dirname", "cut", "sort", "wc", "kill", "date", "tail", "cp", "rmdir")


def make_task_tree(place: Path) -> None:
    """Fills an empty directory with the root file system of `BASE`."""
    make_busybox_tree(place)
    for name in _APPLETS:
        (place / "bin" / name).symlink_to("busybox")
    for name in _PROGRAMS:
        copy_program(Path(require_program(name)), place)
    for name in ("tmp", "var/tmp"):
        (place / name).chmod(0o1777)
    (place / "home/app").chmod(0o755)


def import_task_base(environment: Mapping[str, str]) -> None:
    """Stores `BASE` in the store of images of an environment, by the command."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        make_task_tree(tree)
        with tarfile.open(f"{folder}/tree.tar", "w") as archive:
            archive.add(tree, ".", filter=_owned)
        command = [sys.executable, "-m", "sandrl", "images", "import", f"rootfs:{folder}/tree.tar", BASE]
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
    member.mtime = 0
    member.uid = member.gid = 1000 if member.name.startswith("./home/app") else 0
    member.uname = member.gname = ""
    return member
