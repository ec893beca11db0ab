"""Which names a check binds: what the quick look decides is what the syntax tree says."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.rewards.guest.checks import binds

BINDING = [
    "x = 1",
    "x += 1",
    "x >>= 1",
    "x <<= 1",
    "x **= 2",
    "assert (x := 1) == 1",
    "for x in y: pass",
    "assert [x for x in y] == y",
    "with y as x: pass",
    "import x",
    "import y as x",
    "from y import x",
    "def x(): pass",
    "async def x(): pass",
    "class x: pass",
    "try: y\nexcept E as x: pass",
    "del x",
    "match y:\n    case x: pass",
    "match y:\n    case [*x]: pass",
    "(x) = 1",
    "x, y = 1, 2",
    "x\\\n=\\\n1",
]
PLAIN = ["assert x == 1", "assert x != y", "assert 1 <= x >= 2", "assert f(x)", "x", "assert x is not y, 'x is y'"]


@pytest.mark.parametrize("text", BINDING)
def test_a_text_that_binds_a_name(text: str) -> None:
    assert binds(text, "x")
    assert binds(f"assert y == 1\n{text}", "x")
    assert not binds(text, "other")


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_that_binds_none(text: str) -> None:
    assert not binds(text, "x")


@given(
    st.lists(st.sampled_from(["x", "y", "=", "==", "<=", ">>", "<<", ">", " ", "\n", "1", "(", ")", ":"]), max_size=9)
)
def test_no_text_that_stores_a_name_is_taken_for_one_that_does_not(words: list[str]) -> None:
    text = "".join(words)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    annotated = {node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and node.value is None
                 and isinstance(node.target, ast.Name)}  # fmt: skip
    for name in stored - annotated:
        assert binds(text, name)
