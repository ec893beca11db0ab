"""Python's compiler in a process with threads."""

from __future__ import annotations

import ast
import gc
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from sandrl.syntax import compiling, parse, written


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


def test_threads_of_other_libraries_that_build_trees_make_no_text_invalid() -> None:
    text = "\n".join(f"def f{number}(a, b=[1, 2, {{3: 4}}]): return a + b * {number}" for number in range(100))
    is_over = threading.Event()

    def build() -> None:
        while not is_over.is_set():
            with suppress(SystemError):
                ast.parse(text)

    threads = [threading.Thread(target=build) for _ in range(2)]
    # Threads take turns where garbage is collected while a tree is built.
    collected: list[str] = []
    gc.callbacks.append(lambda phase, _: collected.append(phase))
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        assert {len(parse(text).body) for _ in range(200)} == {100}
    finally:
        is_over.set()
        gc.callbacks.pop()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("error")
def test_warnings_about_a_text_are_nobodys() -> None:
    assert isinstance(parse("x = '\\d' is 1"), ast.Module)


@pytest.mark.parametrize(
    "text",
    [
        """f"{a['b']}/{'c'!r:>{n}}{{}}" """,
        """f"{f'{n:03d}' + 'x'}|{a['b']:<4}|" """,
        "f'{n}{n:>5}'",
        """[f"{k or '.'}" for k in ('', a['b'])]""",
    ],
)
def test_a_tree_is_written_without_quotes_of_an_f_string_inside_it(text: str) -> None:
    source = written(parse(text))
    names = {"a": {"b": "d{}"}, "n": 7}
    assert eval(source, dict(names)) == eval(text, dict(names))
    # As older Pythons read it: an f-string ends where its quotes are for the first time.
    strings = re.findall(r"""f(['"])(.*?)\1""", source)
    assert all("'" not in inner and '"' not in inner for _, inner in strings)
