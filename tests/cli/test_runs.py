"""`sandrl runs` on run directories that the real writer wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydantic import JsonValue

from sandrl.config.eval import EvalConfig
from sandrl.config.layers import resolve
from sandrl.runs import (
    CheckRow,
    MessageRow,
    MetricsRow,
    RunOutcome,
    RunReader,
    RunWriter,
    ToolCallRow,
    TrajectoryRow,
)
from sandrl.runs.rows import BranchRow
from sandrl.settings import load_settings
from tests.cli.conftest import SANDRL, Run
from tests.support.sample_runs import failed, trajectory, write_run
from tests.support.terminal import Shown, run_on_terminal

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe"


pytestmark = pytest.mark.usefixtures("own_index")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [
        trajectory(0, step=0),
        failed(1, step=0, stdout="printed by it"),
        failed(2, "timeout", step=1, task_id="loop", code="while True: pass"),
        trajectory(3, step=1, reward=None, status="infrastructure", failures=("the sandbox was lost",)),
    ]
    return write_run(tmp_path / "runs", rows)


def test_runs_are_listed_newest_first_with_state_and_numbers(sandrl: Run, tmp_path: Path, run: Path) -> None:
    write_run(tmp_path / "elsewhere", [trajectory()], name="cut", outcome=RunOutcome.INTERRUPTED)
    write_run(tmp_path / "elsewhere", [trajectory(), failed(1)], name="dead", outcome=None)
    listed = json.loads(sandrl("runs", "ls", "--json").stdout)["runs"]
    assert [(each["run_id"], each["state"], each["completions"]) for each in listed] == [
        ("dead", "killed", 2), ("cut", "interrupted", 1), ("sample", "finished", 4),
    ]  # fmt: skip
    assert (listed[0]["reward_mean"], listed[0]["pass_rate"]) == (0.5, 0.5), "counted from what was saved"
    titles, *lines = sandrl("runs", "ls").stdout.splitlines()
    assert titles.split() == [
        "run", "model", "problems", "pass@1", "state", "command", "age", "n", "reward", "size"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == ["dead", "cut", "sample"]


def evaluated(
    folder: Path, name: str, rows: list[TrajectoryRow], model: str = "Qwen/Qwen2.5-Coder", **options: JsonValue
) -> Path:
    path = write_run(folder, rows, name=name, command="eval")
    config = RunReader(path).config
    chosen = resolve(EvalConfig, {"model": model, "problems": "mbpp:test", **options}).document()
    (path / "config.json").write_bytes(config.model_copy(update={"options": chosen}).to_json())
    return path


def unscorable(index: int, **fields: str) -> TrajectoryRow:
    return trajectory(index, reward=None, status="infrastructure", passed=0, total=0, **fields)


def test_the_list_tells_runs_apart_and_shows_what_was_unscorable(sandrl: Run, tmp_path: Path) -> None:
    rows = [trajectory(0, task_id="a"), failed(1, task_id="b"), unscorable(2, task_id="c")]
    evaluated(tmp_path / "runs", "lossy", rows)
    evaluated(tmp_path / "runs", "whole", rows[:2], model="/models/long/way/to/step-60")
    listed = {each["run_id"]: each for each in json.loads(sandrl("runs", "ls", "--json").stdout)["runs"]}
    assert [(each["model"], each["source"], each["unscorable"]) for each in listed.values()] == [
        ("/models/long/way/to/step-60", "mbpp:test", 0),
        ("Qwen/Qwen2.5-Coder", "mbpp:test", 1),
    ]
    # scipy.stats.binomtest(1, 2).proportion_ci(method="wilson")
    wilson = {"value": 0.5, "low": pytest.approx(0.0945312057), "high": pytest.approx(0.9054687943)}
    assert listed["lossy"]["pass_at_1"] == wilson
    wide = on_terminal(140).text
    for shown in (sandrl("runs", "ls").stdout, *(on_terminal(width).plain for width in (140, 80, 44))):
        assert "finished, 1 unscorable" in shown
        assert "50.0% [9.5%, 90.5%]" in shown
        assert "step-60" in shown
        assert "mbpp:test" in shown
    assert "\x1b[32mfinished, 1" not in wide, "it is not green"
    assert "\x1b[32mfinished" in wide


def on_terminal(width: int, *words: str) -> Shown:
    return run_on_terminal([*SANDRL, *(words or ("runs", "ls"))], columns=width)


def test_a_comparison_says_what_changed_and_whether_it_may_be_chance(sandrl: Run, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(20)]
    first = [(trajectory if at < 8 else failed)(at, task_id=name) for at, name in enumerate(names)]
    second = [(trajectory if 1 <= at < 18 else failed)(at, task_id=name) for at, name in enumerate(names)]
    evaluated(tmp_path / "runs", "before", first)
    evaluated(tmp_path / "runs", "after", [*second[:19], unscorable(19, task_id="t19")], temperature=0.2)
    done = sandrl("runs", "compare", "before", "after", "--limit", "2")
    # scipy.stats.binomtest(10, 11).pvalue and scipy.stats.ttest_rel(...).confidence_interval() of the 19 pairs
    for part in (
        "before  Qwen/Qwen2.5-Coder", " options differ", "temperature  1.0 (default)  0.2",
        "after compared with before, on 19 common problems:",
        "pass@1: 42.1% to 89.5%, difference +47.4 points [+17.9, +76.9]", "p = 0.012 (exact McNemar test)",
        "10 gained: t8, t9 and 8 more", "1 lost: t0", "1 left out, without a scored completion in one of the runs: t19",
    ):  # fmt: skip
        assert part in done.stdout
    assert "after: 1 completion without a reward left out (infrastructure: 1)" in done.stderr
    assert "sandrl eval --resume after" in done.stderr
    document = json.loads(sandrl("runs", "compare", "before", "after", "--json").stdout)
    [compared] = document["comparisons"]
    assert compared["difference"]["p_value"] == pytest.approx(0.01171875)
    assert sorted(each["task_id"] for each in compared["gained"]) == sorted(names[8:18])
    assert [setting["name"] for setting in document["configuration"]] == ["temperature"]
    narrow = on_terminal(44, "runs", "compare", "before", "after", "--limit", "3").plain
    assert max(len(line) for line in narrow.splitlines()) <= 44
    assert "+47.4" in narrow


def test_a_comparison_that_means_nothing_is_refused(sandrl: Run, tmp_path: Path) -> None:
    evaluated(tmp_path / "runs", "one", [trajectory(0, task_id="a")])
    evaluated(tmp_path / "runs", "two", [trajectory(0, task_id="b")])
    for words, part in (
        (("one",), "at least two runs"),
        (("one", "two"), "they have no problem in common: mbpp:test (a, …) and mbpp:test (b, …)"),
        (("one", "three"), "there is no run 'three'"),
        (("one@4", "one"), "no completions of step 4"),
    ):
        done = sandrl("runs", "compare", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert part in done.stderr


def test_a_run_that_cannot_be_read_hides_no_other(sandrl: Run, run: Path, tmp_path: Path) -> None:
    bad = write_run(tmp_path / "runs", [trajectory()], name="bad")
    (bad / "config.json").write_text("{")
    listed = json.loads(sandrl("runs", "ls", "--json").stdout)["runs"]
    assert {each["run_id"]: each["state"] for each in listed} == {"bad": "damaged", "sample": "finished"}


def test_a_last_row_that_only_evaluates_is_no_step_and_hides_no_reward(sandrl: Run, tmp_path: Path) -> None:
    rows = [trajectory(0, step=0), trajectory(1, step=1, held_out=True)]
    path = write_run(tmp_path / "runs", rows, command="grpo", outcome=None)
    with RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-2", name=path.name, resume=True) as writer:
        writer.append(MetricsRow(job_id="job-2", step=0, metrics={"reward/mean": 0.25, "completions": 1}))
        writer.append(MetricsRow(job_id="job-2", step=1, metrics={"held_out/pass@1": 0.75}))
    [listed] = json.loads(sandrl("runs", "ls", "--json").stdout)["runs"]
    assert (listed["reward_mean"], listed["steps"]) == (0.25, 1)
    assert sandrl("metrics").stdout.startswith(f"Run {path.name}: grpo, killed, 1 step\n")


def test_without_runs_the_list_says_how_to_make_one(sandrl: Run) -> None:
    done = sandrl("runs", "ls")
    assert (done.returncode, done.stdout) == (0, "")
    assert "create one, for example with sandrl reward" in done.stderr


@pytest.mark.parametrize(
    ("words", "indexes"),
    [
        ((), [0, 1, 2, 3]),
        (("--failed",), [1, 2, 3]),
        (("--status", "timeout", "--status", "infrastructure"), [2, 3]),
        (("--task", "loop"), [2]),
        (("--step", "0"), [0, 1]),
        (("--grep", "PRINTED by"), [1]),
        (("--grep", "was lost"), [3]),
        (("--failed", "--limit", "1"), [1]),
        (("--step", "9"), []),
    ],
)
def test_trajectories_are_chosen_by_what_they_are(
    sandrl: Run, run: Path, words: tuple[str, ...], indexes: list[int]
) -> None:
    document = json.loads(sandrl("runs", "show", *words, "--json").stdout)
    assert [row["index"] for row in document["trajectories"]] == indexes
    assert document["n"] == len(indexes)


@pytest.mark.parametrize(("seed", "count"), [(3, 1), (0, 0)])
def test_a_hash_seed_that_is_not_the_usual_one_is_shown(tmp_path: Path, sandrl: Run, seed: int, count: int) -> None:
    with RunWriter.create(tmp_path / "runs", command="reward", job_id="job-1", options={"hash_seed": seed}) as writer:
        writer.append(MetricsRow(job_id="job-1", step=0, metrics={"completions": 1}))
    assert sandrl("runs", "show").stdout.count("Hash seed: 3\n") == count


def test_a_trajectory_shows_text_code_output_verdict_and_what_it_took(sandrl: Run, run: Path) -> None:
    shown = sandrl("runs", "show").stdout
    for part in (
        "Run sample: reward, finished, 4 completions, 1 unscorable", "pass@1: ",
        "── 0: inc (c0)  PASS", "def f0(x):", "0.25 s", "sandbox s-1",
        "verdict: why 1", "printed by it", "timeout, reward 0, 0/1 checks", "sandbox failed: the sandbox was lost",
        "ERROR  infrastructure, reward null",
    ):  # fmt: skip
        assert part in shown
    assert "\x1b" not in shown


def test_an_episode_shows_messages_tool_calls_and_results(sandrl: Run, tmp_path: Path) -> None:
    written = json.dumps({"path": "a.py", "code": "x = 1\nprint(x)"})
    messages = (
        MessageRow(role="user", content="Add one."),
        MessageRow(role="assistant", tool_calls=(ToolCallRow(name="execute_code", arguments="print(1)"),)),
        MessageRow(role="tool", name="execute_code", content="1"),
        MessageRow(role="assistant", tool_calls=(ToolCallRow(name="write_file", arguments=written),)),
    )
    said = MessageRow(role="assistant", content="Because.", is_given=True)
    branch = BranchRow(messages=(MessageRow(role="user", content="Why?"), said))
    episode: dict[str, JsonValue] = {"agent_output": "bye\x1b[2J"}
    row = trajectory(messages=messages, branches=(branch,), tokens={"completion": 42}, episode=episode)
    write_run(tmp_path / "runs", [row])
    shown = sandrl("runs", "show").stdout
    assert "branch 1, another conversation of the agent:\nuser:\nWhy?\nassistant (said elsewhere):\nBecause.\n" in shown
    assert "output of the agent:\nbye\\x1b[2J\n" in shown
    assert json.loads(sandrl("runs", "show", "--json", "--grep", "why?").stdout)["n"] == 1
    assert shown.index("user:\nAdd one.") < shown.index("assistant calls execute_code:\nprint(1)")
    assert "tool execute_code:\n1\n" in shown
    assert "assistant calls write_file, path:\na.py\nassistant calls write_file:\nx = 1\nprint(x)\n" in shown
    assert "completion 42 tokens" in shown


def test_each_check_has_its_verdict_and_neighbours_of_the_same_kind_share_a_line(sandrl: Run, tmp_path: Path) -> None:
    statuses = ["passed"] * 3 + ["failed", "timeout"] + ["not_reached"] * 995
    details = {3: "AssertionError: 3 is not 4", 4: "it ran longer than 1 s"}
    checks = tuple(CheckRow(status=status, detail=details.get(n, "")) for n, status in enumerate(statuses))
    write_run(tmp_path / "runs", [failed(0, passed=3, total=1000, checks=checks)])
    shown = sandrl("runs", "show").stdout
    block = (
        "checks:\n   1–3 passed\n   4 failed: AssertionError: 3 is not 4\n   5 timed out: it ran longer than 1 s\n"
        "   6–1000 not reached\nverdict: why 0\n"
    )
    assert block in shown
    assert len(json.loads(sandrl("runs", "show", "--json").stdout)["trajectories"][0]["checks"]) == 1000
    assert json.loads(sandrl("runs", "show", "--json", "--grep", "3 is not").stdout)["n"] == 1


def test_a_run_that_kept_nothing_of_single_checks_is_shown_without_them(sandrl: Run, run: Path) -> None:
    file = run / "trajectories.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace(',"checks":[]', ""), encoding="utf-8")
    assert '"checks"' not in file.read_text(encoding="utf-8")
    done = sandrl("runs", "show")
    assert (done.returncode, done.stdout.count("── ")) == (0, 4)
    assert "checks:" not in done.stdout


def test_what_a_model_wrote_cannot_reach_the_terminal(tmp_path: Path) -> None:
    row = failed(
        0, id=HOSTILE, task_id=HOSTILE, detail=HOSTILE, stdout=HOSTILE, code=HOSTILE, completion=HOSTILE,
        failures=(HOSTILE,), tokens={HOSTILE: 1}, checks=(CheckRow(status="failed", detail=HOSTILE),),
        messages=(MessageRow(role=HOSTILE, content=HOSTILE),),
    )  # fmt: skip
    write_run(tmp_path / "runs", [row])
    shown = run_on_terminal([*SANDRL, "runs", "show"], environment={"PAGER": "cat"})
    assert shown.exit_code == 0
    assert "\x1b]0;" not in shown.text
    assert "\x1b[2J" not in shown.text
    assert "\u202e" not in shown.text
    assert "\\x1b]0;owned" in shown.plain


def test_a_huge_line_is_cut_unless_all_of_it_is_asked_for(sandrl: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [failed(0, stdout="x" * 1_000_000)])
    assert "998000 more characters" in sandrl("runs", "show").stdout
    assert sandrl("runs", "show", "--full").stdout.count("x") > 1_000_000


def test_on_a_terminal_the_pager_shows_it_and_leaving_it_early_is_fine(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [trajectory(n) for n in range(200)])
    shown = run_on_terminal(
        [*SANDRL, "runs", "show"], environment={"PAGER": "less"}, typed=[(lambda text: "f0(x)" in text, b"q")]
    )
    assert shown.exit_code == 0
    assert "c0" in shown.plain
    assert "c199" not in shown.plain


def test_an_unfinished_last_row_is_said(sandrl: Run, run: Path) -> None:
    file = run / "trajectories.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    done = sandrl("runs", "show", "--json")
    assert (done.returncode, json.loads(done.stdout)["n"]) == (0, 3)
    assert "skipped the last row: it is incomplete" in done.stderr


def test_a_pattern_that_is_none_is_refused(sandrl: Run, run: Path) -> None:
    done = sandrl("runs", "show", "--grep", "(")
    assert done.returncode == 2
    assert "is not a valid regular expression" in done.stderr


def test_a_report_is_one_file_and_its_place_is_printed(sandrl: Run, run: Path, tmp_path: Path) -> None:
    done = sandrl("runs", "report")
    assert (done.returncode, done.stdout) == (0, f"{run / 'report.html'}\n")
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sandrl("runs", "report", "sample", "--out", "elsewhere.html").stdout == f"{tmp_path / 'elsewhere.html'}\n"
    refused = sandrl("runs", "report", "--out", "no/such/place.html")
    assert (refused.returncode, "select another file with --out" in refused.stderr) == (3, True)


def test_removing_asks_and_without_a_terminal_names_the_command(sandrl: Run, run: Path) -> None:
    done = sandrl("runs", "rm", "sample")
    assert done.returncode == 2
    assert "sandrl runs rm sample --yes" in done.stderr
    assert run.exists()
    assert sandrl("runs", "rm", "sample", "--yes").returncode == 0
    assert not run.exists()
    assert list((load_settings().state_dir / "runs").iterdir()) == []


@pytest.mark.parametrize(("answer", "is_there"), [(b"\n", True), (b"y\n", False)])
def test_on_a_terminal_the_answer_decides_and_no_is_the_default(run: Path, answer: bytes, is_there: bool) -> None:
    shown = run_on_terminal([*SANDRL, "runs", "rm", "sample"], typed=[(lambda text: "[y/N]" in text, answer)])
    assert shown.exit_code == 0
    assert run.exists() is is_there


def test_a_run_whose_job_is_alive_is_not_removed(sandrl: Run, run: Path, tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-2", name="alive") as writer:
        assert json.loads(sandrl("runs", "ls", "--json").stdout)["runs"][0]["state"] == "running"
        done = sandrl("runs", "rm", "sample", "alive", "--yes")
    assert done.returncode == 2
    assert "the job of alive is running" in done.stderr
    assert run.exists()
    assert writer.path.exists()


def test_what_is_no_run_is_never_removed(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "config.json").write_text('{"name": "another program\'s"}')
    done = sandrl("runs", "rm", "./precious", "--yes")
    assert done.returncode == 2
    assert os.listdir(tmp_path / "precious") == ["config.json"]


def test_a_run_is_found_by_its_path_or_the_beginning_of_a_name_or_a_job(sandrl: Run, run: Path, tmp_path: Path) -> None:
    for name in ("sam", str(run), "0123abcd", "sample"):
        assert json.loads(sandrl("runs", "show", name, "--json").stdout)["run_id"] == "sample"
    for name in ("grpo-1", "grpo-2"):
        write_run(tmp_path / "runs", [trajectory()], name=name)
    several = sandrl("runs", "show", "grpo")
    assert (several.returncode, "grpo-1" in several.stderr and "grpo-2" in several.stderr) == (2, True)
    unknown = sandrl("metrics", "zzz")
    assert (unknown.returncode, "sandrl runs ls" in unknown.stderr) == (2, True)


def test_a_completion_is_found_by_the_beginning_of_its_id(sandrl: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [trajectory(0, id="alpha-1"), trajectory(1, id="beta-2"), trajectory(2, id="beta-3")])
    shown = json.loads(sandrl("runs", "show", "--id", "alp", "--json").stdout)
    assert [row["id"] for row in shown["trajectories"]] == ["alpha-1"]
    several, unknown = (sandrl("runs", "show", "--id", each) for each in ("beta", "gamma"))
    assert (several.returncode, "beta-2, beta-3" in several.stderr) == (2, True)
    assert (unknown.returncode, "sandrl runs show" in unknown.stderr) == (2, True)
