"""Joins files of `sandrl.judge.guest` into the guest's program, which is sent to the sandbox of a completion.

A program holds only the files that its way of judging needs, because every judged completion pays for loading it. The
files that only the judge needs are loaded after the fork: the completion's process never contains them, and no memory
is copied for them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files

from sandrl.errors import SandrlError
from sandrl.events.results import Trust
from sandrl.files import read_regular, write_whole
from sandrl.judge.guest.baseline import SANDBOX_VARIABLE
from sandrl.settings import Settings, private_directory
from sandrl.syntax import compiling, parse, written

_HEADER_BYTES = 64
_WORKER_HEADER_BYTES = 128
_WORKER_FILES = ("descriptors", "child", "places", "first_process", "steps", "network", "cell", "preloads", "worker")
_FRAME = ("descriptors", "clock", "child", "supervisor")
_RUNS = ("places", "baseline", "cases")
_DIGEST_BYTES = 32
_MOST_KEPT_BYTES = 16 << 20

BOOTSTRAP = """\
import sys
sys.path[:] = [path for path in sys.path if path]
import gc, marshal, posix, _frozen_importlib_external
gc.disable()
def take(size):
    data = b""
    while len(data) < size:
        block = posix.read(0, size - len(data))
        if not block: raise EOFError
        data += block
    return data
magic, *sizes = take(64).split()
sizes = [int(size) for size in sizes]
space = {"__name__": "judge", "request_size": sizes.pop()}
def load():
    compiled, source = take(sizes.pop(0)), take(sizes.pop(0))
    same = magic.decode() == _frozen_importlib_external.MAGIC_NUMBER.hex()
    code = marshal.loads(compiled) if same else compile(__import__("zlib").decompress(source), "<judge>", "exec")
    del compiled, source
    exec(code, space)
space["load_rest"] = load
load()
"""
"""Runs in the sandbox, and takes everything else from standard input. The compiled form of the program serves where the
image's interpreter has the same bytecode as this one. No garbage is collected while the program is loaded. The first
lines take the current directory out of the path of modules, before anything is imported that is not built in."""

# What an interpreter that is not started with `-I` reads, up to Python 3.15. `-I` would ignore the hash seed, too.
_VARIABLES_OF_PYTHON = (
    "ASYNCIODEBUG CASEOK COERCECLOCALE DEBUG DEVMODE DONTWRITEBYTECODE DUMPREFS DUMPREFSFILE EXECUTABLE FAULTHANDLER"
    " HOME INSPECT INTMAXSTRDIGITS IOENCODING LEGACYWINDOWSFSENCODING LEGACYWINDOWSSTDIO MALLOC MALLOCSTATS"
    " NODEBUGRANGES NOUSERSITE OPTIMIZE PATH PERFSUPPORT PLATLIBDIR PROFILEIMPORTTIME PYCACHEPREFIX SAFEPATH STARTUP"
    " THREADDEBUG TRACEMALLOC UNBUFFERED USERBASE UTF8 VERBOSE WARNDEFAULTENCODING WARNINGS _BASIC_REPL _COLORS"
    " _CONTEXT_AWARE_WARNINGS _CPU_COUNT _DISABLE_REMOTE_DEBUG _FROZEN_MODULES _GIL _HISTORY _JIT _JIT_STRESS"
    " _LAZY_IMPORTS _PERF_JIT_SUPPORT _PRESITE _THREAD_INHERIT_CONTEXT _TLBC"
)
_ENVIRONMENT = tuple(word for name in _VARIABLES_OF_PYTHON.split() for word in ("-u", f"PYTHON{name}"))


@lru_cache(maxsize=64)
def command_line(hash_seed: int = 0, *, with_site_packages: bool = False) -> tuple[str, ...]:
    """How the guest's interpreter is started.

    The hash seed is constant, for this interpreter and for those that programs start, and so is the order of sets.
    Otherwise the interpreter is as isolated as with `-I`.

    Args:
        with_site_packages: Whether completions can import what is installed in the image; costs the start of `site`.
    """
    # `-S` skips `site`, a third of the start of an interpreter.
    flags = ("-s",) if with_site_packages else ("-s", "-S")
    variables = f"PYTHONHASHSEED={hash_seed}", f"{SANDBOX_VARIABLE}=1"
    return ("env", *_ENVIRONMENT, *variables, "python3", *flags, "-X", "utf8", "-c", BOOTSTRAP)


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of judging.

    Attributes:
        files: What its program is made of, in the order in which names are needed.
        judge_files: What the judge alone needs, and loads with `load_rest` after the fork.
        cell_files: What a worker needs more, whose cells may have their judge outside.
    """

    trust: Trust
    files: tuple[str, ...]
    judge: str
    judge_files: tuple[str, ...] = ()
    cell_files: tuple[str, ...] = ()


TESTS = Mode(Trust.IN_PROCESS, (*_FRAME, "excerpts", "sides", "in_process", "report"), "judge_tests")
EXIT_STATUS = Mode(Trust.EXIT_STATUS, (*_FRAME, "script", "excerpts", "report"), "judge_script")
CASES = Mode(Trust.ISOLATED, (*_FRAME, "script", "tolerance", "excerpts", *_RUNS, "report"), "judge_cases")
# In another language than Python: the program is compiled, and its output, or its exit status, decides.
PROGRAM_CASES = Mode(Trust.ISOLATED, (*CASES.files[:-1], "programs", "report"), "judge_programs")
PROGRAM_TESTS = replace(PROGRAM_CASES, trust=Trust.IN_PROCESS)
PROGRAM_EXIT_STATUS = replace(PROGRAM_CASES, trust=Trust.EXIT_STATUS)
# By the checker of the problem.
CHECKED_CASES = Mode(Trust.ISOLATED, (*_FRAME, "script", "excerpts", *_RUNS, "checker", "report"), "judge_checked")
CHECKED_PROGRAM_CASES = Mode(Trust.ISOLATED, (*PROGRAM_CASES.files[:-1], "checker", "report"), "judge_checked_programs")
# Nothing is judged: the program runs, and what it did is told.
EXECUTED = replace(PROGRAM_EXIT_STATUS, files=(*PROGRAM_CASES.files[:-1], "execute", "report"), judge="execute")
ISOLATED_TESTS = Mode(
    Trust.ISOLATED,
    (
        *_FRAME,
        "libraries",
        "values",
        "containers",
        "channel",
        "proxies",
        "operations",
        "world",
        "crossing",
        "objects",
        "server",
        "excerpts",
        "report",
    ),
    "judge_isolated",
    ("provenance", "guarded", "witness", "client", "calls", "sides", "checks"),
    ("first_process", "steps", "network", "cell", "outside"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a guest program: its text, the same compressed with zlib, and the bytecode of this interpreter."""

    source: bytes
    packed: bytes
    compiled: bytes

    @classmethod
    def of(cls, source: bytes) -> Part:
        tree = shipped(source)
        # With line numbers: where there are none, `traceback` fails on an exception that passed through the judge.
        with compiling():
            code = compile(tree, "<judge>", "exec", optimize=2, dont_inherit=True)
        source = written(tree).encode()
        return cls(source, zlib.compress(source, 9), marshal.dumps(code))


@dataclass(frozen=True, slots=True)
class Program:
    """A guest program: what is loaded at the start, and after the fork; empty where a mode has no such files."""

    first: Part
    rest: Part

    @property
    def source(self) -> bytes:
        return b"\n".join((self.first.source, self.rest.source))

    def framed(self, request: bytes, hidden: bytes) -> bytes:
        """Standard input of the guest, up to the key; the completion's process may not hold what is hidden."""
        parts = [self.first, self.rest] if self.rest.source else [self.first]
        sizes = [size for part in parts for size in (len(part.compiled), len(part.packed))]
        header = " ".join([importlib.util.MAGIC_NUMBER.hex(), *map(str, sizes), str(len(request))])
        blocks = [header.encode().ljust(_HEADER_BYTES), parts[0].compiled, parts[0].packed, request]
        blocks += [block for part in parts[1:] for block in (part.compiled, part.packed)]
        return b"".join((*blocks, hidden))


def program_of(mode: Mode) -> Program:
    return _compiled(*_sources_of(mode))


@dataclass(frozen=True, slots=True)
class CellProgram:
    """A guest program as a worker loads it: another name means another text, and the payload is sent once."""

    name: str
    payload: bytes


@cache
def cell_program_of(mode: Mode) -> CellProgram:
    """The program that judges in a mode, for the cells of a worker: all of it is loaded before the first is made."""
    texts = _text_of(mode.files), _text_of((*mode.judge_files, *mode.cell_files))
    parts = [_part_of(text) for text in texts if text]
    name = "program-" + hashlib.sha256(b"".join((mode.judge.encode(), *texts))).hexdigest()[:8]
    content = [importlib.util.MAGIC_NUMBER.hex().encode().ljust(_HEADER_BYTES)]
    content += [block for part in parts for block in (part.compiled, part.packed)]
    body = b"".join(content)
    sizes = [str(len(block)) for block in content[1:]]
    header = " ".join(["program", name, str(len(body)), mode.judge, *sizes]).encode()
    return CellProgram(name, header.ljust(_WORKER_HEADER_BYTES) + body)


@cache
def _part_of(text: bytes) -> Part:
    # The part with the text of modules, which is compiled once for an interpreter and a version of this package.
    name = hashlib.sha256(
        b"".join((importlib.util.MAGIC_NUMBER, files("sandrl.judge").joinpath("program.py").read_bytes(), text))
    ).hexdigest()
    try:
        cache = private_directory(Settings.from_environment(os.environ).cache_dir, variable="SANDRL_CACHE_DIR")
        path = private_directory(cache / "programs") / name
    except SandrlError:
        return Part.of(text)
    with suppress(OSError):
        kept = read_regular(path, _MOST_KEPT_BYTES, follow=False)
        if hashlib.sha256(kept[_DIGEST_BYTES:]).digest() == kept[:_DIGEST_BYTES]:
            return Part(*marshal.loads(kept[_DIGEST_BYTES:]))
    part = Part.of(text)
    content = marshal.dumps((part.source, part.packed, part.compiled))
    with suppress(OSError):
        write_whole(path, hashlib.sha256(content).digest() + content)
    return part


def begin_worker(words: bytes) -> bytes:
    """The first block of a worker's standard input: its program, and what it reads first."""
    return worker_program().framed(words, b"")


def refusal_of_worker(output: bytes) -> str:
    """Why a worker could make no cell, by its output; empty if it could."""
    word, _, why = output.partition(b"\n")[0].partition(b" ")
    if word == b"ready" and not why:
        return ""
    try:
        return bytes.fromhex(why.decode("ascii")).decode("utf-8", "replace")
    except ValueError:
        return "the worker ended: " + output[-200:].decode("utf-8", "replace")


@cache
def worker_program() -> Program:
    first = b"\n".join((_text_of(_WORKER_FILES), b"work()()\n"))
    watchdog = _text_of(("processes", "watchdog"), "sandrl.runtime.guest")
    return Program(_part_of(first), _part_of(watchdog + b"\n" + _text_of(("router",))))


@cache
def _compiled(first: bytes, rest: bytes) -> Program:
    # By the texts: several modes have the same.
    return Program(_part_of(first), _part_of(rest))


@cache
def _sources_of(mode: Mode) -> tuple[bytes, bytes]:
    call = f"main(request_size, {mode.judge})\n".encode()
    return _text_of(mode.files) + b"\n" + call, _text_of(mode.judge_files)


def _text_of(names: Iterable[str], package: str = "sandrl.judge.guest") -> bytes:
    return b"\n".join(files(package).joinpath(f"{name}.py").read_bytes() for name in names)


class _WithoutAnnotations(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        # No expression holds an annotation.
        return node if isinstance(node, ast.expr) else super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def shipped(source: bytes) -> ast.Module:
    """The syntax tree of modules that become one: without annotations, and without imports for them or of one another.

    It has line numbers alone, which makes a seventh less of what is loaded.
    """
    # Such an import may stand at the start of a text only.
    tree = parse(source.replace(b"from __future__ import annotations\n", b""))
    tree.body = [_WithoutAnnotations().visit(node) for node in tree.body if not _is_of_modules(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        if "lineno" in node._attributes:
            node.end_lineno, node.col_offset, node.end_col_offset = node.lineno, 0, 0  # type: ignore[attr-defined]
    return tree


def _is_of_modules(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    name = str(node.module) if isinstance(node, ast.ImportFrom) else ""
    return name.startswith("sandrl.") or name in ("typing", "collections.abc")


def digest(modes: Iterable[Mode]) -> str:
    """Twelve hex digits that change whenever the programs of some modes do."""
    # Of the texts: to compile a program takes a third of a second, and most runs need few of them.
    return hashlib.sha256(b"".join(text for mode in modes for text in _sources_of(mode))).hexdigest()[:12]
