"""A module that a worker has loaded is imported in a cell as in an interpreter that has just been started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.judge.guest import preloads
from sandrl.judge.program import Part

# Standard library alone; not all are preloaded, and some of those import others that are.
NAMES = (
    *preloads.PRELOADED,
    *("os.path", "json.decoder", "random", "statistics", "dataclasses", "inspect", "threading", "asyncio", "types"),
    *("concurrent.futures", "unittest", "decimal", "fractions", "queue", "logging", "pathlib", "ast", "textwrap"),
)
LOAD = Part.of(Path(preloads.__file__).read_bytes()).source.decode() + "\nPreloads().load()\n"
REPORT = """
import sys
before = set(sys.modules)
__import__({name!r})
module = sys.modules[{name!r}]
print(sorted(set(sys.modules) - before))
print(module.__name__, getattr(module, "__file__", None), type(module.__loader__).__name__)
print(module.__spec__.name, module.__spec__.origin, type(module.__spec__.loader).__name__)
"""


def run(program: str, folder: Path) -> str:
    """What a program prints in an interpreter as those of sandboxes are."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, timeout=60).stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_import_leaves_what_it_leaves_elsewhere(name: str, tmp_path: Path) -> None:
    report = REPORT.format(name=name)
    assert run(LOAD + report, tmp_path) == run(report, tmp_path)


def test_nothing_is_in_sight_before_it_is_imported(tmp_path: Path) -> None:
    loaded = "import sys\nbefore = set(sys.modules)\n" + LOAD + "print(set(sys.modules) == before)\n"
    assert run(loaded, tmp_path) == "True\n"
    for name in ("re", "heapq", "json"):
        unbound = f"\ntry: {name}\nexcept NameError: print('not bound')\n"
        assert run(LOAD + unbound, tmp_path) == "not bound\n"


@pytest.mark.parametrize("path", ["heapq.py", "re/__init__.py", "json.py"])
def test_a_file_of_the_same_name_goes_before_the_standard_library(path: str, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("own = True\n")
    name = path.partition(".")[0].partition("/")[0]
    use = f"\nsys.path.insert(0, {str(tmp_path)!r})\nimport {name}\nprint({name}.own)\n"
    assert run(LOAD + use, tmp_path) == "True\n"
    after = f"\nsys.path.append({str(tmp_path)!r})\nimport {name}\nprint(hasattr({name}, 'own'))\n"
    assert run(LOAD + after, tmp_path) == "False\n"


def test_a_module_can_be_loaded_again_and_replaced(tmp_path: Path) -> None:
    program = """
import re, importlib, sys
importlib.reload(re)
assert re.match("a", "a")
del sys.modules["re"]
import re as again
assert again.match("a", "a")
sys.modules["heapq"] = None
try:
    import heapq
except ImportError:
    print("as it should")
"""
    assert run(LOAD + program, tmp_path) == "as it should\n"
