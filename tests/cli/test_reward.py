"""`sandrl reward` as a user runs it, piped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import PROBLEM, RIGHT, SANDRL, WRONG, Run

DEMO_SUMMARY = """\
  slow-sum: reward=1.0 [PASS] OK
  string-ops: reward=1.0 [PASS] OK
  delayed-error: reward=0.0 [FAIL] \
"""


def test_the_demo_prints_its_results_in_order_and_nothing_else_on_standard_output(sandrl: Run) -> None:
    done = sandrl("reward")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert done.stdout.startswith(DEMO_SUMMARY)
    assert len(lines) == 7
    assert lines[-2:] == ["Total reward: 3.0/5", "Pass rate: 3/5 (60%)"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_verbose_prints_each_result_on_standard_error_as_it_arrives(sandrl: Run, words: tuple[str, ...]) -> None:
    done = sandrl("reward", "--verbose", *words)
    found = re.findall(r"^  \[(\d)/5\] ([a-z-]+): (PASS|FAIL)$", done.stderr, re.MULTILINE)
    assert [number for number, _, _ in found] == ["1", "2", "3", "4", "5"]
    assert {(name, word) for _, name, word in found} == {
        ("slow-sum", "PASS"),
        ("string-ops", "PASS"),
        ("delayed-error", "FAIL"),
        ("syntax-error", "FAIL"),
        ("slow-list", "PASS"),
    }
    assert found[4][1] == "slow-list", "the slowest comes last"
    assert done.stdout.startswith("{" if words else DEMO_SUMMARY)


def test_quiet_prints_the_result_and_nothing_else_but_keeps_warnings_and_errors(sandrl: Run, problems: Path) -> None:
    done = sandrl("reward", "--quiet")
    assert (done.stdout, done.stderr) == ("Total reward: 3.0/5\nPass rate: 3/5 (60%)\n", "")
    as_json = sandrl("reward", "-q", "--json")
    assert (len(json.loads(as_json.stdout)["results"]), as_json.stderr) == (5, "")
    bad = "not JSON\n" + RIGHT
    skipped = sandrl(
        "reward", "-", "--problems", problems, "-q", "--skip-bad-rows", "--fail-under", "1", stdin=bad + WRONG
    )
    assert "warning: " in skipped.stderr
    assert "error: " in skipped.stderr
    both = sandrl("reward", "-q", "-v")
    assert (both.returncode, both.stdout) == (2, "")


def test_many_results_are_a_summary_that_names_the_command_for_all(sandrl: Run, problems: Path) -> None:
    words = ("reward", "-", "--problems", problems)
    done = sandrl(*words, "--run-name", "many", stdin=RIGHT * 40 + WRONG * 25)
    lines = done.stdout.splitlines()
    assert sum("[FAIL]" in line for line in lines) == 20
    assert not any("[PASS]" in line for line in lines)
    assert "  … and 5 more that did not pass and 40 that passed: sandrl runs show many" in lines
    assert len(lines) + len(done.stderr.splitlines()) < 40
    everything = sandrl(*words, "-v", stdin=RIGHT * 40 + WRONG * 25)
    assert len(re.findall(r"reward=\d\.\d \[", everything.stdout)) == 65
    assert len(re.findall(r"^  \[\d+/65\] ", everything.stderr, re.MULTILINE)) == 65


def test_json_is_one_document_on_standard_output(sandrl: Run) -> None:
    done = sandrl("reward", "--json", "--job-id", "job-0a1b2c3d")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(document) == {"job_id", "hash_seed", "results", "summary"}
    assert (document["job_id"], document["hash_seed"]) == ("job-0a1b2c3d", 0)
    demo = ["slow-sum", "string-ops", "delayed-error", "syntax-error", "slow-list"]
    assert [result["task_id"] for result in document["results"]] == demo
    for result in document["results"]:
        assert set(result) == {
            *("id", "task_id", "reward", "status", "trust", "passed", "total"),
            *("duration_seconds", "sandbox_id", "isolation", "detail", "checks"),
        }
        assert len(result["checks"]) in (0, result["total"])
        assert sum(check["status"] == "passed" for check in result["checks"]) == result["passed"]
    failure = {"status": "failed", "detail": "IndexError: list index out of range (line 7)", "line": 1}
    assert document["results"][2]["checks"] == [failure, failure]
    assert document["summary"].pop("sandbox_seconds") > 0
    # There if this is the first run of these problems, which calibrates them.
    document["summary"].pop("counts", None)
    assert document["summary"] == {
        "cost": None,
        "currency": None,
        "n": 5,
        "scored": 5,
        "unscorable": 0,
        "total_reward": 3.0,
        "pass_rate": 0.6,
        "pass_at_k": {"1": 0.6},
        "pass_at_k_intervals": {
            "1": {
                "value": 0.6,
                "low": pytest.approx(0.2307, abs=1e-4),
                "high": pytest.approx(0.8824, abs=1e-4),
                "problems": 5,
            }
        },
        "isolation": {"cell": 5},
    }


def test_results_are_appended_as_they_arrive_and_nothing_is_lost(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text('{"id": "earlier"}\n{"id": "cut of', encoding="utf-8")
    done = sandrl("reward", "-", "--problems", problems, "--out", out, stdin=RIGHT + WRONG)
    assert done.returncode == 0, done.stderr
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ['{"id": "earlier"}', '{"id": "cut of']
    assert sorted(json.loads(line)["reward"] for line in lines[2:]) == [0.0, 1.0]


def test_the_run_directory_is_named(sandrl: Run, tmp_path: Path, problems: Path) -> None:
    done = sandrl("reward", "-", "--problems", problems, "--runs-dir", tmp_path / "r", "--run-name", "n1", stdin=RIGHT)
    assert f"Run: {tmp_path / 'r' / 'n1'}" in done.stderr
    assert (tmp_path / "r" / "n1" / "trajectories.jsonl").exists()
    again = sandrl("reward", "-", "--problems", problems, "--runs-dir", tmp_path / "r", "--run-name", "n1", stdin=RIGHT)
    assert (again.returncode, again.stdout) == (2, "")
    assert "already exists in" in again.stderr


@pytest.mark.parametrize(("gate", "exit_code"), [("0.5", 0), ("0.51", 1)])
def test_a_gate_decides_the_exit_code(sandrl: Run, problems: Path, gate: str, exit_code: int) -> None:
    done = sandrl("reward", "-", "--problems", problems, "--fail-under", gate, stdin=RIGHT + WRONG)
    assert done.returncode == exit_code
    assert "Pass rate: 1/2 (50%)" in done.stdout


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (b'{"task_id": "inc", "code": "x"}\n{"task_id": ', r"c\.jsonl:2: broken JSON"),
        (b'{"task_id": "nope", "code": "x"}\n', r"c\.jsonl:1: field 'task_id': there is no problem 'nope'"),
        (b'{"code": "x"}\n', r"c\.jsonl:1: field 'task_id'"),
        (b'{"task_id": "inc"}\n', r"c\.jsonl:1: field 'completion'"),
        (b'{"task_id": "inc", "code": "\xff"}\n', r"c\.jsonl:1: invalid UTF-8"),
        (b"", r"c\.jsonl: the file is empty"),
    ],
)
def test_bad_input_is_one_line_and_no_sandbox(
    sandrl: Run, problems: Path, tmp_path: Path, rows: bytes, message: str
) -> None:
    (tmp_path / "c.jsonl").write_bytes(rows)
    state = tmp_path / "state"
    done = sandrl("reward", "c.jsonl", "--problems", problems, "--out", "out.jsonl", SANDRL_STATE_DIR=str(state))
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert re.match(f"sandrl: error: {message}", first)
    assert len(rest) <= 1
    assert not (state / "runtime").exists(), "no runtime was even looked for"
    assert not (tmp_path / "out.jsonl").exists()


def test_problems_are_checked_too(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"task_id": "a", "prompt": "x"}\n', encoding="utf-8")
    done = sandrl("reward", "-", "--problems", "p.jsonl", stdin=RIGHT)
    assert done.returncode == 2
    assert "p.jsonl:1: the problem 'a' has no check" in done.stderr


def test_bad_rows_can_be_skipped_and_are_counted(sandrl: Run, problems: Path) -> None:
    rows = RIGHT + "{broken\n" + '{"task_id": "nope", "code": "x"}\n'
    done = sandrl("reward", "-", "--problems", problems, "--skip-bad-rows", stdin=rows)
    assert done.returncode == 0, done.stderr
    assert "2 rows of completions skipped; the first: -:2: broken JSON" in done.stderr
    assert "Pass rate: 1/1 (100%)" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.jsonl"], "missing.jsonl: no such file"),
        (["--timeout", "0"], "--timeout must be at least 0.01 seconds and at most a day, not 0"),
        (["--timeout", "100000"], "--timeout must be at least 0.01 seconds and at most a day, not 100000"),
        (["--timeout", "inf"], "--timeout must be a finite number, not inf"),
        (["--check-timeout", "-1"], "--check-timeout must be at least 0.01 seconds and at most a day, not -1"),
        (["--problems", "mine.jsonl"], "--problems needs completions"),
        (["--concurrency", "0"], "--concurrency"),
        (["--fail-under", "2"], "--fail-under"),
        (["--extract", "magic"], "--extract"),
        (["--retries", "-1"], "--retries"),
        (["--packages", "numpy,,x"], "--packages must not be empty"),
        (["--prelude", "pass"], "--prelude needs completions"),
        (["--reward", "beauty"], "--reward is 'beauty', which is not one of binary, fraction"),
        (["--cache", "here", "--no-cache"], "--cache: has no effect without caching; leave one of them out"),
        (["--cache", "/proc/nowhere"], "/proc/nowhere: cannot be created"),
        (["--job-id", "a b"], "--job-id 'a b' is not a valid tag"),
        (["--image", "host:2.7"], "this machine has no Python 2.7 for sandboxes, only host:3"),
        (["--packages", "no-such-package"], "--packages: the package index has no package 'no-such-package'"),
        (["--out", "/proc/nowhere/x"], "/proc/nowhere/x: cannot be written"),
    ],
)
def test_wrong_usage_says_what_is_wrong(sandrl: Run, words: list[str], message: str) -> None:
    done = sandrl("reward", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where(sandrl: Run) -> None:
    assert "Traceback" in sandrl("--debug", "reward", "missing.jsonl").stderr


def test_the_remote_service_without_credentials_is_exit_code_3(sandrl: Run) -> None:
    done = sandrl("reward", "--runtime", "remote")
    assert done.returncode == 3
    assert "hint: " in done.stderr


def test_what_a_model_writes_cannot_reach_the_terminal(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(PROBLEM.replace("inc", "in\\u001b[2Jc"), encoding="utf-8")
    evil = {"task_id": "in\x1b[2Jc", "code": "raise ValueError('\\x1b]0;owned\\x07')"}
    done = sandrl("reward", "-", "--problems", "p.jsonl", stdin=json.dumps(evil))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b]0;owned\\x07" in done.stdout
    as_json = sandrl("reward", "-", "--problems", "p.jsonl", "--json", stdin=json.dumps(evil))
    assert "\x1b" not in as_json.stdout
    assert "\x1b]0;owned\x07" in json.loads(as_json.stdout)["results"][0]["detail"]


def test_lone_surrogates_lose_no_result(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    row = '{"task_id": "inc", "completion": "<answer>x = \'\\ud83d\'</answer>"}\n'
    done = sandrl("reward", "-", "--problems", problems, "--out", "out.jsonl", stdin=row, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.jsonl").read_text())["status"] == "syntax_error"


def test_all_rows_without_code_warn_and_name_the_option(sandrl: Run, problems: Path) -> None:
    done = sandrl("reward", "-", "--problems", problems, stdin='{"task_id": "inc", "completion": "no idea"}\n')
    assert done.returncode == 0
    assert "no code was found in any completion with --extract auto" in done.stderr
    assert "reward=0.0 [FAIL] no_code" in done.stdout


def test_samples_of_a_problem_give_pass_at_k(sandrl: Run, problems: Path) -> None:
    done = sandrl("reward", "-", "--problems", problems, stdin=(RIGHT + WRONG * 4))
    assert "pass@1: 20.0% [1.0%, 86.7%]  pass@5: 100.0% [20.7%, 100.0%]" in done.stdout


def _wait_until_caught(pid: int, number: int) -> None:
    """Returns once the process has a handler for a signal that Python has none for by itself."""
    while True:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.05)


def test_a_signal_before_there_is_work_ends_at_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*SANDRL, "reward", "-"], stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    _wait_until_caught(process.pid, signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    os.close(reading)
    os.close(writing)
    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr


def test_a_cache_serves_the_next_run_and_the_summary_says_so(sandrl: Run, problems: Path) -> None:
    words = ("reward", "-", "--problems", problems, "--cache", "verdicts")
    first, second = (sandrl(*words, stdin=RIGHT + WRONG + RIGHT) for _ in range(2))
    assert "Cache hits: 1/3 (33%)" in first.stdout
    assert "Cache hits: 3/3 (100%)" in second.stdout
    assert first.stdout.splitlines()[:4] == second.stdout.splitlines()[:4]
    counts = json.loads(sandrl(*words, "--json", stdin=RIGHT + WRONG + RIGHT).stdout)["summary"]["counts"]
    assert (counts["cache_hits"], counts["executed"], counts["executions"]) == (3, 0, 0)
    assert "Cache hits" not in sandrl(*words[:-2], "--no-cache", stdin=RIGHT + RIGHT).stdout


def test_where_isolation_is_required_its_lack_is_no_reward(sandrl: Run, tmp_path: Path) -> None:
    check = "import logging\nlogging.getLogger().setLevel(10)\nassert f() == 10"
    (tmp_path / "p.jsonl").write_text(json.dumps({"task_id": "id", "prompt": "", "tests": [check]}), encoding="utf-8")
    row = json.dumps({"task_id": "id", "code": "import logging\ndef f():\n    return logging.getLogger().level\n"})
    plain = sandrl("reward", "-", "--problems", "p.jsonl", "--json", stdin=row)
    required = sandrl("reward", "-", "--problems", "p.jsonl", "--json", "--require-isolated", stdin=row)
    [one], [other] = (json.loads(done.stdout)["results"] for done in (plain, required))
    assert (one["status"], one["trust"], one["reward"]) == ("passed", "in_process", 1.0)
    assert (other["status"], other["reward"]) == ("not_isolated", None)
    assert required.returncode == 0
    words = ("reward", "-", "--problems", "p.jsonl", "--require-isolated")
    assert sandrl(*words, stdin=row).stdout.endswith("Not isolated: id\n")
    gated = sandrl(*words, "--fail-under", "0", stdin=row)
    assert (gated.returncode, "no completion was scored" in gated.stderr) == (1, True)


def test_components_are_reported_beside_the_reward(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(
        '{"task_id": "inc", "prompt": "", "tests": ["assert f(1) == 2", "assert f(2) == 3"]}', encoding="utf-8"
    )
    row = json.dumps({"task_id": "inc", "completion": "<answer>def f(x): return 2</answer>"})
    words = ("reward", "-", "--problems", "p.jsonl", "--reward", "fraction", "--format-reward", "0.1")
    [result] = json.loads(sandrl(*words, "--json", stdin=row).stdout)["results"]
    assert (result["reward"], result["components"]) == (0.5, {"format": 0.1})
    shown = sandrl(*words, stdin=row).stdout
    assert "Components, on average: format +0.100 (not in the reward)" in shown
    assert "reward=0.5 [FAIL]" in shown


REWARDS = """\
def short(verdict, completion):
    return (1.0 if verdict.is_pass else -0.5) - len(completion.code or "") / 1000
def broken(verdict, completion):
    return {"passed": 1.0}[verdict.status]
"""


def test_a_function_in_the_current_directory_gives_rewards_and_is_found_again_by_regrade(
    problems: Path, tmp_path: Path
) -> None:
    (tmp_path / "my_rewards.py").write_text(REWARDS, encoding="utf-8")
    # The installed command: its first place to import from is not the current directory.
    command = (str(Path(SANDRL[0]).with_name("sandrl")),)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], input=RIGHT + WRONG, capture_output=True, text=True, cwd=tmp_path, check=False
        )

    words = ("reward", "-", "--problems", str(problems), "--runs-dir", "r", "--run-name", "mine")
    done = run(*words, "--reward", "my_rewards:short", "--json")
    assert done.returncode == 0, done.stderr
    assert [result["reward"] for result in json.loads(done.stdout)["results"]] == [
        pytest.approx(1.0 - 0.027),
        pytest.approx(-0.5 - 0.018),
    ]
    config = json.loads((tmp_path / "r" / "mine" / "config.json").read_text())
    assert config["options"]["reward"] == "my_rewards:short"
    again = run("runs", "regrade", "r/mine", "--fail-on-flips")
    assert (again.returncode, again.stdout) == (0, "Flipped: 0 of 2 verdicts\n"), again.stderr
    (tmp_path / "my_rewards.py").unlink()
    gone = run("runs", "regrade", "r/mine")
    assert gone.returncode == 2
    assert "--reward is 'my_rewards:short', and there is no module 'my_rewards'" in gone.stderr


def test_a_function_that_fails_ends_with_2_when_all_results_are_there(
    sandrl: Run, problems: Path, tmp_path: Path
) -> None:
    (tmp_path / "my_rewards.py").write_text(REWARDS, encoding="utf-8")
    words = ("reward", "-", "--problems", problems, "--reward", "my_rewards:broken", "--out", "o.jsonl")
    done = sandrl(*words, "--json", stdin=RIGHT + WRONG)
    assert done.returncode == 2
    assert [(result["status"], result["reward"]) for result in json.loads(done.stdout)["results"]] == [
        ("passed", 1.0),
        ("reward_error", None),
    ]
    assert (
        "1 of 2 completions have no reward: the reward function my_rewards:broken, called for 'inc#2' (failed), "
        in (done.stderr)
    )
    assert "raised KeyError" in done.stderr
    assert "Traceback" not in done.stderr
    assert {json.loads(line)["status"] for line in (tmp_path / "o.jsonl").read_text().splitlines()} == {
        "passed",
        "reward_error",
    }
    refused = sandrl("reward", "-", "--problems", problems, "--reward", "my_rewards:nothing", stdin=RIGHT)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "has no 'nothing'" in refused.stderr


def test_a_function_that_abstains_changes_no_exit_code_and_is_shown(
    sandrl: Run, problems: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "def only_passes(verdict, completion):\n    return 1.0 if verdict.is_pass else None\n"
    )
    done = sandrl("reward", "-", "--problems", problems, "--reward", "mine.py:only_passes", stdin=RIGHT + WRONG)
    assert done.returncode == 0, done.stderr
    assert "Abstained: 1 (the reward function gives no reward; in no rate)" in done.stdout
    assert "Pass rate: 1/1 (100%)" in done.stdout
    assert "Unscorable" not in done.stdout
    listed = json.loads(sandrl("runs", "ls", "--json").stdout)["runs"]
    assert listed[0]["unscorable"] == 0


def test_a_reward_function_is_named_by_its_file_and_found_again_from_elsewhere(
    sandrl: Run, problems: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my-reward.py").write_text(
        "from half import HALF\n\ndef score(verdict, completion):\n    return HALF if verdict.is_pass else -1.0\n"
    )
    (tmp_path / "mine" / "half.py").write_text("HALF = 0.5\n")
    words = ("reward", "-", "--problems", problems, "--reward", "mine/my-reward.py:score", "--run-name", "own")
    done = sandrl(*words, "--json", stdin=RIGHT + WRONG)
    assert [each["reward"] for each in json.loads(done.stdout)["results"]] == [0.5, -1.0], done.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = subprocess.run(
        [*SANDRL, "runs", "regrade", "own"], capture_output=True, text=True, cwd=elsewhere, check=False
    )
    assert (again.returncode, again.stdout) == (0, "Flipped: 0 of 2 verdicts\n"), again.stderr
