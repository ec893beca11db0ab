"""What terminals show, as text."""

from __future__ import annotations

import pytest

from sandrl.trials.terminal import readable


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (b"plain\r\nlines\r\n", "plain\nlines\n"),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07and \x1b(Bmore\x1b[?2004l", "red and more"),
        (b"10%\r20%\r100%\r\nnext", "100%\nnext"),
        (b"longer\rab", "abnger"),
        (b"abc\b\bX\n", "aX\n"),
        (b"tab\tstays\x00\x07", "tab\tstays"),
        ("ünï \U0001f600".encode(), "ünï \U0001f600"),
        (b"\xff", "\ufffd"),
        (b"\x1b]0;never ended", "0;never ended"),
    ],
)
def test_output_is_what_a_reader_sees(shown: bytes, text: str) -> None:
    assert readable(shown) == text
