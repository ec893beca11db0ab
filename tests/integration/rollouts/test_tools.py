"""The tools of an episode in real sandboxes: everything a policy brings about is something it can read."""

from __future__ import annotations

import pytest

from sandrl.events import Event, ExecutionFinished
from sandrl.rollouts.tools import AllTools, CodeTools, tools_factory
from sandrl.rollouts.workbench import OBSERVATION_CHARACTERS, Workshop
from tests.support.assassin import Assassin


@pytest.fixture
def tools(workshop: Workshop) -> AllTools:
    tools = AllTools(workshop)
    tools.reset(task_id="p1", prompt=[])
    return tools


def test_one_sandbox_serves_an_episode_and_another_the_next(tools: AllTools, told: list[Event]) -> None:
    assert tools.write_file("notes/a.txt", "27\n") == "(no output)"
    assert tools.read_file("notes/a.txt") == "27"
    assert tools.execute_code("print(int(open('notes/a.txt').read()) + 1)") == "28"
    assert tools.bash("cat notes/a.txt; exit 3") == "27\nerror: exit code 3"
    first = {event.sandbox_id for event in told if isinstance(event, ExecutionFinished)}
    assert len(first) == 1
    tools.reset(task_id="p2")
    assert tools.read_file("notes/a.txt") == "notes/a.txt: No such file or directory\nerror: exit code 1"
    outcomes = [(event.task_id, event.outcome) for event in told if isinstance(event, ExecutionFinished)]
    assert outcomes == [("p1", "success")] * 3 + [("p1", "failure"), ("p2", "failure")]


def test_errors_and_timeouts_are_observations(tools: AllTools, told: list[Event]) -> None:
    failed = tools.execute_code("print('before')\n1 / 0")
    assert failed.startswith("before\nTraceback")
    assert failed.endswith("ZeroDivisionError: division by zero\nerror: exit code 1")
    assert tools.execute_code("print('so far', flush=True)\nwhile True: pass").endswith("error: timeout")
    assert tools.execute_code("print('still here')") == "still here"
    assert isinstance(told[1], ExecutionFinished)
    assert (told[1].outcome, told[1].returncode) == ("error", None)


def test_the_loss_of_the_sandbox_is_an_observation_and_the_next_command_has_another(tools: AllTools) -> None:
    with Assassin() as assassin:
        assert "the sandbox was lost" in tools.execute_code(assassin.code)
    assert tools.execute_code("print(1)") == "1"


def test_long_output_loses_its_middle(tools: AllTools) -> None:
    seen = tools.execute_code("print('a' * 5000 + 'b' * 5000)")
    assert len(seen) < OBSERVATION_CHARACTERS + 60
    assert "8000 characters left out" in seen
    assert seen.startswith("aaa")
    assert seen.endswith("bbb")


def test_only_the_first_submission_counts_and_needs_no_sandbox(tools: AllTools, told: list[Event]) -> None:
    assert tools.submission == ""
    assert tools.submit_solution("def f(): pass") == "Submitted."
    assert tools.submit_solution("def g(): pass") == "error: a solution was submitted before"
    assert tools.submission == "def f(): pass"
    tools.reset(task_id="p2")
    assert tools.submission == ""
    assert told == []


def test_the_choice_of_tools_decides_what_a_policy_is_offered(workshop: Workshop) -> None:
    assert type(tools_factory("code", workshop)()) is CodeTools
    offered = {name for name in vars(AllTools) | vars(CodeTools) if not name.startswith("_")}
    assert offered == {"reset", "execute_code", "submit_solution", "bash", "read_file", "write_file"}
