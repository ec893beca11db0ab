"""Directories of tasks are sets of problems, and tasks of Terminal-Bench and Harbor become one another's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.task_directories import HARBOR, TERMINAL_BENCH, write_task

from sandrl.errors import InputError
from sandrl.problems import Case, Problem, load_problems, own_row, write_problems
from sandrl.problems.loading import problem_of_row
from sandrl.problems.tasks.log_parsers import read_tests
from sandrl.problems.tasks.sources import read_task
from sandrl.problems.tasks.task import Task
from sandrl.rewards.conversion import convert


def task_of(directory: Path, files: Mapping[str, str | None], base: Mapping[str, str | None] = TERMINAL_BENCH) -> Task:
    return read_task(write_task(directory, files, base))


def test_one_task_and_a_folder_of_tasks_of_both_formats_are_sets(tmp_path: Path) -> None:
    write_task(tmp_path / "repo/tasks/one")
    write_task(tmp_path / "repo/tasks/two", base=TERMINAL_BENCH)
    write_task(tmp_path / "repo/more/deep/two")
    write_task(tmp_path / "repo/tasks/one/environment/inner")
    write_task(tmp_path / "repo/.hidden/three")
    (tmp_path / "repo/registry.json").write_text("[]")
    (tmp_path / "repo/tasks/link").symlink_to(tmp_path / "repo/tasks/one")
    loaded = load_problems(tmp_path / "repo")
    assert list(loaded.problems) == ["more/deep/two", "one", "tasks/two"]
    assert {each.name: count for each, count in loaded.formats.items()} == {"harbor 1.4": 2, "terminal-bench 1": 1}
    assert list(load_problems(str(tmp_path / "repo/tasks/one")).problems) == ["one"]
    problem = loaded.problems["one"]
    assert (problem.kind, problem.prompt, problem.check_count) == ("task", "Do it.\n", 1)
    with pytest.raises(InputError, match="is a directory of tasks, which has no split 'test'"):
        load_problems(f"{tmp_path}/repo:test")


def test_a_bad_task_is_named_by_its_file_and_may_be_skipped(tmp_path: Path) -> None:
    write_task(tmp_path / "good")
    write_task(tmp_path / "bad", {"task.toml": "[environment]\n\ncpus = 'x'\n"})
    message = f"{tmp_path}/bad/task.toml:3: field 'environment.cpus': must be a whole number, not 'x'"
    with pytest.raises(InputError) as caught:
        load_problems(tmp_path)
    assert caught.value.message == message
    assert "skip_bad_rows" in (caught.value.hint or "")
    loaded = load_problems(tmp_path, skip_bad_rows=True)
    assert list(loaded.problems) == ["good"]
    assert [error.message for error in loaded.skipped] == [message]


def test_a_row_names_the_directory_of_a_task_relative_to_its_file(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks/one")
    path = tmp_path / "set.jsonl"
    rows = [{"task_id": "a", "task": "tasks/one"}, {"task_id": "b", "task": str(tmp_path / "tasks/one")}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_problems(path).problems
    assert list(problems) == ["a", "b"]
    assert problems["a"].task == problems["b"].task
    write_problems(problems.values(), tmp_path / "own.jsonl")
    assert dict(load_problems(tmp_path / "own.jsonl").problems) == dict(problems)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "a", "task": "nothing"}, "1: field 'task': {}/nothing: is not a directory"),
        ({"task_id": "a", "task": "."}, "1: field 'task': {}: has none of task.toml, task.yaml"),
        ({"task_id": "a", "task": "one", "prompt": "?"}, "1: field 'prompt': has no effect beside `task`"),
        ({"task_id": "a", "task": "one", "tests": ["assert f()"]}, "1: field 'tests': has no effect beside `task`"),
        ({"task_id": "a", "task": 3}, "1: field 'task': must be a string, not an integer"),
        ({"task": "one"}, None),
        ({"task": "Write a function.", "solution": "x"}, "no known format has the fields `task`, `solution`"),
    ],
)
def test_a_row_that_names_no_task_says_why(tmp_path: Path, row: dict[str, object], message: str | None) -> None:
    write_task(tmp_path / "one")
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(row) + "\n")
    if message is None:
        assert list(load_problems(path).problems) == ["set/1"]
        return
    with pytest.raises(InputError) as caught:
        load_problems(path)
    assert message.format(tmp_path) in caught.value.message


def test_rows_of_others_name_no_directory_of_this_machine(tmp_path: Path) -> None:
    row = {"task_id": "a", "task": str(write_task(tmp_path / "one"))}
    assert problem_of_row(row, "problems[0]").task is not None
    with pytest.raises(InputError, match="names a directory of this machine, which rows of others cannot do"):
        problem_of_row(row, "problems[0]", has_tasks=False)


def test_options_about_code_change_no_task(tmp_path: Path) -> None:
    write_task(tmp_path / "one")
    plain = load_problems(tmp_path).problems["one"]
    assert load_problems(tmp_path, prelude="standard", language="cpp", max_cases=1).problems["one"] == plain


# Terminal-Bench


def test_a_task_of_terminal_bench_is_read(tmp_path: Path) -> None:
    limits = "max_agent_timeout_sec: 10\nmax_test_timeout_sec: 20\ntags: [a]\n"
    text = f"instruction: |-\n  # canary\n  Do it.\n    More.\n{limits}"
    task = task_of(
        tmp_path / "t", {"task.yaml": text, "solution.sh": None, "solution.yaml": "- command: ls\n- command: id\n"}
    )
    (step,) = task.steps
    assert (task.name, task.format, step.instruction) == ("t", "terminal-bench 1", "Do it.\n  More.")
    assert (step.agent.timeout_seconds, step.verifier.phase.timeout_seconds) == (10, 20)
    assert (step.verifier.phase.user, step.verifier.parser, step.verifier.script) == ("root", "pytest", "run-tests.sh")
    assert dict(step.verifier.files)["run-tests.sh"].startswith(b"#!/bin/bash\npytest")
    assert step.verifier.directories == (f"{tmp_path}/t/tests",)
    assert step.verifier.phase.variables == (("TEST_DIR", "/tests"),)
    assert task.environment.image == f"dockerfile:{tmp_path}/t"
    assert step.solution is not None
    assert step.solution.files == (("solve.sh", b"#!/bin/bash\nls\nid\n"),)
    assert task.metadata["tags"] == ["a"]


CLIENT = """
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}"]
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""


def test_the_usual_compose_file_of_terminal_bench_is_read(tmp_path: Path) -> None:
    task = task_of(tmp_path / "t", {"docker-compose.yaml": CLIENT})
    assert task.environment.image == f"dockerfile:{tmp_path}/t/Dockerfile"
    assert task.environment.variables == (("TEST_DIR", "/tests"),)
    assert task.ignored == ()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"task.yaml": "difficulty: easy\n"}, "{}/task.yaml: field 'instruction': is missing"),
        ({"task.yaml": "- a\n"}, "{}/task.yaml: is not a task of Terminal-Bench"),
        ({"task.yaml": "a: [\n"}, "{}/task.yaml:2: is not YAML"),
        ({"task.yaml": "a: " + "[" * 20_000}, "{}/task.yaml:1: is nested too deep"),
        ({"task.yaml": "a: \0\n"}, "{}/task.yaml: is not YAML: unacceptable character #x0000"),
        (
            {"task.yaml": "instruction: a\nmax_agent_timeout_sec: 0\n"},
            "field 'max_agent_timeout_sec': must be a number of",
        ),
        ({"task.yaml": "instruction: a\ntags: 3\n"}, "field 'tags': must be an array, not an integer"),
        ({"run-tests.sh": None}, "{}/run-tests.sh: is missing"),
        (
            {"task.yaml": "instruction: a\nparser_name: x\n"},
            "field 'parser_name': there is no parser 'x' of test results",
        ),
        ({"Dockerfile": None}, "{}/Dockerfile: is missing"),
        ({"solution.sh": None, "solution.yaml": "- command: y\n  append_enter: false\n"}, "types keys into a program"),
        ({"solution.sh": None, "solution.yaml": "a: 1\n"}, "{}/solution.yaml: is not a list of commands"),
        ({"docker-compose.yaml": CLIENT + "  db: {image: postgres}\n"}, "has several services (client, db)"),
        (
            {"task.yaml": "a: &a {x: 1}\n" + "".join(f"b{n}: {{<<: [*a, *a]}}\n" for n in range(9))},
            "{}/task.yaml: has more than 10 aliases",
        ),
    ],
)
def test_a_wrong_task_of_terminal_bench_is_named_by_its_file(
    tmp_path: Path, files: dict[str, str | None], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        task_of(tmp_path / "t", files)
    assert message.format(tmp_path / "t") in caught.value.message
    assert "\n" not in caught.value.message


def test_an_older_task_of_terminal_bench_has_descriptions(tmp_path: Path) -> None:
    text = "descriptions:\n- {key: hard, description: a}\n- {key: base, description: b}\n"
    assert task_of(tmp_path / "t", {"task.yaml": text}).steps[0].instruction == "b"


# Conversion

PROBLEMS = (
    Problem("a/1", "Double.", tests=("assert f(1) == 2",), entry_point="f", reference="def f(n): return 2 * n\n"),
    Problem("a 1", "Echo.", cases=(Case("1", "1"),), files=(("x.txt", b"1"),), packages=("numpy",)),
    Problem("c", "Echo.", cases=(Case("1", "1"),), language="cpp"),
)


def test_problems_become_tasks_that_become_the_same_problems(tmp_path: Path) -> None:
    converted = convert(PROBLEMS, tmp_path / "tasks")
    assert (converted.written, list(converted.left_out)) == (2, ["c"])
    assert sorted(path.name for path in (tmp_path / "tasks").iterdir()) == ["a-1", "a-1-2"]
    tasks = load_problems(tmp_path / "tasks").problems
    assert "Double." in tasks["a-1"].prompt
    assert "assert" not in tasks["a-1"].prompt
    task = tasks["a-1-2"].task
    assert task is not None
    assert "numpy" in (tmp_path / "tasks/a-1-2/environment/Dockerfile").read_text()
    assert (tmp_path / "tasks/a-1-2/environment/files/x.txt").read_bytes() == b"1"
    assert (task.steps[0].verifier.ends_processes, task.steps[0].solution) == (True, None)
    again = convert(tasks.values(), tmp_path / "again.jsonl")
    assert (again.written, again.left_out) == (2, {})
    assert list(load_problems(tmp_path / "again.jsonl").problems.values()) == list(PROBLEMS[:2])


def test_tasks_of_others_become_no_problems_and_are_named(tmp_path: Path) -> None:
    write_task(tmp_path / "set/mine")
    convert(PROBLEMS[:1], tmp_path / "set/tasks")
    converted = convert(load_problems(tmp_path / "set").problems.values(), tmp_path / "out.jsonl")
    assert (converted.written, list(converted.left_out)) == (1, ["mine"])
    with pytest.raises(InputError, match="nothing can be converted: mine: is a task that was not written"):
        convert(load_problems(tmp_path / "set/mine").problems.values(), tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()


def test_what_exists_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="already exists"):
        convert(PROBLEMS, tmp_path / "out")


def test_a_task_of_terminal_bench_becomes_one_of_harbor(tmp_path: Path) -> None:
    files = {
        "docker-compose.yaml": CLIENT,
        "Dockerfile": "FROM debian:13\nCOPY data tests/seed.txt /app/\n",
        "data/a": "1",
        "tests/seed.txt": "1",
    }
    write_task(tmp_path / "set/tb", files, TERMINAL_BENCH)
    write_task(tmp_path / "set/other", {"task.yaml": "instruction: a\nparser_name: swebench\n"}, TERMINAL_BENCH)
    write_task(tmp_path / "set/harbor", {"task.toml": HARBOR["task.toml"], "environment/x": "1"})
    converted = convert(load_problems(tmp_path / "set").problems.values(), tmp_path / "out")
    assert (converted.written, list(converted.left_out)) == (2, ["other"])
    found = {str(path.relative_to(tmp_path / "out/tb")) for path in (tmp_path / "out/tb").rglob("*") if path.is_file()}
    assert found >= {"task.toml", "instruction.md", "environment/Dockerfile", "environment/data/a", "tests/test.sh"}
    assert found >= {"tests/run-tests.sh", "tests/test_outputs.py", "solution/solve.sh", "environment/tests/seed.txt"}
    assert not {"environment/solution.sh", "environment/task.yaml", "environment/run-tests.sh"} & found
    task = read_task(tmp_path / "out/tb")
    assert (task.steps[0].verifier.phase.user, task.steps[0].agent.timeout_seconds) == ("root", 360)
    assert read_task(tmp_path / "out/harbor").digest == read_task(tmp_path / "set/harbor").digest


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ("=== short test summary info ===\nPASSED tests/a.py::one\nSKIPPED [1] a.py:3: why\nXFAIL a.py::two", "1"),
        ("== Short Test Summary Info ==\nPASSED a.py::one\nFAILED a.py::two - assert 1 - 2 == 3", "0"),
        ("= short test summary info =\nFAILED a.py::one - x\nPASSED a.py::one", "0"),
        ("=== \033[36mshort test summary info\033[0m ===\r\n\033[32mPASSED\033[0m a.py::one\r", "1"),
        ("= short test summary info =\n passed\nPASSED", None),
        ("= short test summary info =\nXPASS a.py::one", "0"),
        ("= short test summary info =\nERROR a.py", "0"),
        ("FAILED a.py::one\n= short test summary info =\nPASSED: a.py::two\n1 passed", "1"),
        ("1 passed", None),
        ("", None),
    ],
    ids=range(10),
)
def test_a_verifier_of_a_converted_task_reads_the_summary_of_pytest(
    tmp_path: Path, output: str, reward: str | None
) -> None:
    write_task(
        tmp_path / "set/tb", {"run-tests.sh": "cat /tests/printed; exit 1\n", "tests/printed": output}, TERMINAL_BENCH
    )
    convert(load_problems(tmp_path / "set").problems.values(), tmp_path / "out")
    logs, tests = tmp_path / "logs", tmp_path / "out/tb/tests"
    for name in ("test.sh", "run-tests.sh"):
        text = (tests / name).read_text().replace("/logs/verifier", str(logs)).replace("/tests/", f"{tests}/")
        (tests / name).write_text(text)
    done = subprocess.run(["bash", tests / "test.sh"], capture_output=True, text=True, check=False)
    found = (logs / "reward.txt").read_text().strip() if (logs / "reward.txt").exists() else None
    assert found == reward, done.stderr
    tests_found = read_tests("pytest", output)
    assert found == (None if tests_found.failure else str(int(all(each.passes for each in tests_found.tests))))
    assert done.returncode == (1 if reward is None else 0)


def test_a_task_that_is_not_in_a_directory_is_no_row(tmp_path: Path) -> None:
    task = replace(task_of(tmp_path / "t", {}), directory="")
    with pytest.raises(InputError, match="is a task that was made of a row"):
        own_row(Problem("p", "?", task=task))
