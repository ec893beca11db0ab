"""Whether installed packages can be imported: their metadata is there even if a file or a shared library is missing.

Packages are imported in a process of their own, one after the other as a trainer would, because an import can take
minutes, patch other packages, or end the process. If it ends or takes too long, the package at hand is to blame, and
another process continues with the next.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import PurePosixPath
from typing import TypeAlias

DEADLINE_SECONDS = 120.0
"""How long the import of one package may take; a large one takes 20 s on an idle machine."""

# In this order: the others need torch, and Unsloth patches those that are imported after it.
_FIRST = ("torch", "unsloth", "transformers", "trl")
# What these packages import when it is used, and trainers use.
_PARTS = {"transformers": ("AutoModelForCausalLM",), "trl": ("GRPOTrainer",)}
# Not to be asked: networks, prices, statistics, files of a working directory.
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHON_DOTENV_DISABLED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "UNSLOTH_DISABLE_STATISTICS": "1",
}
# A package, its modules, and the parts of the last one.
_Task: TypeAlias = tuple[str, list[str], tuple[str, ...]]
_NO_MODULES = frozenset({"test", "tests", "docs", "examples", "benchmarks", "scripts"})
_PROGRAM = """
import importlib, json, os, sys
descriptor, todo, sys.path[:] = int(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
from sandrl.extras import last_line
os.write(descriptor, b"\\n")
for package, modules, parts in todo:
    problem = ""
    try:
        for name in modules:
            module = importlib.import_module(name)
        for part in parts:
            getattr(module, part)
    except BaseException as error:
        problem = last_line(error)
    os.write(descriptor, json.dumps([package, problem]).encode() + b"\\n")
os._exit(0)
"""


def broken_packages(packages: Iterable[str]) -> dict[str, str]:
    """The installed packages that cannot be imported, each with the reason in a line.

    Args:
        packages: Their names, as pip has them; those that are not installed are left out.
    """
    names = dict.fromkeys(packages)
    ordered = sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    todo: list[_Task] = [(name, modules, _PARTS.get(name, ())) for name in ordered if (modules := modules_of(name))]
    broken: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="sandrl-doctor-") as folder:
        while todo:
            answers, end, has_begun = _import(todo, folder)
            if not has_begun:
                break  # the interpreter itself does not start, which is no package's fault; other rows say why
            broken |= {name: problem for name, problem in answers.items() if problem}
            todo = todo[len(answers) :]
            if todo:
                broken[todo.pop(0)[0]] = end
    return broken


def modules_of(package: str) -> list[str]:
    """The modules by which an installed package is imported, by its list of files; empty if that names none."""
    try:
        files = metadata.distribution(package).files or ()
    except metadata.PackageNotFoundError:
        return []
    found: dict[str, int] = {}
    for file in files:
        path = PurePosixPath(file)
        if path.name == "__init__.py":
            found[".".join(path.parent.parts)] = len(path.parts) - 1
        elif len(path.parts) == 1 and path.suffix == ".py":
            found[path.stem] = 1
    public = {
        name: depth
        for name, depth in found.items()
        if name.replace(".", "").replace("_", "").isalnum() and not name.startswith("_") and name not in _NO_MODULES
    }
    own = package.replace("-", "_")
    if not public:
        # A checkout that was installed to be edited: its modules are elsewhere.
        return [own] if importlib.util.find_spec(own) is not None else []
    least = min(public.values())
    names = [name for name, depth in public.items() if depth == least]
    return [own] if own in names else names[:1]


def _import(todo: list[_Task], folder: str) -> tuple[Mapping[str, str], str, bool]:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as answers:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(writing), json.dumps(todo), json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, **_QUIET, "UNSLOTH_COMPILE_LOCATION": folder, "TMPDIR": folder},
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        try:
            read, begun = b"", time.monotonic()
            while True:
                left = begun + DEADLINE_SECONDS - time.monotonic()
                if not select.select([answers], [], [], max(left, 0))[0]:
                    end = f"its import did not end within {DEADLINE_SECONDS:.0f} s"
                    break
                block = answers.read(65536)
                if not block:
                    code = process.wait()
                    end = f"its import ended the process with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
                    break
                read, begun = read + block, time.monotonic()
        finally:
            process.kill()
            process.wait()
    return dict(json.loads(line) for line in read.splitlines() if line), end, bool(read)
