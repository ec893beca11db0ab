"""The guest's files, as the programs that are sent into sandboxes."""

from __future__ import annotations

import ast
import marshal
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from sandrl.judge import program
from sandrl.judge.program import CASES, ISOLATED_TESTS, TESTS, Mode, Part, digest, program_of

EVERY_MODE = [mode for mode in vars(program).values() if isinstance(mode, Mode)]
MODES = pytest.mark.parametrize("mode", EVERY_MODE, ids=lambda mode: f"{mode.judge}-{mode.trust}")


def bound_names(tree: ast.Module) -> list[str]:
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            names += [each.id for each in found if isinstance(each.ctx, ast.Store)]
    return names


@MODES
def test_no_file_of_a_program_takes_a_name_of_another(mode: Mode) -> None:
    texts = [
        files("sandrl.judge.guest").joinpath(f"{name}.py").read_text() for name in (*mode.files, *mode.judge_files)
    ]
    counts = Counter(name for text in texts for name in bound_names(ast.parse(text)))
    assert not {name for name, count in counts.items() if count > 1}
    assert mode.judge in counts


@MODES
def test_a_program_is_python_3_8(mode: Mode) -> None:
    ast.parse(program_of(mode).source, feature_version=(3, 8))


def test_a_program_holds_nothing_that_its_mode_does_not_need() -> None:
    assert b"def judge_cases" not in program_of(ISOLATED_TESTS).source
    assert b"class StandIn" not in program_of(TESTS).source


def test_a_digest_is_that_of_the_programs() -> None:
    assert digest([TESTS, CASES]) == digest([TESTS, CASES])
    assert len({digest([TESTS]), digest([CASES]), digest([TESTS, CASES])}) == 3


def test_the_completions_process_never_loads_the_code_of_the_judges_end() -> None:
    program = program_of(ISOLATED_TESTS)
    assert b"class CompletionProcess(" in program.rest.source
    assert b"class Checks" in program.rest.source
    assert b"class CompletionProcess(" not in program.first.source


def test_annotations_and_imports_of_tests_are_left_out_of_what_is_compiled() -> None:
    source = b'''from __future__ import annotations

from typing import TYPE_CHECKING

from sandrl.judge.guest.values import not_there

if TYPE_CHECKING:
    from typing import Any

x: Any = 1
y: int

def f(a: Any, *b: int, c: int = 2, **d: int) -> Any:
    """Says what it does."""
    z: int
    return a, b, c, d
'''
    names: dict[str, Any] = {}
    exec(marshal.loads(Part.of(source).compiled), names)
    assert (names["x"], names["f"](0, 1, d=3)) == (1, (0, (1,), 2, {"d": 3}))
    assert names["f"].__annotations__ == {}
    assert "not_there" not in names
    assert "__annotations__" not in names
    assert names["f"].__doc__ is None
    assert names["f"].__code__.co_firstlineno == 12


def test_a_program_is_compiled_once_for_all_processes_and_again_where_what_was_kept_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path))
    text = b"x = 1\n"
    first = program._part_of.__wrapped__(text)
    (kept,) = (tmp_path / "programs").iterdir()
    compiling = Counter[bytes]()
    real = Part.of

    def count(source: bytes) -> Part:
        compiling[source] += 1
        return real(source)

    monkeypatch.setattr(Part, "of", count)
    assert program._part_of.__wrapped__(text) == first
    assert not compiling
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    assert program._part_of.__wrapped__(text) == first
    assert compiling == {text: 1}
    tmp_path.chmod(0o777)  # others could write to it
    assert program._part_of.__wrapped__(text) == first
    assert compiling == {text: 2}
