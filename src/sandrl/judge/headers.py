"""A precompiled header: the common beginning of many C++ programs, compiled once and used by all later compilations.

Reading `<bits/stdc++.h>` takes most of the time of compiling a short program. This process makes the header from the
compiler and the headers of this machine alone, with the flags of the programs that use it, and sandboxes see it
read-only, so no completion can change it. It serves only programs that include `<bits/stdc++.h>` after nothing but
comments and other headers of the compiler, so that reading it first changes no meaning; a macro or a pragma before it
would. A compilation that fails with it is repeated without it, so it can only save time. It is made in parallel with
the first completions, which do not wait for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
import uuid
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

from sandrl.answers.builds import SEARCHED
from sandrl.problems.languages import SOURCE, Form
from sandrl.sandboxes import SharedDirectory

WORTH = 8
"""How many programs ask for a header before it is made: twice as many as make up for that."""

_LONGEST_SECONDS = 3600.0  # after which nobody makes a header any more

_EVERYTHING = "bits/stdc++.h"
_HEADER, _COMPILED, _SOURCES, _SIGNATURE = "everything.h", "everything.h.gch", "sources", "signature"
# A comment that goes on in the next line, by a backslash, ends the search.
_STEP = re.compile(
    r"[ \t\r\n\f\v]+|//[^\n\\]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
    r"|#[ \t]*include[ \t]*<([\w./+-]+)>[ \t\r]*(?=\n|//|/\*|\Z)"
)
_STANDARD = frozenset(
    re.findall(
        r"[\w.]+",
        "algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono "
        "cinttypes ciso646 climits clocale cmath codecvt compare complex concepts condition_variable coroutine "
        "csetjmp csignal cstdalign cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar "
        "cwchar cwctype deque exception execution filesystem forward_list fstream functional future initializer_list "
        "iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new "
        "numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex "
        "source_location span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream "
        "system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray "
        "variant vector version assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h "
        "locale.h math.h setjmp.h signal.h stdalign.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h "
        "tgmath.h time.h uchar.h wchar.h wctype.h ",
    )
)


def begins_with_everything(source: str) -> bool:
    """Whether a program includes `<bits/stdc++.h>` after nothing but comments and standard headers."""
    place = 0
    is_at_start = True
    while (found := _STEP.match(source, place)) is not None:
        name = found[1]
        if name is not None:
            if not is_at_start or (name != _EVERYTHING and name not in _STANDARD):
                return False
            if name == _EVERYTHING:
                return True
        # A directive must be the first in its line, and what ends in a comment is in one line.
        step = found.group()
        is_at_start = name is None and (is_at_start or ("\n" in step and not step.startswith("/*")))
        place = found.end()
    return False


class Headers:
    """The precompiled headers of this machine, made when `worth` programs have asked for one.

    Args:
        shown: The directory that sandboxes see; None where nothing can be shown to them.
    """

    def __init__(self, shown: SharedDirectory | None, *, worth: int = WORTH) -> None:
        self._shown = shown
        self._worth = worth
        self._asked: dict[Form, int] = {}
        self._ready: dict[Form, str] = {}
        self._tried: set[Form] = set()
        self._making: dict[Form, _Compilation] = {}

    def quick_compile(self, form: Form, command: list[str], source: str) -> list[str]:
        """The command that compiles a program with a header, which may fail; empty if there is none for it."""
        if self._shown is None or not form.compile or form.compile[0] != "g++" or not begins_with_everything(source):
            return []
        name = self._ready.get(form) or self._name(self._shown, form)
        if not name:
            return []
        self._ready[form] = name
        return [*command[:1], "-include", f"{self._shown.there}/{name}/{_HEADER}", *command[1:]]

    def wait(self) -> None:
        """Waits until no header is being made."""
        for making in self._making.values():
            making.process.wait()

    def _name(self, shown: SharedDirectory, form: Form) -> str:
        # The directory with the header for a form; empty while there is none, which may begin to be made.
        flags = _flags(form)
        name = hashlib.sha256(repr(flags).encode()).hexdigest()[:32]
        making = self._making.get(form)
        # A process that was forked from the one that started it does not know how it ends.
        if making is not None and making.owner == os.getpid():
            if making.process.poll() is None:
                return ""
            if self._making.pop(form, None) is making:
                making.publish(shown.here / name)
        if _is_current(shown.here / name):
            return name
        self._asked[form] = self._asked.get(form, 0) + 1
        if self._asked[form] >= self._worth and form not in self._tried:
            self._tried.add(form)
            with suppress(OSError):
                self._making[form] = _Compilation(shown.here, flags)
        return ""


@cache
def headers_of(shown: SharedDirectory | None) -> Headers:
    """The headers of a directory that sandboxes see, which all judges of this process share."""
    return Headers(shown)


class _Compilation:
    def __init__(self, directory: Path, flags: list[str]) -> None:
        _remove_left(directory)
        self.owner = os.getpid()
        self.folder = directory / f".{uuid.uuid4().hex}"
        self.folder.mkdir(mode=0o755)
        (self.folder / _HEADER).write_text(f"#include <{_EVERYTHING}>\n")
        outputs = ["-o", _COMPILED, "-MD", "-MF", _SOURCES]
        try:
            self.process = subprocess.Popen(
                [*flags, "-x", "c++-header", _HEADER, *outputs],
                executable=shutil.which(flags[0], path=SEARCHED),
                cwd=self.folder,
                # No variable of the user's changes what a compiler reads.
                env={"PATH": SEARCHED, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        # Also when this process ends: then nobody would take what was made.
        self.end = weakref.finalize(self, _end, self.process, self.folder, self.owner)

    def publish(self, target: Path) -> None:
        if self.process.returncode == 0:
            with suppress(OSError):
                (self.folder / _SIGNATURE).write_text(_signature(self.folder))
                for path in self.folder.iterdir():
                    path.chmod(0o644)
                self.folder.chmod(0o755)
                # One for headers that have changed since, or of another process that was faster.
                shutil.rmtree(target, ignore_errors=True)
                self.folder.rename(target)
        self.end()


def _remove_left(directory: Path) -> None:
    for folder in directory.glob(".*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LONGEST_SECONDS:
                shutil.rmtree(folder)


def _end(process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    # Ends the compiler and removes what it has made, unless that was published.
    if os.getpid() != owner:
        return  # a process that was forked from the one that started it
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _flags(form: Form) -> list[str]:
    words = list(form.compile)
    return words[: words.index(SOURCE)]


def _is_current(folder: Path) -> bool:
    # Whether a header is there, and what it was made from is as it was.
    try:
        return (folder / _COMPILED).is_file() and (folder / _SIGNATURE).read_text() == _signature(folder)
    except (OSError, ValueError):
        return False


def _signature(folder: Path) -> str:
    # Of the compiler and of all files that a header was made from; raises `OSError` if one is missing.
    words = (folder / _SOURCES).read_text(encoding="utf-8").replace("\\\n", " ").split()[1:]
    compiler = shutil.which("g++", path=SEARCHED) or "/usr/bin/g++"
    paths = [os.path.realpath(compiler), *(word for word in words if word.startswith("/"))]
    digest = hashlib.sha256()
    for path in paths:
        status = os.stat(path)
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
