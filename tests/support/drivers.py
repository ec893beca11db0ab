"""Runs a program of this directory with a launcher, as the tests' user or as another one who has no rights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.image_trees import make_python_tree
from tests.support.launchers import STORAGE_VARIABLE, TREE_VARIABLE
from tests.support.programs import require_program

SUPPORT = Path(__file__).parent
SOURCES = SUPPORT.parents[1] / "src"
SYSTEM_PYTHON = "/usr/bin/python3"
UNPRIVILEGED_UID = 65534


def answer_of(
    place: Path,
    mode: str,
    driver: str,
    *arguments: str,
    texts: tuple[str, ...] = (),
    user: int = UNPRIVILEGED_UID,
    timeout_seconds: int = 120,
) -> Any:
    """What a driver prints last, which is JSON.

    `mode` is the launcher, which may be followed by `as another user`, who can enter `place` and read `texts`, by `from
    an image`, which has the system's Python, by `with shared ids`, by `with ids of /etc/subuid`, which only root can
    give to another user, by `on disk`, where the sandbox then writes its files, and by `copied`, as where the kernel
    has no overlays.
    """
    command = [sys.executable, str(SUPPORT / driver)]
    source, drop = SOURCES, dict[str, Any]()
    if "another user" in mode:
        command[0] = _python_for_others()
        source = place / "src"
        shutil.copytree(SOURCES, source, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        for name in (driver, "launchers.py", *texts):
            shutil.copy(SUPPORT / name, place)
        command[1] = str(place / driver)
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
        if os.getuid() == 0:
            drop = {"user": user, "group": user, "extra_groups": []}
    state = Path(tempfile.mkdtemp(prefix="state-", dir=place))
    if drop:
        os.chown(state, user, user)
    if "/etc/subuid" in mode:
        command, drop = [*_with_subordinate_ids(place, user), *command], {}
    environment = {"PATH": os.defpath, "PYTHONPATH": str(source), "A_SECRET": "sk-123"}
    if "shared ids" in mode:
        environment["SANDRL_HOST_UIDS"] = "shared"
    if "on disk" in mode:
        environment[STORAGE_VARIABLE] = str(16 << 20)
    if "copied" in mode:
        environment["SANDRL_IMAGE_ROOTS"] = "copy"
    if "an image" in mode:
        environment[TREE_VARIABLE] = str(place / "store" / "layers" / "python")
        _make_image(
            place / "store" / "layers" / "python", user if "another user" in mode and os.getuid() == 0 else os.getuid()
        )
    result = subprocess.run(
        [*command, str(state), *arguments],
        env=environment | {"SANDRL_RUNTIME_ISOLATION": mode.split()[0]},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        **drop,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def _with_subordinate_ids(place: Path, user: int) -> list[str]:
    # The user, and its ids, are in the files of a mount namespace of the command alone.
    require_program("newuidmap")
    unshare, setpriv = require_program("unshare"), require_program("setpriv")
    if os.getuid() != 0:
        pytest.skip("only root can give ids to another user")
    name = f"guest{user}"
    lines = {
        "passwd": f"{Path('/etc/passwd').read_text()}{name}:x:{user}:{user}::/:/bin/sh\n",
        "group": f"{Path('/etc/group').read_text()}{name}:x:{user}:\n",
        "subuid": f"{name}:700000:65536\n",
        "subgid": f"{name}:700000:65536\n",
    }
    cover = ""
    for file, text in lines.items():
        (place / file).write_text(text)
        (place / file).chmod(0o644)
        Path("/etc", file).touch()  # there must be a file to cover
        cover += f"mount --bind {place}/{file} /etc/{file} && "
    script = f'{cover} exec {setpriv} --reuid {user} --regid {user} --clear-groups "$@"'
    return [unshare, "--mount", "sh", "-c", script, "sh"]


def _make_image(tree: Path, owner: int) -> None:
    if not tree.exists():
        tree.mkdir(parents=True)
        make_python_tree(tree)
        subprocess.run(["chown", "-R", f"{owner}:{owner}", str(tree.parent.parent)], check=True)
        tree.parent.chmod(0o700)


# The interpreter of this environment may lie in root's home.
def _python_for_others() -> str:
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 11))"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if version != "True":
        pytest.skip("no system interpreter of Python 3.11 or newer to run as another user")
    return SYSTEM_PYTHON
