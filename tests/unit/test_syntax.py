"""Python's compiler in a process with threads."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.syntax import compiling, parse


@pytest.mark.parametrize("text", ["def", "x = " + "(" * 5000 + ")" * 5000, "\x00", "x = " + "-" * 100_000 + "1"])
def test_every_refusal_of_the_compiler_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError) as error:
        parse(text)
    assert str(error.value)


def test_threads_can_build_syntax_trees_at_once() -> None:
    text = "\n".join(f"def f{number}(a, b=[1, 2, {{3: 4}}]): return a + b * {number}" for number in range(100))

    def work(_: int) -> int:
        tree = parse(text)
        with compiling():
            compile(tree, "<test>", "exec")
        return len(tree.body)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(work, range(32))) == {100}


@pytest.mark.filterwarnings("error")
def test_warnings_about_a_text_are_nobodys() -> None:
    assert isinstance(parse("x = '\\d' is 1"), ast.Module)
