"""`sandrl eval --set`: models × problem sets × seeds, each an evaluation of its own, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sandrl.evaluation.leaderboard import _mean, _ranks
from sandrl.problems import load_problems
from sandrl.runs import RunReader
from sandrl.runs.statistics import Estimate
from tests.cli.conftest import SANDRL, Run
from tests.support.chat_server import ChatServer, TextAnswer

PROMPTS = {problem.prompt: problem for problem in load_problems("toy").problems.values()}
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))


def right_unless(period: int) -> TextAnswer:
    """An answer that is right unless the period divides its seed."""

    def answer(body: dict[str, Any]) -> str:
        problem = PROMPTS[body["messages"][-1]["content"]]
        return f"<answer>\n{problem.reference if body['seed'] % period else 'print(0)'}</answer>"

    return answer


def written(folder: Path, text: str) -> Path:
    path = folder / "set.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_set_evaluates_every_combination_once_and_the_others_if_one_fails(sandrl: Run, tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=60)
    weak, strong = right_unless(2), right_unless(5)

    def after_the_other(answer: TextAnswer) -> TextAnswer:
        first = threading.Lock()

        def say(body: dict[str, Any]) -> Any:
            if first.acquire(blocking=False):
                # No endpoint waits until the evaluations of another one are over.
                both.wait()
            return answer(body)

        return say

    with ChatServer(after_the_other(weak)) as one, ChatServer(after_the_other(strong)) as two:
        file = written(
            tmp_path,
            f"""
            samples = 2
            seeds = [0, 1]
            [models."weak|x_1"]
            base_url = "{one.base_url}"
            [models.strong]
            base_url = "{two.base_url}"
            temperature = 0.5
            [models.gone]
            base_url = "{NOBODY}"
            model = "gone"
            request_retries = 0
            [problem_sets.toy]
            [problem_sets."two & 50%"]
            problems = "toy"
            num_problems = 2
            """,
        )
        done = sandrl("eval", "--set", file, "--json")
        assert done.returncode == 3, done.stderr
        assert "4 of 12 evaluations failed: gone on toy, seed 0; gone on toy, seed 1;" in done.stderr
        document = json.loads(done.stdout)
        asked = [len(server.requests) for server in (one, two)]
        assert asked == [2 * (5 + 2) * 2] * 2
        assert {body["temperature"] for body in two.requests} == {0.5}
        again = sandrl("eval", "--set", file, "--table", "latex")
        assert [len(server.requests) for server in (one, two)] == asked, "what is complete is not asked again"
    members = {(each["model"], each["problem_set"], each["seed"]): each for each in document["members"]}
    assert [each["is_complete"] for key, each in members.items() if key[0] != "gone"] == [True] * 8
    assert "cannot be reached" in members["gone", "toy", 1]["error"]
    board = {each["model"]: each for each in document["leaderboard"]}
    cell = board["strong"]["problem_sets"]["toy"]
    rows = [
        row for seed in (0, 1) for row in RunReader(Path(members["strong", "toy", seed]["path"])).trajectories().rows
    ]
    assert len(rows) == cell["completions"] == 20
    assert cell["pass_at_k"]["1"] == pytest.approx(sum(row.is_pass for row in rows) / 20)
    assert cell["pass_at_k_intervals"]["1"]["problems"] == 5
    assert (board["strong"]["rank"], board["gone"]["rank"]) == (1, None)
    assert r"weak\textbar{}x\_1" in again.stdout
    assert r"two \& 50\%" in again.stdout
    markdown = sandrl("eval", "--set", file, "--table", "markdown").stdout.splitlines()
    assert [line.count("|") - line.count(r"\|") for line in markdown[:5]] == [6] * 5
    assert r"weak\|x\_1" in "".join(markdown)
    first, second = (members[name, "toy", 0]["run_id"] for name in ("weak|x_1", "strong"))
    assert "on 5 common problems" in sandrl("runs", "compare", first, second).stdout


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_stopped_set_goes_on_where_it_was(
    sandrl: Run, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    slow = threading.Event()

    def answer(body: dict[str, Any]) -> str:
        if body["seed"] >= 7:
            slow.wait(30)
        return right_unless(3)(body)  # type: ignore[return-value]

    with ChatServer(answer) as server:
        file = written(
            tmp_path, f'samples = 2\nseeds = [0, 1]\nbase_url = "{server.base_url}"\n[models.m]\n[problem_sets.toy]\n'
        )
        words = [*SANDRL, "eval", "--set", str(file), "--batch-size", "4"]
        started = subprocess.Popen(words, cwd=tmp_path, env=dict(os.environ), stderr=subprocess.PIPE, text=True)
        answers = tmp_path / "runs" / "set.m.toy.s0" / "answers.jsonl"
        until = time.monotonic() + 60
        while not (answers.exists() and answers.read_bytes().count(b"\n") >= 7) and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(started.pid, number)
        _, said = started.communicate(timeout=60)
        assert started.returncode == exit_code, said
        kept = {row.index for row in RunReader(answers.parent).answers().rows if row.text is not None}
        assert kept >= set(range(7))
        slow.set()
        asked = len(server.requests)
        done = sandrl("eval", "--set", file)
        assert done.returncode == 0, done.stderr
        assert "m on toy, seed 0: resumed" in done.stderr
        assert len(server.requests) == asked + 20 - len(kept)
    # A process that is killed stops no sandbox.
    assert sandrl("sandboxes", "cleanup", "--orphans", "--yes").returncode == 0
    for seed in (0, 1):
        found = RunReader(tmp_path / "runs" / f"set.m.toy.s{seed}").trajectories().rows
        assert sorted(row.index for row in found) == list(range(10))
        assert all(row.reward is not None for row in found)


def test_a_gate_fails_the_set_each_time_and_changed_options_are_refused(sandrl: Run, tmp_path: Path) -> None:
    with ChatServer(right_unless(2)) as server:
        text = f'name = "gated"\nsamples = 2\nbase_url = "{server.base_url}"\n[models.m]\n[problem_sets.toy]\n'
        file = written(tmp_path, f"fail_under = 0.9\n{text}")
        for word in ("complete", "complete already"):
            done = sandrl(
                "eval", "--set", file, "--notify", f"echo $SANDRL_RUN_ID $SANDRL_EXIT_CODE >> {tmp_path}/told"
            )
            assert done.returncode == 1, done.stderr
            assert "the pass rate is 0.5, and fail_under requires 0.9" in done.stderr, word
            assert "50.0% [" in done.stdout
        assert (tmp_path / "told").read_text() == "gated.m.toy.s0 1\n", "nothing was run the second time"
        changed = sandrl("eval", "--set", written(tmp_path, f"temperature = 0.3\n{text}"))
    assert changed.returncode == 2
    assert "has 1.0, not 0.3" in changed.stderr
    assert "give the set another `name`" in changed.stderr


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("temprature = 1\n", (), "set.toml: field 'temprature': there is no such key; did you mean 'temperature'?"),
        ("[models.a]\nmax_token = 5\n", (), "field 'models.a.max_token': there is no such key; did you mean"),
        ('[problem_sets."x y"]\nnum_problem = 5\n', (), "field 'problem_sets.\"x y\".num_problem': there is no such"),
        ("[models.a]\nseed = 5\n", (), "field 'models.a.seed': does not belong here; `seeds` lists the seeds"),
        ('model = "x"\n', (), "field 'model': does not belong here; each model has a table [models.NAME]"),
        ('[models.a]\ntemperature = "warm"\n', (), "field 'models.a.temperature': temperature:"),
        ("seeds = [1, 1]\n", (), "field 'seeds': must be a list of different whole numbers"),
        ("seeds = 3\n", (), "field 'seeds': must be a list of different whole numbers"),
        ("[modells.a]\n", (), "field 'modells': there is no such key; did you mean 'models'?"),
        ("[models.a\n", (), "set.toml: is not TOML"),
        ("", ("--seed", "3"), "--seed cannot be used with a set"),
        ("", ("--resume", "x"), "--resume cannot be used with --set"),
    ],
)
def test_a_mistake_in_a_set_is_named_with_file_table_and_key(
    sandrl: Run, tmp_path: Path, text: str, words: tuple[str, ...], said: str
) -> None:
    tables = ("models", "problem_sets")
    rest = "".join(f"[{name}.z]\n" for name in tables if f"[{name}." not in text and not text.startswith("[models.a\n"))
    done = sandrl("eval", "--set", written(tmp_path, text + rest), *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


def test_models_whose_intervals_overlap_share_a_rank() -> None:
    values = {
        "a": Estimate(0.60, 0.52, 0.68, 50), "b": Estimate(0.55, 0.47, 0.63, 50), "c": Estimate(0.30, 0.22, 0.50, 50),
        "d": None,
    }  # fmt: skip
    assert _ranks(values) == {"a": (1, True), "b": (1, True), "c": (2, False)}
    mean = _mean([values["a"], values["c"]])
    assert mean is not None
    # The bounds of a mean of two independent shares: their distances are added as squares.
    assert (mean.value, mean.low, mean.high) == pytest.approx(
        (0.45, 0.45 - 0.08 / 2**0.5, 0.45 + (0.08**2 + 0.2**2) ** 0.5 / 2)
    )
    assert _mean([values["a"], None]) is None
