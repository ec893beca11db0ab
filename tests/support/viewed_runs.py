"""Runs in which every part of the viewer's pages has something to show, and their addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sandrl.runs import (
    CheckRow,
    EvaluationRow,
    MessageRow,
    MetricsRow,
    OpinionPart,
    OpinionRow,
    ProblemCheck,
    ProblemRow,
    RunOutcome,
    RunWriter,
    ToolCallRow,
    TrajectoryRow,
)
from sandrl.runs.cards import Card, Cheat, Mutant
from sandrl.runs.rows import BranchRow
from tests.support.sample_runs import JOB, failed, trajectory, write_run

HOSTILE = "</script><img src=x onerror='window.owned = 1'>\u202e\x1b[2J"
LONG = "a-name-without-a-space-that-is-wider-than-a-telephone/" * 3
PLACES = (
    "",
    "?search=nothing-has-this-name",
    "run/{training}",
    "run/{training}/groups",
    "run/{training}/groups?task=nothing",
    "run/{training}/rows",
    "run/{training}/rows?search=nothing",
    "run/{training}/t/0.3",
    "run/{episodes}/t/-.0",
    "run/{episodes}/t/-.1",
    "run/{before}",
    "run/{empty}",
    "run/{empty}/rows",
    "run/{damaged}",
    "run/{cards}",
    "run/{cards}/cards",
    "run/{cards}/cards?mark=cheated,unknown&order=task&desc=1",
    "run/{cards}/cards?search=nothing",
    *(f"run/{{cards}}/cards/{letter * 64}" for letter in "abcdef"),
    "run/{cards}/cards/none",
    "run/{empty}/cards",
    "compare?runs={before},{after}",
    "compare?runs={before},{after},{training}&only=all&equal=1",
    "compare",
    "run/nothing",
)
"""What to show of them; each run stands for its key."""


def write_runs(runs_dir: Path) -> None:
    """Writes them.

    Args:
        runs_dir: Where to.
    """
    _write_training(runs_dir)
    _write_evaluations(runs_dir)
    _write_episodes(runs_dir)
    write_cards(runs_dir)
    with RunWriter.create(runs_dir, command="reward", job_id=JOB, name="empty") as writer:
        writer.finish(RunOutcome.FAILED, error=f"the problem set cannot be read: {LONG}")
    (runs_dir / "damaged").mkdir()
    (runs_dir / "damaged" / "config.json").write_text("{", encoding="utf-8")


def _write_training(runs_dir: Path) -> None:
    """A training of three steps with a held-out evaluation, a flag, and verdicts of every kind."""
    statuses = ("timeout", "no_code", "syntax_error", "crashed", "resource_limit", "compile_error")
    rows = []
    for step in range(3):
        for at, task in enumerate(("easy", "hard", LONG, *(f"problem-{number}" for number in range(4)))):
            for sample in range(4):
                place: dict[str, Any] = {"step": step, "task_id": task}
                if task == "easy" or sample < step:
                    rows.append(trajectory(4 * at + sample, **place))
                elif task == "hard" and sample == 3:
                    rows.append(failed(4 * at + sample, "infrastructure", reward=None, **place))
                elif task == "hard":
                    rows.append(
                        failed(4 * at + sample, problem="d" * 32, checks=(CheckRow(status="failed", got="3"),), **place)
                    )
                else:
                    rows.append(
                        failed(4 * at + sample, statuses[(at + sample) % len(statuses)], detail=f"why: {LONG}", **place)
                    )
    run = write_run(
        runs_dir, rows, name="training", command="grpo", extra={2: {"loss": float("nan"), "grad_norm": 3.0}}
    )
    check = ProblemCheck(source="f(2)", expected="2", is_hidden=True)
    with RunWriter(run, job_id=JOB) as writer:
        writer.append(
            ProblemRow(job_id=JOB, digest="d" * 32, task_id="hard", prompt=f"Solve it. {LONG}", checks=(check,))
        )
        measured = {"held_out/pass@1": 0.5, "held_out/pass@1_low": 0.3, "held_out/pass@1_high": 0.7}
        writer.append(EvaluationRow(job_id=JOB, step=2, problems=8, metrics=measured))


def _write_evaluations(runs_dir: Path) -> None:
    """Two evaluations of the same problems, of which some turn."""
    for name, passes in (("before", 2), ("after", 4)):
        own = [
            trajectory(n, task_id=f"t{n}") if n < passes else failed(n, task_id=f"t{n}" if n else LONG, detail=LONG)
            for n in range(6)
        ]  # fmt: skip
        options = {"model": f"org/{name}-{LONG}", "problems": LONG, "temperature": 0.5 * passes}
        write_run(runs_dir, own, name=name, command="eval", options=options)


def _write_episodes(runs_dir: Path) -> None:
    """A completion with messages, calls, outputs, checks and a second opinion, and one with a difference."""
    call = ToolCallRow(name="execute_code", arguments=json.dumps({"code": "x = 1\nprint(x)  # " + LONG}))
    messages = (
        MessageRow(role="system", content="You are a programmer."),
        MessageRow(role="user", content=LONG),
        MessageRow(role="assistant", tool_calls=(call,), finish_reason="tool_calls", seconds=1.5),
        MessageRow(role="tool", name="execute_code", content="1\n" * 60),
    )
    checks = (
        CheckRow(status="passed"), CheckRow(status="failed", got="seven\nnine\n", expected="seven\neight\n", line=2),
        CheckRow(status="timeout"), CheckRow(status="not_reached"), CheckRow(status="not_reached"),
    )  # fmt: skip
    rows = [
        failed(
            0, task_id=LONG, messages=messages, stdout="out\n" * 80, stderr=LONG, checks=checks, problem="e" * 32,
            branches=(BranchRow(messages=messages[:3]),), failures=("the sandbox was lost",),
            components={"format": 0.5}, tokens={"prompt": 10}, truncated=True,
        ),
        trajectory(1, code="def f():\n    # " + LONG + "\n    return 'text', 1.5\n"),
    ]  # fmt: skip
    run = write_run(runs_dir, rows, name="episodes")
    tests = (
        ProblemCheck(stdin="3 4\n", expected="7\n", is_hidden=False),
        ProblemCheck(name="test_two", source="x = two()\nassert x == 2", is_hidden=True),
    )
    with RunWriter(run, job_id=JOB) as writer:
        writer.append(
            ProblemRow(
                job_id=JOB,
                digest="e" * 32,
                task_id=LONG,
                prompt="Add.",
                setup="import math",
                checks=tests,
                check_count=9,
            )
        )
        of = {"index": 0, "id": rows[0].id, "task_id": LONG, "sandbox_id": rows[0].sandbox_id}
        writer.append(OpinionRow(job_id=JOB, status="failed", opinion=OpinionPart(status="passed"), **of))
        writer.append(MetricsRow(job_id=JOB, step=0, metrics={"completions": 2.0}))


def write_cards(runs_dir: Path) -> Path:
    """A campaign with a card of every kind, and the runs behind one of them.

    Args:
        runs_dir: Where to.
    """
    mutants = (
        Mutant(name="truncate", path="/app/out.txt", reward=0.0, is_killed=True),
        Mutant(name="empty", path=f"/app/{LONG}", reward=1.0),
        Mutant(name="stop", reward=None),
    )
    cheats = (
        Cheat(name="survivor", group="survivors", reward=1.0, stopped_by=("end_processes", "separate")),
        Cheat(name="pythonpath", group="shims", reward=0.5, advice=f"pin the tools of the verifier: {LONG}"),
        Cheat(name=HOSTILE, group=HOSTILE, reward=0.25, stopped_by=(HOSTILE,)),
    )
    measured = {
        "oracle": 1.0, "oracle_runs": 3, "oracle_passes": 3, "nop": 0.0, "nop_runs": 3, "cheats_tried": 31,
        "flake_rate": 0.0, "flake_low": 0.0, "flake_high": 0.56, "flake_runs": 3,
        "seconds": {"setup": 1.25, "agent": 4.0, "verifier": 12.5}, "image_bytes": 81_000_000, "state_bytes": 900,
        "network": {"agent": "none", "verifier": "open"}, "reached": ("pypi.org",),
    }  # fmt: skip
    under = {"separate": 1.0, "artifacts": 0.5}
    unscored = {"null_runs": 2, "null_reason": f"the verifier wrote no reward {HOSTILE}"}
    flaky = {"oracle": 0.9, "oracle_passes": 9, "oracle_runs": 10, "flake_rate": 0.1, "flake_low": 0.02}
    cards = [
        Card(task_id="sound", kind="task", digest="a" * 64, **measured, mutants=mutants[:1]),
        Card(
            task_id="cheated",
            kind="task",
            digest="b" * 64,
            **measured,
            cheats=cheats,
            mutants=mutants,
            oracle_under=under,
        ),
        Card(task_id=LONG, kind="task", digest="c" * 64, **{**measured, **flaky, "cheats_tried": None}),
        Card(task_id=HOSTILE, kind="task", digest="d" * 64, **unscored),
        Card(task_id="own", kind="tests", digest="e" * 64, nop=1.0, nop_runs=2, stubs=("returns-none",), oracle_runs=1),
        Card(task_id="own-cheated", kind="calls", digest="f" * 64, cheats_tried=9, cheats=(cheats[0],)),
    ]
    rewards = {
        "oracle.0": 1.0, "oracle.1": 1.0, "oracle.2": 1.0, "nop.0": 0.0, "nop.1": 0.0, "cheat.survivor": 1.0,
        "cheat.survivor@separate": 0.0, "cheat.pythonpath": 0.5, "cheat.quiet": 0.0, "mutant.1": 0.0, "mutant.2": 1.0,
        "mutant.3": None,
    }  # fmt: skip
    rows: list[TrajectoryRow] = []
    for label, reward in rewards.items():
        place = {"task_id": "cheated", "id": f"cheated#{label}", "reward": reward, "code": None, "completion": None}
        status = "infrastructure" if reward is None else "passed" if reward == 1 else "failed"
        rows.append(failed(len(rows), status, **place) if status != "passed" else trajectory(len(rows), **place))
    run = write_run(runs_dir, rows, name="cards", command="redteam", options={"problems": "tasks of ours"})
    with RunWriter(run, job_id=JOB) as writer:
        for card in cards:
            writer.append(card)
    return run
