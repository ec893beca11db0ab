"""The guest: files of `sandrl.rewards.guest` as one program, sent to where the completion is.

The design decision: a program holds the files that its way of judging needs and no others, because loading it is part
of what every judged completion costs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sandrl.rewards.verdict import Trust

_HEADER_BYTES = 64
_FRAME = ("descriptors", "clock", "child", "supervisor")

BOOTSTRAP = """\
import gc, marshal, posix, _frozen_importlib_external
gc.disable()
def take(size):
    data = b""
    while len(data) < size:
        block = posix.read(0, size - len(data))
        if not block: raise EOFError
        data += block
    return data
magic, compiled, source, request = take(64).split()
compiled, source = take(int(compiled)), take(int(source))
same = magic.decode() == _frozen_importlib_external.MAGIC_NUMBER.hex()
code = marshal.loads(compiled) if same else compile(__import__("zlib").decompress(source), "<judge>", "exec")
del compiled, source
exec(code, {"__name__": "judge", "request_size": int(request)})
"""
"""Runs in the sandbox, and takes everything else from standard input. The compiled form of the program serves where the
image's interpreter has the same bytecode as this one. No garbage is collected while the program is loaded."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of judging.

    Attributes:
        trust: How far its verdicts can be believed.
        files: What its program is made of, in the order in which names are needed.
        judge: The function that judges.
    """

    trust: Trust
    files: tuple[str, ...]
    judge: str


TESTS = Mode(Trust.IN_PROCESS, (*_FRAME, "in_process", "report"), "judge_tests")
EXIT_STATUS = Mode(Trust.EXIT_STATUS, (*_FRAME, "script", "report"), "judge_script")
CASES = Mode(Trust.ISOLATED, (*_FRAME, "script", "tolerance", "cases", "report"), "judge_cases")
ISOLATED_TESTS = Mode(
    Trust.ISOLATED,
    (
        *_FRAME,
        "values",
        "channel",
        "mirrors",
        "operations",
        "crossing",
        "loops",
        "objects",
        "server",
        "client",
        "checks",
        "isolated",
        "report",
    ),
    "judge_isolated",
)


@dataclass(frozen=True, slots=True)
class Program:
    """A guest program.

    Attributes:
        source: Its text.
        packed: Its text, compressed with zlib.
        compiled: What the interpreter that runs this makes of it.
    """

    source: bytes
    packed: bytes
    compiled: bytes

    def before(self, request_size: int) -> bytes:
        """What standard input begins with; `request_size` bytes of request follow."""
        magic = importlib.util.MAGIC_NUMBER.hex()
        header = f"{magic} {len(self.compiled)} {len(self.packed)} {request_size}"
        return b"".join((header.encode().ljust(_HEADER_BYTES), self.compiled, self.packed))


@cache
def program_of(mode: Mode) -> Program:
    """The program that judges in a mode."""
    package = files("sandrl.rewards.guest")
    texts = [package.joinpath(f"{name}.py").read_bytes() for name in mode.files]
    source = b"\n".join([*texts, f"main(request_size, {mode.judge})\n".encode()])
    # With line numbers: where there are none, `traceback` fails on an exception that passed through the judge.
    code = compile(source, "<judge>", "exec", optimize=2, dont_inherit=True)
    return Program(source, zlib.compress(source, 9), marshal.dumps(code))


def digest(modes: Iterable[Mode]) -> str:
    """Twelve hex digits that change whenever the programs of some modes do."""
    return hashlib.sha256(b"".join(program_of(mode).source for mode in modes)).hexdigest()[:12]
