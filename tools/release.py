"""Builds a release in a clean copy of the last commit, checks it, and prints how to publish it (`make release`).

The wheel is built from the sdist, which detects an incomplete sdist. Neither depends on the time, the directory or the
permissions of the checkout: two builds of a commit by the same hatchling have the same bytes.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What hatchling adds to a sdist.
_ADDED = {"PKG-INFO", ".gitignore"}
# Parts of the repository that are in no sdist.
_LEFT_OUT = (".github/", ".gitignore")
_PACKAGES = ("src/sandrl/", "src/sandrl_sandboxes/", "src/sandrl_verifiers/")
_SHARED = {
    "share/bash-completion/completions/sandrl",
    "share/zsh/site-functions/_sandrl",
    "share/fish/vendor_completions.d/sandrl.fish",
    "share/man/man1/sandrl.1",
}
_DEMO_LINE = "Total reward: 3.0/5"


class ReleaseError(Exception):
    """What stops a release, in a line, with the next step."""


def run(command: Iterable[str | Path], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Runs a program and returns its standard output.

    Raises:
        ReleaseError: If it fails; its output is part of the message.
    """
    words = [*map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def version_of(root: Path) -> str:
    """Returns the version in the source."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / "src/sandrl/__init__.py").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError("src/sandrl/__init__.py has no line `__version__ = …`")
    return found[1]


def check_clean(root: Path) -> None:
    """Makes sure that the commit is what the checkout shows.

    Raises:
        ReleaseError: If a file is changed, or is neither committed nor ignored.
    """
    changed = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise ReleaseError(f"uncommitted: {', '.join(line[3:] for line in changed[:3])}{more}; commit them first")


def check_changelog(text: str, version: str) -> None:
    """Makes sure that the changelog has a dated section with the version's changes.

    Raises:
        ReleaseError: If there is none, or it is empty.
    """
    section = re.search(rf"^## \[{re.escape(version)}\]([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    wanted = f"## [{version}] - {date.today()}"
    if section is None:
        raise ReleaseError(f"CHANGELOG.md has no section for {version}; give its changes the heading `{wanted}`")
    day = re.fullmatch(r" - (\d{4}-\d{2}-\d{2})", section[1].rstrip())
    try:
        date.fromisoformat(day[1] if day else "")
    except ValueError as error:
        raise ReleaseError(f"CHANGELOG.md: the section for {version} has no date; write `{wanted}`") from error
    if not re.search(r"^- ", section[2], re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md: the section for {version} lists no changes")


def check_citation(text: str, version: str) -> None:
    """Makes sure that CITATION.cff names the version.

    Raises:
        ReleaseError: If it names another one.
    """
    found = re.search(r"^version: (.*)$", text, re.MULTILINE)
    if found is None or found[1] != version:
        raise ReleaseError(f"CITATION.cff has version {found[1] if found else 'none'}; write `version: {version}`")


def build(root: Path, commit: str, target: Path) -> tuple[Path, Path]:
    """Builds both packages from a copy of a commit.

    Args:
        root: The repository.
        commit: The commit.
        target: An existing directory for the packages.

    Returns:
        The sdist and the wheel.

    Raises:
        ReleaseError: If a build fails.
    """
    # With a time of its own, `python -m build` without this variable would make other bytes.
    env = {name: value for name, value in os.environ.items() if name not in {"SOURCE_DATE_EPOCH", "PYTHONPATH"}}
    hatchling = [sys.executable, "-P", "-m", "hatchling", "build", "-d", str(target)]
    with tempfile.TemporaryDirectory(prefix="sandrl-release-") as folder:
        archive = Path(folder, "commit.tar")
        run(["git", "archive", "--format=tar", "-o", archive, commit], cwd=root)
        unpack(archive, Path(folder, "commit"))
        run([*hatchling, "-t", "sdist"], cwd=Path(folder, "commit"), env=env)
        [sdist] = target.glob("sandrl-*.tar.gz")
        unpack(sdist, Path(folder, "sdist"))
        [source] = Path(folder, "sdist").iterdir()
        run([*hatchling, "-t", "wheel"], cwd=source, env=env)
    [wheel] = target.glob("sandrl-*.whl")
    return sdist, wheel


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar archive into a new directory."""
    folder.mkdir()
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def check_sdist(sdist: Path, tracked: Iterable[str]) -> None:
    """Makes sure that a sdist has all files of the repository but those that only serve it, and no other.

    Args:
        sdist: The file.
        tracked: The paths in the repository.

    Raises:
        ReleaseError: If a file is missing, or one is too many.
    """
    with tarfile.open(sdist) as files:
        members = files.getmembers()
    odd = [each.name for each in members if not each.isfile()]
    if odd:
        raise ReleaseError(f"{sdist.name} has members that are not files: {_some(odd)}")
    found = {each.name.partition("/")[2] for each in members}
    wanted = {path for path in tracked if not path.startswith(_LEFT_OUT)}
    _compare(sdist, found - _ADDED, wanted)


def check_wheel(wheel: Path, tracked: Iterable[str], version: str) -> None:
    """Makes sure that a wheel has all files of the packages, its completions, man page, licences, and no other.

    Args:
        wheel: The file.
        tracked: The paths in the repository.
        version: The version it should have.

    Raises:
        ReleaseError: If a file is missing, one is too many, or its metadata is that of another version.
    """
    paths = [*tracked]
    info, data = f"sandrl-{version}.dist-info", f"sandrl-{version}.data/data"
    wanted = {path.removeprefix("src/") for path in paths if path.startswith(_PACKAGES)}
    wanted |= {f"{data}/{name}" for name in _SHARED}
    wanted |= {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    wanted |= {f"{info}/licenses/{path}" for path in paths if path == "LICENSE" or path.endswith(".LICENSE.md")}
    with zipfile.ZipFile(wheel) as files:
        found = {each.filename for each in files.infolist() if not each.is_dir()}
        _compare(wheel, found, wanted)
        metadata = email.message_from_bytes(files.read(f"{info}/METADATA"))
    if metadata["Version"] != version:
        raise ReleaseError(f"{wheel.name}: its metadata has version {metadata['Version']}")
    text = str(metadata.get_payload())
    relative = re.findall(r"\]\((?!https?:|#|mailto:)[^)]*\)|(?:src|srcset)=\"(?!https?:)[^\"]*\"", text)
    if relative:
        raise ReleaseError(f"{wheel.name}: the long description has relative links: {_some(relative)}")


def _compare(package: Path, found: set[str], wanted: set[str]) -> None:
    for names, problem in ((wanted - found, "lacks"), (found - wanted, "has, but should not have,")):
        if names:
            raise ReleaseError(f"{package.name} {problem} {_some(sorted(names))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_metadata(packages: Iterable[Path]) -> None:
    """Has twine check what the package index would refuse.

    Raises:
        ReleaseError: If it finds something, also a warning.
    """
    run([sys.executable, "-m", "twine", "check", "--strict", *packages])


def check_install(package: Path) -> str:
    """Installs a package with pip into an empty environment and scores the demo, with an empty home directory.

    Returns:
        The last lines of the demo.

    Raises:
        ReleaseError: If the installation or the demo fails, or the demo has another reward.
    """
    with tempfile.TemporaryDirectory(prefix="sandrl-install-") as folder:
        home = Path(folder, "home")
        home.mkdir()
        environment = Path(folder, "environment")
        venv.create(environment, with_pip=True)
        python, sandrl = environment / "bin" / "python", environment / "bin" / "sandrl"
        kept = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "LANG", "TMPDIR")
        env = {name: value for name, value in os.environ.items() if name in kept or name.startswith("PIP_")}
        settings = Path("~/.config/pip/pip.conf").expanduser()
        if settings.exists():
            env.setdefault("PIP_CONFIG_FILE", str(settings))
        env["HOME"] = str(home)
        run([python, "-m", "pip", "install", "--quiet", package], cwd=home, env=env)
        first = run([sandrl, "--version"], cwd=home, env=env).splitlines()[0]
        again = run([python, "-m", "sandrl", "--version"], cwd=home, env=env).splitlines()[0]
        wanted = f"sandrl {re.split('-|.tar', package.name)[1]}"
        if not first == again == wanted:
            raise ReleaseError(f"{package.name}: `sandrl --version` prints {first!r}, not {wanted!r}")
        try:
            shown = run([sandrl, "reward"], cwd=home, env=env)
        finally:
            subprocess.run([sandrl, "runtime", "stop"], cwd=home, env=env, capture_output=True, check=False)
        if _DEMO_LINE not in shown:
            raise ReleaseError(f"{package.name}: `sandrl reward` does not print `{_DEMO_LINE}`:\n{shown}")
        return "\n".join(shown.splitlines()[-2:])


def instructions(version: str, packages: Iterable[Path], *, has_source: bool) -> str:
    """Returns what to do with the packages."""
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each}" for each in packages]
    files = " ".join(str(each) for each in packages)
    lines += [
        "",
        "Publish by the workflow .github/workflows/release.yml, which builds the same bytes:",
        f"  git tag -a v{version} -m 'sandrl {version}' && git push origin v{version}",
        "Or upload from here, with a token of the package index:",
        f"  .venv/bin/uv publish {files}",
    ]
    if not has_source:
        lines.append(
            "pyproject.toml has no `Source` in [project.urls]: the long description has no links and pictures."
        )
    return "\n".join(lines)


def main() -> int:
    """Makes the release; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("dist"), help="where the packages go; default: dist")
    output = parser.parse_args().output
    try:
        version = version_of(ROOT)
        check_clean(ROOT)
        check_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
        check_citation((ROOT / "CITATION.cff").read_text("utf-8"), version)
        release(version, output)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(version: str, output: Path) -> None:
    """Builds and checks the packages of the last commit, and copies them to a directory if they are good.

    Raises:
        ReleaseError: If a check fails.
    """
    commit = run(["git", "rev-parse", "HEAD"]).strip()
    tracked = run(["git", "ls-tree", "-r", "-z", "--name-only", commit]).rstrip("\0").split("\0")
    with tempfile.TemporaryDirectory(prefix="sandrl-release-") as folder:
        print(f"release: building sandrl {version} from {commit[:12]}")
        sdist, wheel = build(ROOT, commit, Path(folder))
        check_sdist(sdist, tracked)
        check_wheel(wheel, tracked, version)
        check_metadata([sdist, wheel])
        for package in (sdist, wheel):
            print(f"release: installing {package.name} into an empty environment")
            print(check_install(package))
        output.mkdir(exist_ok=True)
        packages = [Path(shutil.copy(each, output)) for each in (sdist, wheel)]
    has_source = "\nSource = " in (ROOT / "pyproject.toml").read_text("utf-8")
    print(instructions(version, packages, has_source=has_source))


if __name__ == "__main__":
    sys.exit(main())
