"""Dockerfiles, one for each instruction and form, with the files of their contexts; and buildah to compare with.

All begin with `FROM localhost/tests/base:1`, a busybox with users, unless they name something else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.store import ImageStore
from tests.support.programs import require_program

BASE = "localhost/tests/base:1"
# What the other builder, or the kernel, puts there for its programs.
_OF_BUILDERS = ("dev", "proc", "sys", "run", "etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab")
_COMPARED = (
    *(
        "Env",
        "Cmd",
        "Entrypoint",
        "WorkingDir",
        "User",
        "Labels",
        "ExposedPorts",
        "Volumes",
        "StopSignal",
        "Healthcheck",
        "Shell",
    ),
)


@dataclass(frozen=True)
class Example:
    """A Dockerfile and its context.

    Attributes:
        files: Contents by path; a mode follows the name (`tool:755`), and a target of a link begins with `->`.
        options: Of both builders.
    """

    name: str
    text: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def write(self, place: Path) -> Path:
        place.mkdir(parents=True)
        (place / "Dockerfile").write_text(self.text.replace("BASE", BASE))
        for name, content in self.files.items():
            path, _, mode = name.partition(":")
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str) and content.startswith("->"):
                target.symlink_to(content.removeprefix("->"))
            elif path.endswith("/"):
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(content.encode() if isinstance(content, str) else content)
            if mode:
                target.chmod(int(mode, 8))
        return place


def packed(files: Mapping[str, str], *, compressed: bool = False) -> bytes:
    """A tar archive of files with user 7."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(content), 0o640, 7, 7
            archive.addfile(member, io.BytesIO(content.encode()))
    return gzip.compress(out.getvalue()) if compressed else out.getvalue()


_DIRECTORY = {"d/a": "a", "d/b/c:600": "c", "d/tool:755": "#!/bin/sh\n", "d/link": "->a", "d/.hidden": "h"}

EXAMPLES = [
    Example("from", "FROM BASE\n"),
    Example("from a stage", "FROM BASE AS one\nRUN echo 1 > /1\nFROM one\nRUN echo 2 > /2\n"),
    Example("from with an argument", "ARG TAG=2\nFROM localhost/tests/base:${TAG}\n", options=("--build-arg", "TAG=1")),
    Example("from with a default", "ARG NAME\nFROM ${NAME:-BASE}\n"),
    Example("from scratch", "FROM scratch\nCOPY f /\n", {"f": "x"}),
    Example("from with a platform", "FROM --platform=linux/amd64 BASE\nRUN echo 1 > /1\n"),
    Example("a target", "FROM BASE AS a\nRUN echo a > /a\nFROM BASE AS b\nRUN false\n", options=("--target", "a")),
    Example("run in a shell", 'FROM BASE\nRUN echo "a b" > /x && ln -s x /y\n'),
    Example("run a program", 'FROM BASE\nRUN ["/bin/touch", "/a b"]\n'),
    Example("run on several lines", "FROM BASE\nRUN echo a > /a && \\\n    # a comment\n\n    echo b > /b\n"),
    Example("run as a user", "FROM BASE\nRUN chown app /srv\nUSER app\nRUN id -u > /srv/id; echo $HOME >> /srv/id\n"),
    Example("run in a directory", "FROM BASE\nWORKDIR /home/app\nRUN pwd > out\n"),
    Example("run removes files", "FROM BASE\nRUN rm /etc/os-release && rm -rf /home && mkdir /home\n"),
    Example("run changes modes", "FROM BASE\nRUN chmod 4755 /bin/busybox; chown app:extra /srv; chmod 700 /srv\n"),
    Example("run makes links", "FROM BASE\nRUN echo a > /a && ln /a /b && ln -s /a /c && mkdir -p /d/e\n"),
    Example("run with an argument", "FROM BASE\nARG A=1\nRUN echo $A > /a\n", options=("--build-arg", "A=2")),
    Example(
        "run with a directory of the context",
        "FROM BASE\nRUN --mount=type=bind,source=d,target=/m cp /m/a /a\n",
        _DIRECTORY,
    ),
    Example(
        "run with a directory of a stage",
        "FROM BASE AS one\nRUN mkdir /o && echo 1 > /o/1\n"
        "FROM BASE\nRUN --mount=type=bind,from=one,source=/o,target=/m cp /m/1 /1\n",
    ),
    Example(
        "run with a cache",
        "FROM BASE\nRUN --mount=type=cache,target=/var/x echo 1 > /var/x/y && echo 1 > /1\n",
    ),
    Example("run with memory", "FROM BASE\nRUN --mount=type=tmpfs,target=/mnt/m echo 1 > /mnt/m/x && echo 1 > /1\n"),
    Example("shell", 'FROM BASE\nSHELL ["/bin/sh", "-ec"]\nRUN echo $- > /flags\n'),
    Example("copy a file", "FROM BASE\nCOPY f /new/name\n", {"f:640": "x"}),
    Example("copy into a directory", "FROM BASE\nCOPY f /srv\nCOPY f /made/\n", {"f": "x"}),
    Example("copy to a relative place", "FROM BASE\nWORKDIR /w\nCOPY f ./\nCOPY f g\n", {"f": "x"}),
    Example("copy several files", "FROM BASE\nCOPY f g /to/\n", {"f": "x", "g": "y"}),
    Example("copy a directory", "FROM BASE\nCOPY d /to\n", _DIRECTORY),
    Example("copy a directory into one", "FROM BASE\nCOPY d /srv/\n", _DIRECTORY),
    Example("copy everything", "FROM BASE\nCOPY . /all/\n", _DIRECTORY),
    Example(
        "copy over files",
        "FROM BASE\nRUN mkdir -p /to/b && echo old > /to/a && echo kept > /to/k\nCOPY d /to\n",
        _DIRECTORY,
    ),
    Example("copy through a link", "FROM BASE\nRUN ln -s srv /l\nCOPY f /l/f\nCOPY f /l/\n", {"f": "x"}),
    Example("copy a link", "FROM BASE\nCOPY link /x\n", {"f": "x", "link": "->f"}),
    Example(
        "copy by a pattern", "FROM BASE\nCOPY *.txt f?? /to/\n", {"a.txt": "a", "b.txt": "b", "fab": "1", "c": "c"}
    ),
    Example("copy a list", 'FROM BASE\nCOPY ["a b", "/to here/"]\n', {"a b": "x"}),
    Example("copy with variables", "FROM BASE\nARG A=f\nENV B=/to\nCOPY ${A} $B/${A}x\n", {"f": "x"}),
    Example("copy for a user", "FROM BASE\nCOPY --chown=app:extra d /to\n", _DIRECTORY),
    Example("copy for numbers", "FROM BASE\nCOPY --chown=12:34 f /to/f\n", {"f": "x"}),
    Example("copy with a mode", "FROM BASE\nCOPY --chmod=751 f /f\n", {"f": "x"}),
    Example(
        "copy from a stage",
        "FROM BASE AS one\nRUN mkdir /o && echo 1 > /o/1 && chown app /o/1\n"
        "FROM BASE\nCOPY --from=one /o /p\nCOPY --from=0 /o/1 /1\n",
    ),
    Example("copy from an image", "FROM scratch\nCOPY --from=BASE /etc/passwd /etc/group /etc/\n"),
    Example(
        "copy without what is ignored",
        "FROM BASE\nCOPY . /all/\n",
        {
            **_DIRECTORY,
            "x.log": "x",
            "d/y.log": "y",
            "keep.log": "k",
            ".dockerignore": "# comment\n**/*.log\n!keep.log\nd/b\nDockerfile\n",
        },
    ),
    Example(
        "copy an exception of what is ignored",
        "FROM BASE\nCOPY . /all/\n",
        {**_DIRECTORY, ".dockerignore": "*\n!d/a\n"},
    ),
    Example("add a file", "FROM BASE\nADD f /to/\n", {"f": "x"}),
    Example("add an archive", "FROM BASE\nADD a.tar /to/\n", {"a.tar": packed({"x": "1", "d/y": "2"})}),
    Example(
        "add a compressed archive", "FROM BASE\nADD a.tar.gz /to\n", {"a.tar.gz": packed({"x": "1"}, compressed=True)}
    ),
    Example("add a directory", "FROM BASE\nADD d /to\n", _DIRECTORY),
    Example("env", "FROM BASE\nENV A=1 B=\"b b\" C='$A' D=d\\ d\nENV E=$A$B\nENV PATH=/x:$PATH\n"),
    Example("env of one", "FROM BASE\nENV A some words\n"),
    Example("env in a command", "FROM BASE\nENV A=1\nRUN echo $A > /a\n"),
    Example("env with modifiers", "FROM BASE\nENV A=1\nENV B=${A:+x} C=${Z:-y} D=${Z:+z} E=\\$A\n"),
    Example("arg in a stage", "ARG A=1\nFROM BASE\nARG A\nARG B=$A\nENV C=$B\n"),
    Example("arg against env", "FROM BASE\nARG A=1\nENV A=2\nRUN echo $A > /a\n"),
    Example("workdir", "FROM BASE\nWORKDIR /a\nWORKDIR b/c\n"),
    Example("workdir with a variable", "FROM BASE\nENV D=/x\nWORKDIR $D/y\n"),
    Example("user", "FROM BASE\nUSER app:extra\n"),
    Example("entrypoint", 'FROM BASE\nENTRYPOINT ["/bin/echo", "a b"]\n'),
    Example("entrypoint in a shell", "FROM BASE\nENTRYPOINT echo $HOME\nCMD x\n"),
    Example("cmd", 'FROM BASE\nCMD ["a", "b"]\n'),
    Example("cmd in a shell", "FROM BASE\nCMD echo a\n"),
    Example("label", 'FROM BASE\nENV V=1\nLABEL a=1 "b c"="d e" v=$V\nLABEL multi="x \\\n y"\n'),
    Example("expose", "FROM BASE\nEXPOSE 80 443/tcp 53/udp\n"),
    Example("volume", 'FROM BASE\nVOLUME /srv /mnt\nVOLUME ["/sub"]\n'),
    Example("healthcheck", "FROM BASE\nHEALTHCHECK --interval=1m30s --retries=2 CMD test -e /x\n"),
    Example("healthcheck of a program", 'FROM BASE\nHEALTHCHECK --timeout=2s CMD ["true"]\n'),
    Example("no healthcheck", "FROM BASE\nHEALTHCHECK NONE\n"),
    Example("stopsignal", "FROM BASE\nSTOPSIGNAL SIGINT\n"),
    Example("maintainer", "FROM BASE\nMAINTAINER someone <a@example.org>\n"),
    Example("another escape", "# escape=`\nFROM BASE\nRUN echo a > /a && `\n  echo b > /b\nENV A=1\n"),
]


def tree_of(directory: MergedTree) -> dict[str, tuple[object, ...]]:
    """What is in a tree: types, modes, owners, targets of links, and contents, by path."""
    found: dict[str, tuple[object, ...]] = {}
    pending: list[tuple[str, ...]] = [()]
    while pending:
        path = pending.pop()
        for name in directory.names(path):
            each = (*path, name)
            status = directory.find(each)
            assert status is not None
            shown = "/".join(each)
            if shown.split("/")[0] in _OF_BUILDERS or shown in _OF_BUILDERS:
                continue
            content = ""
            if stat.S_ISREG(status.st_mode):
                with directory.open(each) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = directory.link(each)
            mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            found[shown] = (stat.S_IFMT(status.st_mode), oct(mode), status.st_uid, status.st_gid, content)
            if stat.S_ISDIR(status.st_mode):
                pending.append(each)
    return found


def image_tree(store: ImageStore, digest: str) -> dict[str, tuple[object, ...]]:
    """What is in a stored image."""
    layers = [store.layers / name for name in store.open(digest).layers]
    return tree_of(MergedTree(layers, digest, keeps_owners=True))


def configuration(store: ImageStore, digest: str) -> dict[str, Any]:
    """What a stored image says about its programs."""
    manifest, _ = store.read(digest)
    return compared(json.loads(store.contents.blob(manifest.config.digest).read_bytes())["config"])


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """What two builders must agree on: nothing and an empty value are the same."""
    labels = {key: value for key, value in (config.get("Labels") or {}).items() if not key.startswith("io.buildah.")}
    config = {**config, "Labels": labels, "Env": sorted(config.get("Env") or ())}
    return {key: config[key] for key in _COMPARED if config.get(key) not in (None, "", [], {}, "/")}


class Buildah:
    """Builds images with Debian's buildah, as root, in a directory."""

    def __init__(self, place: Path) -> None:
        self._program = require_program("buildah")
        self._options = ["--root", str(place / "root"), "--runroot", str(place / "run"), "--storage-driver", "vfs"]

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._program, *self._options, *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def build(self, context: Path, *options: str) -> tuple[dict[str, tuple[object, ...]], dict[str, Any]]:
        """What is in the image of a Dockerfile, and its configuration."""
        self.call(
            "bud",
            "--isolation",
            "chroot",
            "--format",
            "docker",
            "--pull-never",
            "--quiet",
            *options,
            "--tag",
            "tests/built",
            str(context),
        )
        container = self.call("from", "--pull-never", "localhost/tests/built").strip()
        try:
            mounted = Path(self.call("mount", container).strip())
            described = json.loads(self.call("inspect", "--type", "image", "localhost/tests/built"))
            return tree_of(MergedTree([mounted], "buildah", keeps_owners=True)), compared(described["Docker"]["config"])
        finally:
            self.call("rm", container)
