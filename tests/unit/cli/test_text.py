"""Foreign text is shown, never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.cli.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  blanks", "two lines and blanks"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\x9bb", "a\\x9bb"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half \ud83d", "half \\ud83d"),
        ("größe 数 é", "größe 数 é"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(), max_size=200), st.integers(1, 50))
def test_any_text_is_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    line = visible(text, limit)
    assert line.isprintable()
    assert len(line) <= limit


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert visible("x" * 10_000_000, 5) == "xxxx…"
