"""The packages as `make release` builds them, from the working tree, and an ordinary user who installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import release

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
# Any other than root; it needs no entry in /etc/passwd.
_USER = 12345
_COMMIT = (
    *("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"),
    *("commit", "-q", "-m", "x"),
)
# The home directory of root is closed to others, and the interpreters of pyenv are in it: only they are shown.
_AS_ORDINARY_USER = f"""
set -eu
home=$1 shown=$2 place=$3
shift 3
if [ -n "$shown" ]; then
    mount --bind "$shown" "$place"
    mount -t tmpfs -o mode=755 tmpfs "$HOME"
    mkdir -p "$shown"
    mount --bind "$place" "$shown"
fi
cd "$home"
exec setpriv --reuid={_USER} --regid={_USER} --clear-groups env "HOME=$home" "$@"
"""


def tracked() -> list[str]:
    """The files of the repository, those included that the next commit will add."""
    if not (ROOT / ".git").exists():
        pytest.skip("not in a clone")
    listed = release.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    return [
        name for name in listed.rstrip("\0").split("\0") if (ROOT / name).is_file() and not name.startswith("shared/")
    ]


def clone(folder: Path) -> Path:
    """Makes a repository whose only commit has these files."""
    for name in tracked():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    for command in (("git", "init", "-q"), ("git", "add", "-A"), _COMMIT):
        release.run(command, cwd=folder)
    return folder


def python(version: str) -> Path:
    """An interpreter of pyenv's, or of PATH."""
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    if not found and on_path is None:
        pytest.skip(f"no Python {version}")
    return found[-1] if found else Path(str(on_path))


@dataclass(frozen=True)
class User:
    """A user who is not root and has an empty home directory."""

    home: Path
    shared: Path

    @property
    def programs(self) -> str:
        """The directories of programs, without those of the user: the system's, and that of pipx."""
        pipx = Path(shutil.which("pipx") or "/usr/bin/pipx").parent
        return f"{self.shared}/bin:/usr/bin:/bin:{pipx}"

    def clone(self, repository: Path) -> None:
        """Copies a repository into the home directory, as `sandrl`."""
        target = shutil.copytree(repository, self.home / "sandrl", symlinks=True)
        if os.geteuid() == 0:
            for path in (target, *target.rglob("*")):
                os.chown(path, _USER, _USER, follow_symlinks=False)

    def run(self, *words: str | Path, is_expected_to_fail: bool = False) -> str:
        """Runs a program; returns what it printed, or its errors if it is expected to fail."""
        pip = Path("~/.config/pip/pip.conf").expanduser()
        if pip.exists():
            shutil.copy(pip, self.shared / "pip.conf")
        env = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_", "SSL_CERT", "LD_LIBRARY_PATH"))
        }
        env |= {"PATH": f"{self.home}/.local/bin:{self.programs}", "LANG": "C.UTF-8"}
        env |= {"UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
        if pip.exists():
            env["PIP_CONFIG_FILE"] = str(self.shared / "pip.conf")
        command = [str(word) for word in words]
        if os.geteuid() == 0:
            shown = Path("~/.pyenv/versions").expanduser()
            places = [str(self.home), str(shown) if shown.is_dir() else "", str(self.shared / "place")]
            prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _AS_ORDINARY_USER, "sh"]
            command = [*prefix, *places, *command]
        env["HOME"] = str(Path.home() if os.geteuid() == 0 else self.home)
        done = subprocess.run(
            command,
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
        )
        shown_text = f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
        assert (done.returncode != 0) is is_expected_to_fail, shown_text
        return done.stderr if is_expected_to_fail else done.stdout


@contextmanager
def ordinary_user(packages: Path) -> Iterator[User]:
    """A user with an empty home, who can read the packages of a directory and run uv.

    Skips the test where root may not become another user without losing sight of the interpreters.
    """
    if (
        os.geteuid() == 0
        and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("root may not change mounts here")
    folder = Path(tempfile.mkdtemp(prefix="sandrl-user-"))
    try:
        folder.chmod(0o755)
        home, shared = folder / "home", folder / "shared"
        home.mkdir()
        (shared / "bin").mkdir(parents=True)
        (shared / "place").mkdir()
        for package in packages.iterdir():
            shutil.copy(package, shared)
        uv = shutil.which("uv", path=f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}")
        if uv is not None:
            shutil.copy(uv, shared / "bin")
        if os.geteuid() == 0:
            os.chown(home, _USER, _USER)
        yield User(home, shared)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
