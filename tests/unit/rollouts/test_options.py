"""What episodes have, by their options and their problems."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.config.words import EpisodeKind, Extraction, ToolSet
from sandrl.errors import UsageError
from sandrl.problems import Problem
from sandrl.problems.tasks.task import Environment, Task, TaskStep
from sandrl.rollouts.episodes import EpisodeOptions, check_player, is_mixed, new_episode

TASK = Problem("t", "Do it.", task=Task("t", "harbor 1.0", "0", Environment("image"), (TaskStep("Do it."),)))
SWE = Problem("s", "Fix it.", task=Task("s", "swe-bench", "0", Environment("image"), (TaskStep("Fix it."),)))
OTHER = Problem("p", "Add one.", tests=("assert f(1) == 2",))
TOOLS, ATTEMPTS = EpisodeOptions(EpisodeKind.TOOLS, ToolSet.ALL), EpisodeOptions(EpisodeKind.ATTEMPTS)


def names(options: EpisodeOptions, *problems: Problem) -> list[str]:
    return [tool["name"] for tool in options.offered(problems)]


def test_tasks_have_tools_unless_attempts_are_asked_for() -> None:
    usual = EpisodeOptions()
    assert [usual.has_tools(each) for each in (TASK, OTHER)] == [True, False]
    assert [TOOLS.has_tools(each) for each in (TASK, OTHER)] == [True, True]
    assert [ATTEMPTS.has_tools(each) for each in (TASK, OTHER)] == [False, False]


def test_the_tools_of_a_run_are_those_that_its_problems_have() -> None:
    of_tasks = ["bash", "terminal", "write_file", "edit_file", "submit"]
    others = ["execute_code", "submit_solution", "bash", "read_file", "write_file"]
    assert names(EpisodeOptions(), OTHER, TASK) == of_tasks
    assert names(TOOLS, TASK, SWE) == of_tasks
    assert names(TOOLS, TASK, OTHER) == names(TOOLS, OTHER) == others
    assert names(ATTEMPTS, TASK, OTHER) == []
    assert is_mixed([TASK, OTHER, SWE])
    assert not is_mixed([TASK, SWE])


def test_tasks_have_more_calls_unless_a_number_is_said() -> None:
    assert (TOOLS.most_calls(OTHER), TOOLS.most_calls(TASK)) == (20, 100)
    assert EpisodeOptions(max_tool_calls=7).most_calls(TASK) == 7


@pytest.mark.parametrize(
    ("problem", "options", "said"),
    [
        (TASK, EpisodeOptions(), "Solve the task with the tools, which work in its machine."),
        (OTHER, TOOLS, "Solve the task in Python. Submit the code with the tool submit_solution."),
        (TASK, ATTEMPTS, "Solve the task with a shell script. Reply with the complete script in one ```bash block."),
        (
            SWE,
            ATTEMPTS,
            "Solve the task with a patch, a unified diff. Reply with the complete patch in one ```diff",
        ),
        (
            TASK,
            EpisodeOptions(EpisodeKind.ATTEMPTS, extraction=Extraction.EXACT),
            "Solve the task with a shell script. Reply with the script only, between <answer> and </answer>.",
        ),
        (
            OTHER,
            EpisodeOptions(max_attempts=1),
            "Solve the task in Python. Reply with the code only, between <answer> and </answer>.",
        ),
    ],
)
def test_a_model_is_told_how_to_answer(problem: Problem, options: EpisodeOptions, said: str) -> None:
    messages = new_episode(0, "e", problem, options).messages
    assert [message.role for message in messages] == ["system", "user"]
    assert messages[0].content.startswith(said)


class _InThisProcess:
    name = "tiny"
    has_tools = False


def test_a_model_without_tools_is_refused_where_there_would_be_some() -> None:
    model: Any = _InThisProcess()
    check_player(model, [OTHER], EpisodeOptions())
    check_player(model, [TASK], ATTEMPTS)
    with pytest.raises(UsageError, match="tiny in this process supports only `attempts`; tools need an endpoint"):
        check_player(model, [OTHER, TASK], EpisodeOptions())
