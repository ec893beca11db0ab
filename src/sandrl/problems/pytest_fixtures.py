"""The built-in fixtures of pytest that tests of functions take, for sandboxes where pytest is not installed.

The text of a class of this file runs before a check that takes its fixture, in the process of the checks. The changes
that it makes are carried to the completion's process like other changes of a check; `undo` ends them. A class stands
alone: it imports what it uses.
"""

# ruff: noqa: UP037

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any


class Capture:
    """`capsys`, and `capfd`: the standard streams of a test."""

    def __init__(self) -> None:
        import collections
        import io
        import sys

        self.result: "Any" = collections.namedtuple("CaptureResult", ("out", "err"))  # type: ignore[misc]
        self.before = sys.stdout, sys.stderr
        self.streams = io.StringIO(), io.StringIO()
        sys.stdout, sys.stderr = self.streams

    def readouterr(self) -> "Any":
        texts = [stream.getvalue() for stream in self.streams]
        for stream in self.streams:
            stream.seek(0)
            stream.truncate()
        return self.result(*texts)

    def undo(self) -> None:
        import sys

        sys.stdout, sys.stderr = self.before


class MonkeyPatch:
    """`monkeypatch`."""

    def __init__(self) -> None:
        self.undoing: "list[Callable[[], object]]" = []

    def setattr(self, target: "Any", name: "Any", *values: "Any", raising: bool = True) -> None:
        if not values:
            (target, name), values = self.find(target), (name,)
        if raising and not hasattr(target, name):
            raise AttributeError(repr(target) + " has no attribute " + repr(name))
        self.keep(target, name)
        setattr(target, name, values[0])

    def delattr(self, target: "Any", name: "Any" = None, raising: bool = True) -> None:
        if name is None:
            target, name = self.find(target)
        if hasattr(target, name) or raising:
            self.keep(target, name)
            delattr(target, name)

    def find(self, place: str) -> "tuple[Any, str]":
        import pkgutil

        owner, _, name = place.rpartition(".")
        return pkgutil.resolve_name(owner), name

    def keep(self, target: "Any", name: str) -> None:
        own = getattr(target, "__dict__", {})
        if name in own:
            before = own[name]
            self.undoing.append(lambda: setattr(target, name, before))
        else:
            self.undoing.append(lambda: delattr(target, name))

    def setitem(self, mapping: "Any", key: "Any", value: "Any") -> None:
        before = mapping.copy()
        self.undoing.append(lambda: (mapping.clear(), mapping.update(before)))
        mapping[key] = value

    def delitem(self, mapping: "Any", key: "Any", raising: bool = True) -> None:
        before = mapping.copy()
        self.undoing.append(lambda: (mapping.clear(), mapping.update(before)))
        if raising or key in mapping:
            del mapping[key]

    def setenv(self, name: str, value: object, prepend: "str | None" = None) -> None:
        import os

        before = os.environ.copy()
        is_longer = prepend is not None and name in before
        self.setitem(os.environ, name, str(value) + (str(prepend) + before[name] if is_longer else ""))

    def delenv(self, name: str, raising: bool = True) -> None:
        import os

        self.delitem(os.environ, name, raising)

    def chdir(self, path: "Any") -> None:
        import os

        before = os.getcwd()
        self.undoing.append(lambda: os.chdir(before))
        os.chdir(path)

    def syspath_prepend(self, path: "Any") -> None:
        import sys

        sys.path.insert(0, str(path))
        self.undoing.append(lambda: sys.path.remove(str(path)))

    def context(self) -> "Any":
        return type(self)()

    def __enter__(self) -> "MonkeyPatch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def undo(self) -> None:
        while self.undoing:
            self.undoing.pop()()


class TemporaryPath:
    """`tmp_path`: a call makes a path."""

    def __new__(cls) -> "Any":
        import pathlib
        import tempfile

        return pathlib.Path(tempfile.mkdtemp())


class TemporaryPaths:
    """`tmp_path_factory`."""

    def mktemp(self, name: str, numbered: bool = True) -> "Any":
        import pathlib
        import tempfile

        folder = pathlib.Path(tempfile.mkdtemp()) / name
        folder.mkdir()
        return folder


class LocalPath:
    """`tmpdir`, as far as tests use what `pathlib` calls otherwise."""

    def __init__(self, path: "Any" = None) -> None:
        import pathlib
        import tempfile

        self.path = pathlib.Path(tempfile.mkdtemp() if path is None else path)
        self.strpath, self.basename = str(self.path), self.path.name

    def join(self, *parts: "Any") -> "LocalPath":
        return LocalPath(self.path.joinpath(*map(str, parts)))

    __truediv__ = join

    def mkdir(self, *parts: "Any") -> "LocalPath":
        folder = self.join(*parts)
        folder.path.mkdir()
        return folder

    def ensure(self, *parts: "Any", **keywords: "Any") -> "LocalPath":
        found = self.join(*parts)
        (found.path if keywords.get("dir") else found.path.parent).mkdir(parents=True, exist_ok=True)
        return found

    def write(self, content: str, mode: str = "w", ensure: bool = False) -> None:
        with self.path.open(mode) as file:
            file.write(content)

    def read(self, mode: str = "r") -> "Any":
        with self.path.open(mode) as file:
            return file.read()

    def check(self, **keywords: "Any") -> bool:
        return self.path.is_dir() if keywords.get("dir") else self.path.exists()

    exists = check

    def listdir(self) -> "list[LocalPath]":
        return [LocalPath(each) for each in sorted(self.path.iterdir())]

    def __str__(self) -> str:
        return self.strpath

    __fspath__ = __str__
