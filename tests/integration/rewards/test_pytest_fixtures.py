"""Built-in fixtures of pytest: what they change reaches the completion, is ended after the test, and stays isolated."""

from __future__ import annotations

from typing import Any

import pytest

import sandrl
from sandrl.events.results import Trust
from sandrl.sandboxes import Job

TEST = """\
import os
import random
import pytest
from solution import greet, ask, home, roll, save

@pytest.fixture
def name():
    return "Ann"

def test_out(capsys, name):
    greet(name)
    first = capsys.readouterr()
    assert first.out == "hello Ann\\n"
    assert first.err == ""
    greet("Bob")
    assert capsys.readouterr().out.strip() == "hello Bob"

def test_ask(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda prompt="": "7")
    assert ask() == 7

def test_stdin(monkeypatch):
    import io
    monkeypatch.setattr("sys.stdin", io.StringIO("9\\n"))
    assert ask() == 9

def test_env(monkeypatch):
    monkeypatch.setenv("HOME_OF", "x")
    assert home() == "x"
    monkeypatch.delenv("HOME_OF")
    assert home() is None

def test_roll(monkeypatch):
    monkeypatch.setattr(random, "randint", lambda a, b: 4)
    assert roll() == 8

def test_roll_by_name(monkeypatch):
    monkeypatch.setattr("random.randint", lambda a, b: 5)
    assert roll() == 10

def test_restored():
    assert random.randint(1, 1) == 1
    assert roll() in range(2, 13)

def test_chdir(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    save("a.txt")
    assert (tmp_path / "a.txt").read_text() == "x"

def test_tmpdir(tmpdir):
    place = tmpdir.join("b.txt")
    save(str(place))
    assert place.read() == "x"

def test_item(monkeypatch):
    settings = {"a": 1}
    monkeypatch.setitem(settings, "a", 2)
    assert roll() + settings["a"] >= 4
"""
SOLUTION = """\
import os, random, sys
def greet(name):
    print("hello", name)
def ask():
    return int(input("? "))
def home():
    return os.environ.get("HOME_OF")
def roll():
    return 2 * random.randint(1, 6)
def save(path):
    with open(path, "w") as f:
        f.write("x")
"""
WRONG = SOLUTION.replace("hello", "bye").replace("2 *", "0 *").replace('"w"', '"r"').replace("HOME_OF", "OTHER")
OUTPUT = """\
from solution import greet
def test_out(capsys):
    greet("Ann")
    assert capsys.readouterr().out == "hello Ann\\n"
"""
LIAR = """\
import io, sys
class Liar(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
"""
ATTACKS = {
    "method": "def greet(name):\n    sys.stdout.getvalue = lambda: Liar('x')\n",
    "written": "def greet(name):\n    sys.stdout.write(Liar('x'))\n",
    "class": "def greet(name):\n    type(sys.stdout).getvalue = lambda self: Liar('x')\n",
    "attributes": "def greet(name):\n    sys.stdout.__dict__['getvalue'] = lambda: Liar('x')\n",
    "stream": "class Stream(io.StringIO):\n    def getvalue(self): return Liar('x')\n"
    "def greet(name):\n    sys.stdout = Stream()\n",
}


def rows(test: str, solution: str) -> list[dict[str, Any]]:
    """A row of KodCode with a solution, and one without."""
    row = {"question": "?", "test": test}
    return [{**row, "question_id": "known", "solution": solution}, {**row, "question_id": "unknown", "solution": None}]


def test_fixtures_change_what_the_completion_uses(job: Job) -> None:
    completions = [
        {"task_id": task_id, "id": f"{task_id} {reward}", "code": code}
        for task_id in ("known", "unknown")
        for code, reward in ((SOLUTION, 1.0), (WRONG, 0.0))
    ]
    results = sandrl.score(completions, rows(TEST, SOLUTION), job=job).results
    assert [(each.id, each.detail) for each in results if not each.id.endswith(f" {each.reward}")] == []
    failed = [[check.status.value for check in each.checks] for each in results if not each.reward]
    assert [statuses.count("failed") for statuses in failed] == [8, 8]
    assert {each.trust for each in results if each.task_id == "known"} == {Trust.ISOLATED}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_completion_chooses_what_capsys_has_captured(job: Job, name: str) -> None:
    completions = [{"task_id": task_id, "code": LIAR + ATTACKS[name]} for task_id in ("known", "unknown")]
    results = sandrl.score(completions, rows(OUTPUT, SOLUTION), job=job).results
    assert [(each.reward, each.trust) for each in results] == [(0.0, Trust.ISOLATED)] * 2
