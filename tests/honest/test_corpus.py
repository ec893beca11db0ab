"""The judge pays what plain Python would pay: right solutions of every style, and no wrong one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sandrl.sandboxes import Job
from tests.honest.comparison import agreement, compare
from tests.honest.entries import BadEntry, Entry, load_entries

KNOWN = frozenset(
    line for line in (Path(__file__).parent / "known.txt").read_text().splitlines() if not line.startswith("#")
)
SAMPLE = 60
# Its entries take seconds and hundreds of megabytes each.
SLOW_STYLE = "large_values"


def plain_entries() -> list[Entry]:
    """Those that need no package; `tests/integrations/test_library_values.py` has the others."""
    return [entry for entry in load_entries() if not entry.problem.packages]


def test_the_judge_agrees_with_plain_python_on_a_sample(job: Job) -> None:
    entries = [entry for entry in plain_entries() if entry.id not in KNOWN and entry.style != SLOW_STYLE]
    comparisons = compare(random.Random(12).sample(entries, SAMPLE), job)
    assert [f"{found.entry.id}: {found.plain_failure or 'passes'}" for found in comparisons if not found.is_sound] == []
    assert [str(found) for found in comparisons if not found.agrees] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_judge_agrees_with_plain_python_on_the_whole_corpus(job: Job) -> None:
    comparisons = compare(plain_entries(), job)
    assert [f"{found.entry.id}: {found.plain_failure or 'passes'}" for found in comparisons if not found.is_sound] == []
    assert [str(found) for found in comparisons if found.entry.is_wrong and found.result.reward] == []
    assert agreement(comparisons) >= 0.995, [str(found) for found in comparisons if not found.agrees]


def test_the_corpus_is_large_and_has_wrong_solutions_too() -> None:
    entries = load_entries()
    assert sum(not entry.is_wrong for entry in entries) >= 500
    assert sum(entry.is_wrong for entry in entries) >= 60


def test_known_disagreements_are_entries() -> None:
    assert {entry.id for entry in load_entries()} >= KNOWN


TABLE = """\
# === double problem entry_point=double
def double(n):

    return 2 * n
# --- asserts
assert double(1) == 2
# === nothing problem wrong
# --- code
pass
# --- test
assert nothing
# === quoted of=double,nothing
# --- completion
{{name}}:
> {{code}}
# === own of=double
# --- code
double = int
# --- wrong
double = 0
# --- test
assert double(0) == 0
"""


def test_a_layout_is_an_entry_for_each_problem_it_names(tmp_path: Path) -> None:
    (tmp_path / "style.py").write_text(TABLE)
    first, second, own, wrong = load_entries(tmp_path)
    assert (first.id, first.text) == ("style/quoted-double", "double:\n> def double(n):\n>\n>     return 2 * n\n")
    assert (second.id, second.is_wrong, second.text) == ("style/quoted-nothing", True, "main:\n> pass\n")
    assert first.problem.tests == ("assert double(1) == 2",)
    assert (own.id, own.code, own.problem.tests) == ("style/own", "double = int\n", ("assert double(0) == 0\n",))
    assert (wrong.id, wrong.code, wrong.is_wrong) == ("style/own-wrong", "double = 0\n", True)
    assert wrong.problem.tests == own.problem.tests


CODE = "# --- code\nx = 1\n"
GOOD = f"{CODE}# --- test\nassert x\n"
PROBLEM = f"# === p problem\n{GOOD}"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "x = 1\n"),
        (1, f"# === a\nx = 1\n{GOOD}"),
        (1, f"# === a\n{CODE}"),
        (1, "# === a\n# --- asserts\nassert x\n"),
        (2, "# === a\n# --- codes\nx = 1\n"),
        (1, f"# === a wrongly\n{GOOD}"),
        (1, f"# === a\n{CODE}{GOOD}"),
        (1, f"# === a\n{GOOD}# --- stdout\n1\n"),
        (1, f"# === a of=b\n{GOOD}"),
        (1, f"# === a\n{GOOD}# --- completion\n{{{{usage}}}}\n"),
        (6, f"# === a\n{GOOD}# === a\n{GOOD}"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, line: int, text: str) -> None:
    (tmp_path / "style.py").write_text(text)
    with pytest.raises(BadEntry, match=rf"^style\.py:{line}: "):
        load_entries(tmp_path)


@pytest.mark.parametrize(
    ("place", "shared", "text"),
    [
        ("style.py:6: there are two problems p", "", f"{PROBLEM}{PROBLEM}# === a of=p\n"),
        ("style.py:1: there are two problems p", PROBLEM, f"{PROBLEM}# === a of=p\n"),
        ("style.py:1: no entry uses p", "", f"{PROBLEM}# === a\n{GOOD}"),
        ("problems.py:1: no entry uses p", PROBLEM, f"# === a\n{GOOD}"),
        ("style.py:1: a problem is not of", "", f"# === p problem of=q\n{GOOD}# === a of=p\n"),
        ("style.py:1: unknown words", "", f"# === p problem to=q\n{GOOD}# === a of=p\n"),
        ("style.py:6: a word is repeated", "", f"{PROBLEM}# === a of=p of=p\n"),
        ("style.py:6: no completion uses assert", "", f"{PROBLEM}# --- assert\nassert x > 1\n# === a of=p\n"),
        ("problems.py:6: no completion uses assert", f"{PROBLEM}# --- assert\nassert x > 1\n", "# === a of=p\n"),
        ("style.py:4: no stdout follows", "", f"# === a\n{CODE}# --- stdin\n1\n# --- stdin\n2\n# --- stdout\n3\n"),
        ("style.py:6: no stdout follows", "", f"# === a\n{GOOD}# --- stdin\n1\n"),
        ("style.py:6: '# --- test ' begins", "", f"# === a\n{GOOD}# --- test \nassert x > 1\n"),
        ("style.py:6: '# ===b' begins", "", f"# === a\n{GOOD}# ===b\n{GOOD}"),
        ("style.py:1: '# --- code' begins", "", f"{CODE}# === a\n{GOOD}"),
    ],
)
def test_a_mistake_that_would_drop_an_entry_or_a_check_is_refused(
    tmp_path: Path, place: str, shared: str, text: str
) -> None:
    (tmp_path / "problems.py").write_text(shared)
    (tmp_path / "style.py").write_text(text)
    with pytest.raises(BadEntry) as refused:
        load_entries(tmp_path)
    assert str(refused.value).startswith(place)
