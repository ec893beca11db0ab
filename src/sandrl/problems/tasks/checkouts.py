"""Directories of git repositories, at one commit each, in the directory of files that can be made again.

The program `git` fetches objects, and nothing is checked out: files are written here from the objects. So no hook, no
filter, no attribute and no configuration of the repository has an effect, and a name in it leads nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from sandrl.errors import InputError, ServiceError, UsageError
from sandrl.files import write_whole
from sandrl.settings import load_settings

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_URL = re.compile(r"(https?|ssh|git|file)://[^\s\x00-\x1f]+|\w[\w.-]*@\w[\w.-]*:[^\s\x00-\x1f]+")
_REVISION = re.compile(r"[A-Za-z0-9_][\w./+-]{0,200}")
_LARGE_FILE = b"version https://git-lfs.github.com/spec/"
_LINK, _SUBMODULE = "120000", "160000"
_MOST_BYTES = 4 << 30
_MOST_FILES = 200_000
_FETCH_SECONDS = 1800.0
_ORIGIN = "origin"
# Nothing of the repository is run, and nothing is asked at the terminal.
_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "core.fsmonitor=false"),
    *("-c", "fetch.recurseSubmodules=no", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory of a repository at a commit, as it lies on this machine."""

    url: str
    commit: str
    path: str
    directory: Path


def checked_out(url: str, revision: str | None, paths: Sequence[str], *, local: bool = True) -> list[Checkout]:
    """Fetches directories of a repository, unless they are there already.

    Args:
        revision: A commit, tag or branch; None for the head of the repository.
        paths: The directories, relative to the repository; empty for its root.
        local: Whether the repository may be one of this machine (`file://`).

    Raises:
        InputError: If the address, the revision or a path cannot be used, or a file cannot be read.
        ServiceError: If the repository cannot be fetched.
    """
    if not _URL.fullmatch(url) or (url.startswith("file:") and not local):
        raise InputError(
            f"{shown(url)!r:.200} is not an address of a git repository", hint="use https, ssh, git or file"
        )
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise InputError(f"{revision!r:.80} is not a commit, tag or branch", path=shown(url))
    if shutil.which("git") is None:
        raise UsageError("the program git is not installed", hint="install it, or name a directory of tasks")
    plain = [_plain_path(path, url) for path in paths]
    root = load_settings().cache_dir / "tasks" / sha256(url.encode()).hexdigest()[:24]
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = revision if revision is not None and _COMMIT.fullmatch(revision) else None
    if known is None or not all(_place(root, known, path).is_dir() for path in plain):
        with _repository(root) as repository:
            known = _fetched(repository, url, revision)
            for path in plain:
                if not (place := _place(root, known, path)).is_dir():
                    _write(repository, url, known, path, place)
    return [Checkout(url, known, path, _place(root, known, path)) for path in plain]


def origin_of(directory: str | Path) -> str:
    """Where a directory that was fetched is from, `ADDRESS@COMMIT#DIRECTORY`; empty for others."""
    root = (load_settings().cache_dir / "tasks").resolve()
    place = Path(directory).resolve()
    if not place.is_relative_to(root) or len(parts := place.relative_to(root).parts) < 4:
        return ""
    try:
        origin = (root.joinpath(*parts[:3]) / _ORIGIN).read_text()
    except OSError:
        return ""
    return "/".join((origin.removesuffix("/"), *parts[4:])).replace("#/", "#")


# Where no path is the beginning of another one.
def _place(root: Path, commit: str, path: str) -> Path:
    name = PurePosixPath(path).name or "root"
    return root / commit / sha256(path.encode()).hexdigest()[:16] / name


def _plain_path(path: str, url: str) -> str:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path or "\n" in path:
        raise InputError(f"the path {path!r:.80} leads out of the repository", path=shown(url))
    return "/".join(parts)


def shown(url: str) -> str:
    """A text without the names and passwords of users that addresses in it have."""
    return re.sub(r"//[^/@]*@", "//", url)


@contextlib.contextmanager
def _repository(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as name:
        repository = Path(name) / "repository.git"
        _git(None, ["init", "--quiet", "--bare", "--template=", str(repository)])
        yield repository


# Only what is needed is fetched, where the server can do that.
def _fetched(repository: Path, url: str, revision: str | None) -> str:
    _git(repository, ["remote", "add", "origin", url])
    wanted = revision or "HEAD"
    tries: tuple[list[str], ...] = (["--depth=1", "--filter=blob:none"], ["--depth=1"], [])
    for number, options in enumerate(tries):
        # A server may give no commit by its name: then its branches and tags are fetched.
        what = [wanted] if options else ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        try:
            _git(repository, ["fetch", "--quiet", "--no-tags", *options, "--", "origin", *what])
            found = _git(
                repository,
                ["rev-parse", "--verify", "--end-of-options", f"{wanted if not options else 'FETCH_HEAD'}^{{commit}}"],
            )
            return found.decode().strip()
        except subprocess.CalledProcessError as error:
            if number == len(tries) - 1:
                reason = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:] or ["git failed"]
                raise ServiceError(
                    f"{shown(url)}: {wanted} cannot be fetched: {shown(reason[0])[:300]}",
                    hint="check the address and the revision; git asks for no password here",
                ) from error
        except subprocess.TimeoutExpired as error:
            raise ServiceError(f"{shown(url)}: was not fetched within {_FETCH_SECONDS:g} s") from error
    raise AssertionError


def _write(repository: Path, url: str, commit: str, path: str, place: Path) -> None:
    entries = _entries(repository, url, commit, path)
    if not entries:
        raise InputError(f"has no directory {path or '/'!r:.80} at {commit[:12]}", path=shown(url))
    if len(entries) > _MOST_FILES:
        raise InputError(f"{path or '/'!r:.80} has more than {_MOST_FILES} files", path=shown(url))
    _fetch_missing(repository, f"{commit}:{path}" if path else commit)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".write-") as name:
        root = Path(name) / "tree"
        root.mkdir()
        total = 0
        for (mode, _, file), content in zip(
            entries, _contents(repository, [name for _, name, _ in entries]), strict=True
        ):
            total += len(content)
            if total > _MOST_BYTES:
                raise InputError(f"{path or '/'!r:.80} is larger than {_MOST_BYTES >> 30} GiB", path=shown(url))
            if content.startswith(_LARGE_FILE):
                message = f"keeps {file!r:.80} in Git LFS, which is not supported"
                raise InputError(message, path=shown(url), hint="clone it with git lfs, and name the directory")
            try:
                _write_entry(root / file, mode, content)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise InputError(
                    f"has {str(file)!r:.80}, which cannot be written: {reason}", path=shown(url)
                ) from error
        write_whole(place.parent / _ORIGIN, f"{shown(url)}@{commit}#{path}".encode())
        try:
            root.rename(place)
        except OSError:
            if not place.is_dir():  # another process was faster
                raise


def _write_entry(place: Path, mode: str, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        # Readers of tasks follow no link that leads out of its directory.
        os.symlink(content, os.fsencode(place))
        return
    with place.open("xb") as file:
        file.write(content)
    place.chmod(0o755 if mode == "100755" else 0o644)


# Mode, object and path of each file, links last: a broken tree may have files "in" a link, or names such as `..`.
def _entries(repository: Path, url: str, commit: str, path: str) -> list[tuple[str, str, Path]]:
    found: list[tuple[str, str, Path]] = []
    treeish = f"{commit}:{path}" if path else commit
    try:
        listed = _git(repository, ["ls-tree", "-r", "-z", "--full-tree", treeish])
    except subprocess.CalledProcessError:
        return found
    for entry in filter(None, listed.split(b"\0")):
        facts, _, name = entry.partition(b"\t")
        mode, _, digest = facts.decode().split(" ")
        if mode == _SUBMODULE:
            continue
        file = Path(os.fsdecode(name))
        if file.is_absolute() or {"..", ".git"} & {part.lower() for part in file.parts}:
            raise InputError(f"has a file with the name {name!r:.80}", path=shown(url))
        found.append((mode, digest, file))
    return sorted(found, key=lambda entry: entry[0] == _LINK)


# In one request; otherwise git would fetch one at a time.
def _fetch_missing(repository: Path, treeish: str) -> None:
    listed = _git(repository, ["rev-list", "--objects", "--missing=print", "--no-object-names", treeish])
    missing = b"".join(line[1:] + b"\n" for line in listed.splitlines() if line.startswith(b"?"))
    if missing:
        options = ["fetch", "--quiet", "--no-tags", "--filter=blob:none", "--no-write-fetch-head", "--stdin", "origin"]
        # As git itself does it; what is missing still is fetched by the program that reads it.
        with contextlib.suppress(subprocess.CalledProcessError):
            _git(repository, ["-c", "fetch.negotiationAlgorithm=noop", *options], stdin=missing)


def _contents(repository: Path, digests: Iterable[str]) -> Iterator[bytes]:
    with subprocess.Popen(
        ["git", *_OPTIONS, "cat-file", "--batch"],
        cwd=repository,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for digest in digests:
            process.stdin.write(f"{digest}\n".encode())
            process.stdin.flush()
            head = process.stdout.readline().split()
            if len(head) != 3:
                raise ServiceError(f"git has no object {digest[:12]}")
            size = int(head[2])
            if size > _MOST_BYTES:
                raise InputError(f"a file of the repository is larger than {_MOST_BYTES >> 30} GiB")
            yield process.stdout.read(size)
            process.stdout.read(1)


def _environment() -> dict[str, str]:
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
        },
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    }


def _git(repository: Path | None, arguments: list[str], *, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *_OPTIONS, *arguments],
        cwd=repository,
        env=_environment(),
        input=stdin,
        capture_output=True,
        timeout=_FETCH_SECONDS,
        check=True,
    ).stdout
