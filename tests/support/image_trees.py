"""Root file systems of images, made of files of this machine: nothing is downloaded, and they take a second to make.

One has busybox alone: no Python, no C library, no `/usr`. The other one has a Python of the host with the libraries
that it needs, and busybox for everything else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.programs import require_program

_APPLETS = (
    *("sh", "ls", "cat", "id", "touch", "rm", "mkdir", "chown", "chmod", "su", "ps", "echo", "true", "sleep", "find"),
    *("head", "tr", "yes", "setsid", "stty", "env", "df", "ln", "mv", "grep", "test", "seq", "dd"),
)
_PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP = "root:x:0:\napp:x:1000:\nextra:x:50:app\nnogroup:x:65534:\n"
_LEFT_OUT = (
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "dist-packages",
    "config-*",
)
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def make_busybox_tree(place: Path) -> None:
    """Fills an empty directory with busybox, users and groups."""
    busybox = require_program("busybox")
    for name in ("bin", "etc", "root", "home/app", "var/tmp", "run", "sub", "tmp", "workspace", "srv", "mnt"):
        (place / name).mkdir(parents=True)
    (place / "root").chmod(0o700)  # as in images
    shutil.copy(busybox, place / "bin/busybox")
    for name in _APPLETS:
        (place / "bin" / name).symlink_to("busybox")
    (place / "etc/passwd").write_text(_PASSWD)
    (place / "etc/group").write_text(_GROUP)
    (place / "etc/os-release").write_text("ID=busybox\n")


def make_python_tree(place: Path, python: str = "/usr/bin/python3") -> None:
    """Fills an empty directory with an interpreter, at the path that it has on the host, and with busybox."""
    make_busybox_tree(place)
    code = "import sys, sysconfig; print(sysconfig.get_path('stdlib')); print(sys.base_exec_prefix)"
    stdlib = Path(
        subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()[0]
    )
    executable = Path(os.path.realpath(python))
    shutil.copytree(stdlib, _inside(place, stdlib), ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    _copy(executable, place)
    for module in (executable, *(stdlib / "lib-dynload").glob("*.so")):
        _copy_libraries(module, place)
    # Loaded when a thread ends early, as in real images.
    for library in Path("/lib").glob("*/libgcc_s.so.1"):
        _copy(library, place)
    for name in ("python", "python3"):
        alias = place / "usr/local/bin" / name
        alias.parent.mkdir(parents=True, exist_ok=True)
        alias.symlink_to(executable)


def import_layout(place: Path, name: str) -> str:
    """Stores the image of an OCI layout in the store of the tests under a name; returns the name."""
    # Imported here: programs that run as another user have the standard library alone.
    from sandrl.runtime.images.layouts import OCI, FileReference
    from sandrl.runtime.images.store import open_store
    from sandrl.settings import load_settings

    open_store(load_settings()).import_file(FileReference(OCI, place, ""), name)
    return name


def import_tree(name: str, make: Callable[[Path], None], configuration: Mapping[str, object] | None = None) -> str:
    """Imports a root file system into the store of the tests under a name, unless it is there; returns the name."""
    from sandrl.runtime.images.store import open_store
    from sandrl.settings import load_settings
    from tests.support.archives import layout

    if open_store(load_settings()).find(name) is None:
        with TemporaryDirectory() as folder:
            tree, archive = Path(folder, "tree"), Path(folder, "tree.tar")
            tree.mkdir()
            make(tree)
            with tarfile.open(archive, "w") as file:
                for path in sorted(tree.iterdir()):
                    file.add(path, path.name)
            place = layout(Path(folder, "oci"), archive.read_bytes(), compressed=False, configuration=configuration)
            import_layout(place, name)
    return name


def copy_program(program: Path, place: Path) -> None:
    """Copies a program of the host into `/bin`, instead of what busybox has there, with the libraries that it needs."""
    target = place / "bin" / program.name
    target.unlink(missing_ok=True)
    shutil.copy(program, target)
    _copy_libraries(program, place)


def _copy_libraries(module: Path, place: Path) -> None:
    listed = subprocess.run(["ldd", module], capture_output=True, text=True, check=False).stdout
    for library in _LIBRARY.findall(listed):
        _copy(Path(library), place)


def _inside(place: Path, path: Path) -> Path:
    return place / str(path).lstrip("/")


def _copy(path: Path, place: Path) -> None:
    target = _inside(place, path)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
