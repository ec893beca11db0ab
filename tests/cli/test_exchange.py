"""`sandrl runs export` and `import`: a job of Harbor is a run that is shown, and judged again from its artifacts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import HOME, write_shell_task

STEPS = [
    {"step_id": 1, "source": "user", "message": "Write the numbers."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "seq 3 > out/numbers"}}],
        "observation": {"results": [{"source_call_id": "1", "content": ""}]},
    },
    {"step_id": 3, "source": "agent", "message": "Done."},
]


@pytest.fixture(scope="session", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


def write_trial(
    job: Path, name: str, task: str, *, artifacts: dict[str, str] | None = None, turns: Any = None, **result: Any
) -> Path:
    """Writes a trial as Harbor 0.25 keeps it."""
    trial = job / name
    (trial / "agent").mkdir(parents=True)
    (trial / "verifier").mkdir()
    context = {"n_input_tokens": 20, "n_output_tokens": 5, "rollout_details": turns}
    written = {
        "trial_name": name,
        "task_name": task,
        "task_id": {"path": f"/elsewhere/{task}"},
        "agent_info": {"name": "terminus-2", "version": "2", "model_info": {"name": "m"}},
        "agent_result": context,
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:30Z",
        "agent_execution": {"started_at": "2026-01-01T00:00:10Z", "finished_at": "2026-01-01T00:00:20Z"},
        **result,
    }
    (trial / "result.json").write_text(json.dumps(written))
    agent = {"name": "terminus-2", "version": "2", "model_name": "m"}
    document = {"schema_version": "ATIF-v1.8", "session_id": name, "agent": agent, "steps": STEPS}
    (trial / "agent/trajectory.json").write_text(json.dumps(document))
    if artifacts is not None:
        entries = []
        for path, content in artifacts.items():
            place = trial / "artifacts" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
            entries.append({"source": f"/{path}", "destination": f"artifacts/{path}", "type": "file", "status": "ok"})
        (trial / "artifacts/manifest.json").write_text(json.dumps(entries))
    return trial


def rewards(number: float) -> dict[str, Any]:
    return {"verifier_result": {"rewards": {"reward": number}}}


NUMBERS = f"{HOME[1:]}/numbers"
RIGHT = {NUMBERS: "1 2 3\n"}


def test_a_job_of_harbor_is_a_run_and_its_artifacts_are_judged_again(sandrl: Run, tmp_path: Path) -> None:
    judged = f'[ "$(cat {HOME}/numbers)" = "1 2 3" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n'
    place = write_shell_task(tmp_path / "tasks/numbers", test=f"#!/bin/bash\n{judged}")
    config = (place / "task.toml").read_text()
    artifacts = f'artifacts = ["{HOME}/numbers"]\n[verifier]\nenvironment_mode = "separate"\n[agent]\n'
    (place / "task.toml").write_text(config.replace("[agent]\n", artifacts))
    job = tmp_path / "jobs/today"
    write_trial(job, "right", "numbers", artifacts=RIGHT, **rewards(1.0))
    # A verdict that was wrong, as a broken verifier gives one.
    write_trial(job, "misjudged", "numbers", artifacts={NUMBERS: "1\n"}, **rewards(1.0))
    lost = {"exception_type": "SandboxBuildFailedError", "exception_message": "no\nmore"}
    write_trial(job, "lost", "numbers", exception_info=lost, **rewards(0.0))
    late = {"exception_type": "AgentTimeoutError", "exception_message": "late"}
    write_trial(job, "late", "numbers", exception_info=late, **rewards(0.0))
    write_trial(job, "unjudged", "numbers", verifier_result=None)
    (job / "result.json").write_text("{}")

    made = sandrl("runs", "import", "jobs", "--problems", "tasks", "--run-name", "h", "--runs-dir", "runs", "--json")
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert (found["completions"], found["unrewarded"], found["judgeable"]) == (5, 2, 2)
    rows = {
        row["id"]: row for row in map(json.loads, (tmp_path / "runs/h/trajectories.jsonl").read_text().splitlines())
    }
    told = {name: (row["reward"], row["status"], row["detail"], row["episode"]["end"]) for name, row in rows.items()}
    assert told == {
        "right": (1.0, "passed", "", "finished"),
        "misjudged": (1.0, "passed", "", "finished"),
        "lost": (None, "infrastructure", "SandboxBuildFailedError: no", "SandboxBuildFailedError"),
        "late": (0.0, "failed", "the verifier gave 0", "AgentTimeoutError"),
        "unjudged": (None, "infrastructure", "the trial has no reward", "finished"),
    }
    assert [each["role"] for each in rows["right"]["messages"]] == ["user", "assistant", "tool", "assistant"]

    shown = sandrl("runs", "show", "h", "--json")
    assert shown.returncode == 0, shown.stderr
    again = sandrl("runs", "regrade", "runs/h", "--json")
    assert again.returncode == 0, again.stderr
    judged = json.loads(again.stdout)
    assert (judged["compared"], judged["left_out"]) == (2, 3)
    assert [(flip["id"], flip["after"]["reward"]) for flip in judged["flips"]] == [("misjudged", 0.0)]


def test_tokens_of_a_trial_are_those_of_its_turns_only_where_each_turn_has_its_own(sandrl: Run, tmp_path: Path) -> None:
    job = tmp_path / "job"
    two = [{"completion_token_ids": [[1, 2], [3]], "logprobs": [[-1.0, -2.0], [-3.0]], "prompt_token_ids": [[0], [0]]}]
    write_trial(job, "a", "t", turns=two, **rewards(1.0))
    write_trial(job, "b", "t", turns=[{"completion_token_ids": [[1]], "logprobs": [[-1.0]]}], **rewards(0.5))
    continued = write_trial(job, "c", "t", turns=two, **rewards(0.0)) / "agent"
    document = json.loads((continued / "trajectory.json").read_text())
    (continued / "next.json").write_text(json.dumps(document))
    # A document of a stranger may name any file.
    (continued / "trajectory.json").write_text(json.dumps({**document, "continued_trajectory_ref": "../../next.json"}))
    assert sandrl("runs", "import", "job", "--run-name", "h", "--runs-dir", "runs").returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "runs/h/trajectories.jsonl").read_text().splitlines()]
    spoken = [[each["tokens"] for each in row["messages"] if each["role"] == "assistant"] for row in rows]
    assert spoken == [[["token_id:1", "token_id:2"], ["token_id:3"]], [[], []], [[], [], [], []]]
    assert [row["episode"].get("continued", False) for row in rows] == [False, False, True]


def test_an_export_is_a_directory_of_documents(sandrl: Run, tmp_path: Path) -> None:
    write_trial(tmp_path / "job", "a", "t", **rewards(1.0))
    assert sandrl("runs", "import", "job", "--run-name", "h", "--runs-dir", "runs").returncode == 0
    done = sandrl("runs", "export", "runs/h", "--to", "out")
    assert (done.returncode, done.stdout) == (0, "out\n"), done.stderr
    [path] = (tmp_path / "out").iterdir()
    written = json.loads(path.read_text())
    assert [step["source"] for step in written["steps"]] == ["user", "agent", "agent"]
    assert written["agent"] | {"version": ""} == {"name": "terminus-2", "version": "", "model_name": "m"}
    refused = sandrl("runs", "export", "runs/h", "--to", "out")
    assert refused.returncode == 2
    assert "out: already exists and is not empty" in refused.stderr
