"""Agents of others on tasks: a command in the machine that asks the model through the recording proxy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sandrl.rollouts.agents import RECIPES, Recipe
from sandrl.runs import RunReader, TrajectoryRow
from tests.cli.conftest import Run
from tests.support.scripted_model import Answer, Fault, Question, Says, ScriptedModel
from tests.support.task_directories import write_task
from tests.support.tasks.base import BASE, import_task_base
from tests.support.tasks.shell import HOME, judge, write_shell_task

# An agent in the shell of the image: it asks what to do, does it, and says how it went.
AGENT = r"""
ask() {
    wget -q -O - --header "Authorization: Bearer $OPENAI_API_KEY" --header 'Content-Type: application/json' \
        --post-data "{\"model\":\"$MODEL\",\"messages\":[$1]}" "$OPENAI_BASE_URL/chat/completions" || exit 7
}
history="{\"role\":\"user\",\"content\":\"$INSTRUCTION\"}"
reply=$(ask "$history") || exit
command=${reply#*\"content\":} command=${command#*\"} command=${command%%\"*}
eval "$command"
history="$history,{\"role\":\"assistant\",\"content\":\"$command\"},{\"role\":\"user\",\"content\":\"exit code $?\"}"
ask "$history" >/dev/null
"""


@pytest.fixture(scope="session", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    for number in range(2):
        instruction = f"Write {number} into the file answer."
        write_shell_task(tmp_path / "tasks" / f"write-{number}", instruction=instruction, test=judge(str(number)))
    return tmp_path / "tasks"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    install = "mkdir -p /opt && id -u > /opt/agent && echo once >> /opt/agent"
    text = f"run = '''{AGENT}'''\ninstall = '{install}'\n[variables]\nOWN = 'x'\n"
    (tmp_path / "shell.toml").write_text(text)
    return tmp_path / "shell.toml"


def works(question: Question) -> Answer:
    """The command that writes the number, except 1; then a farewell."""
    number = int(question.messages[0]["content"].split()[1])
    return Says("Done." if question.turn else f"echo {number * (number != 1)} > answer; cp /opt/agent seen; env > all")


def rows_of(run: Path) -> dict[str, TrajectoryRow]:
    return {row.task_id: row for row in RunReader(run).trajectories().rows}


def evaluate(sandrl: Run, tasks: Path, agent: str, server: ScriptedModel, *more: str) -> dict[str, TrajectoryRow]:
    words = ("--base-url", server.base_url, "--samples", "1", "--runs-dir", "runs", "--run-name", "r", *more)
    done = sandrl("eval", "--problems", tasks, "--agent", agent, *words)
    assert done.returncode in (0, 3), done.stderr
    return rows_of(tasks.parent / "runs/r")


def test_an_agent_is_installed_once_and_its_turns_are_recorded(sandrl: Run, tasks: Path, recipe: Path) -> None:
    with ScriptedModel(works) as server:
        rows = evaluate(sandrl, tasks, str(recipe), server)
    assert {name: (row.reward, row.episode["end"]) for name, row in rows.items()} == {
        "write-0": (1.0, "the agent ended"),
        "write-1": (0.0, "the agent ended"),
    }
    assert [(each.role, each.content) for each in rows["write-0"].messages][0::3] == [
        ("user", "Write 0 into the file answer."),
        ("assistant", "Done."),
    ]
    assert [each.role for each in rows["write-0"].messages] == ["user", "assistant", "user", "assistant"]


def test_nothing_but_the_token_of_the_episode_is_in_the_machine(
    sandrl: Run, tasks: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    shutil.rmtree(tasks / "write-1")
    test = "#!/bin/bash\ncat /home/app/seen /home/app/all\necho 1 > /logs/verifier/reward.txt\n"
    (tasks / "write-0/tests/test.sh").write_text(test)
    with ScriptedModel(works, key="sk-of-the-user") as server:
        rows = evaluate(sandrl, tasks, str(recipe), server)
    said = rows["write-0"].stdout
    assert said.startswith("0\nonce\n")
    assert "OPENAI_API_KEY=" in said
    assert "OWN=x" in said
    assert "sk-of-the-user" not in said
    assert "sk-of-the-user" not in (tasks.parent / "runs/r/trajectories.jsonl").read_text()


def test_an_endpoint_that_fails_loses_the_episode_and_an_agent_that_fails_does_not(
    sandrl: Run, tasks: Path, recipe: Path
) -> None:
    def fails(question: Question) -> Answer:
        return Fault(500) if "Write 1" in str(question.body) else Says("exit 9")

    with ScriptedModel(fails) as server:
        rows = evaluate(sandrl, tasks, str(recipe), server)
    assert {name: (row.reward, row.status) for name, row in rows.items()} == {
        "write-0": (0.0, "failed"),
        "write-1": (None, "infrastructure"),
    }
    assert rows["write-0"].episode["end"] == "the agent failed"
    assert "exited with 9" in rows["write-0"].detail


def test_a_model_that_never_answers_loses_the_episode(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks / "write-1")
    (tasks.parent / "hasty.toml").write_text(f"run = '''{AGENT.replace('wget', 'timeout 3 wget')}'''\n")
    with ScriptedModel(lambda _: Fault(pause_seconds=9)) as server:
        [row] = evaluate(sandrl, tasks, "hasty.toml", server).values()
    assert (row.reward, row.status) == (None, "infrastructure")
    assert "the model answered none of the 1 questions of the agent" in row.detail


def test_an_agent_whose_requests_are_all_refused_says_nothing_about_its_model(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks / "write-1")
    asks_for_more = AGENT.replace(r"\"messages\"", r"\"stop\":[\"x\"],\"messages\"")
    (tasks.parent / "more.toml").write_text(f"run = '''{asks_for_more}'''\n")
    with ScriptedModel(works) as server:
        [row] = evaluate(sandrl, tasks, "more.toml", server).values()
    assert (row.reward, row.status) == (None, "infrastructure")
    assert "stop: the policy answers without it; leave it out" in row.detail


def test_what_an_agent_leaves_running_asks_nothing_more(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks / "write-1")
    left = '(trap "" HUP; while (ask "$history"); do sleep 0.2; done; touch refused) >/dev/null 2>&1 &'
    (tasks.parent / "left.toml").write_text(f"run = '''{AGENT}{left}'''\n")
    waits = "#!/bin/bash\nfor n in $(seq 100); do [ -e /home/app/refused ] && break; sleep 0.1; done\n"
    test = f"{waits}[ -e /home/app/refused ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n"
    (tasks / "write-0/tests/test.sh").write_text(test)
    with ScriptedModel(works) as server:
        [row] = evaluate(sandrl, tasks, "left.toml", server).values()
    assert (row.reward, row.episode["end"]) == (1.0, "the agent ended")


def test_an_agent_is_started_for_each_step_and_asks_in_all_of_them(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks)
    config = (
        'schema_version = "1.4"\n[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n[agent]\nuser = "app"\n'
        f'[environment]\ndocker_image = "{BASE}"\nworkdir = "{HOME}"\nmemory_mb = 128\nstorage_mb = 64\n'
    )
    files: dict[str, str | None] = dict.fromkeys(("instruction.md", "tests/test.sh", "solution/solve.sh"))
    for number, name in ((0, "first"), (2, "second")):
        files[f"steps/{name}/instruction.md"] = f"Write {number} into the file answer."
        files[f"steps/{name}/tests/test.sh"] = judge(str(number))
    write_task(tasks / "two", {"task.toml": config, **files})
    (tasks.parent / "shell.toml").write_text(f"run = '''{AGENT}'''\n")
    with ScriptedModel(works) as server:
        [row] = evaluate(sandrl, tasks, "shell.toml", server).values()
    assert (row.reward, row.episode["end"]) == (1.0, "the agent ended")
    assert [row.messages[0].content, *(branch.messages[0].content for branch in row.branches)] == [
        "Write 0 into the file answer.",
        "Write 2 into the file answer.",
    ]


def test_the_end_of_both_outputs_of_an_agent_is_kept(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks / "write-1")
    with ScriptedModel(works) as server:
        [row] = evaluate(sandrl, tasks, "yes | head -n 9999 >&2; echo its last words", server).values()
    assert "its last words" in str(row.episode["agent_output"])


def test_an_instruction_that_is_too_large_for_a_variable_is_refused(sandrl: Run, tasks: Path) -> None:
    (tasks / "write-1/instruction.md").write_text("x" * 130_000)
    done = sandrl("eval", "--problems", tasks, "--base-url", "http://127.0.0.1:1/v1", "--agent", "true")
    assert done.returncode == 2
    assert "agent: the instruction of 'write-1' does not fit into a variable" in done.stderr


def test_an_instruction_arrives_as_it_is(sandrl: Run, tasks: Path) -> None:
    shutil.rmtree(tasks / "write-1")
    odd = "$HOME `id` $(id) \"double\" 'single' \\\n %s \u4e2d\U0001f600\u202e\ttab\n\x1b[31m -- !! * ?\n\n"
    (tasks / "write-0/instruction.md").write_text(odd)
    test = "#!/bin/bash\ncat /home/app/told\necho 1 > /logs/verifier/reward.txt\n"
    (tasks / "write-0/tests/test.sh").write_text(test)
    agent = "true 'a' \"b\" |\n  printf '%s' \"$INSTRUCTION\" >told"
    with ScriptedModel(works) as server:
        [row] = evaluate(sandrl, tasks, agent, server).values()
    assert row.stdout == odd


def test_an_agent_that_cannot_be_installed_says_nothing_about_its_model(sandrl: Run, tasks: Path) -> None:
    (tasks.parent / "broken.toml").write_text("run = 'true'\ninstall = 'echo no such package >&2; exit 4'\n")
    with ScriptedModel(works) as server:
        words = ("--base-url", server.base_url, "--samples", "1", "--runs-dir", "runs", "--run-name", "r")
        told = sandrl("eval", "--problems", tasks, "--agent", "broken.toml", *words).stderr
    rows = rows_of(tasks.parent / "runs/r")
    assert told.count("Agent: installing broken in ") == 1
    assert {row.reward for row in rows.values()} == {None}
    assert "cannot be installed in the image" in rows["write-0"].detail
    assert "exit code 4: no such package" in rows["write-0"].detail
    assert server.questions == []


def test_rollouts_of_an_agent_are_rows_to_train_on(sandrl: Run, tasks: Path, recipe: Path, tmp_path: Path) -> None:
    with ScriptedModel(works) as server:
        words = ("--base-url", server.base_url, "--model", "scripted", "--steps", "1", "--problems-per-step", "2")
        places = ("--samples", "2", "--runs-dir", "runs", "--run-name", "r")
        done = sandrl("art", "rollout", "--problems", tasks, "--agent", recipe, *words, *places)
    assert done.returncode == 0, done.stderr
    kept = RunReader(tmp_path / "runs/r").trajectories().rows
    assert sorted((row.task_id, row.reward) for row in kept) == [("write-0", 1.0)] * 2 + [("write-1", 0.0)] * 2
    assert all(each.messages and not each.tools for each in kept)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--agent", "mini-swe-agnet"), "there is no agent 'mini-swe-agnet'; did you mean 'mini-swe-agent'?"),
        (("--agent", "no.toml"), "no.toml: cannot be read: No such file or directory"),
        (("--agent", "true", "--rollout", "attempts"), "attempts are answers of the model itself"),
        (("--agent", "true", "--max-tool-calls", "3"), "has no effect with"),
    ],
)
def test_what_cannot_be_an_agent_is_refused(sandrl: Run, tasks: Path, words: tuple[str, ...], told: str) -> None:
    done = sandrl("eval", "--problems", tasks, "--base-url", "http://127.0.0.1:1/v1", *words)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize("name", RECIPES)
def test_a_known_agent_is_text_that_a_shell_reads_with_a_version_of_its_own(name: str) -> None:
    recipe = Recipe.find(name)
    for text in (recipe.install, recipe.run):
        assert subprocess.run(["sh", "-n", "-c", text], capture_output=True, check=False).stderr == b""
    assert re.search(r"[a-z](@|==)\d+\.\d+\.\d+\b", recipe.install)
    assert "$INSTRUCTION" in recipe.run


def test_an_agent_works_on_tasks_alone(sandrl: Run, tmp_path: Path) -> None:
    row = {"task_id": "inc", "prompt": "f", "tests": ["assert f(1) == 2"]}
    (tmp_path / "p.jsonl").write_text(json.dumps(row))
    with ScriptedModel([Says("x")]) as server:
        done = sandrl("eval", "--problems", "p.jsonl", "--base-url", server.base_url, "--agent", "true")
    assert done.returncode == 2
    assert "agent: works on tasks, and the problem 'inc' is none" in done.stderr
