"""The tools of an episode in real sandboxes: everything a policy brings about is something it can read."""

from __future__ import annotations

import pytest

from sandrl.config.words import ToolSet
from sandrl.events import Event, ExecutionFinished
from sandrl.rollouts.sandbox import LOST, EpisodeSandbox, JobSandboxes
from sandrl.rollouts.toolbox import Toolbox
from tests.support.assassin import Assassin


@pytest.fixture
def tools(sandboxes: JobSandboxes) -> Toolbox:
    return Toolbox(EpisodeSandbox(sandboxes, "p1", timeout_seconds=2.0), ToolSet.ALL, 100)


def execute(tools: Toolbox, code: str) -> str:
    return tools.call("execute_code", {"code": code})


def test_one_sandbox_serves_an_episode_and_another_the_next(
    tools: Toolbox, sandboxes: JobSandboxes, told: list[Event]
) -> None:
    assert tools.call("write_file", {"path": "notes/a.txt", "content": "27\n"}) == "(no output)"
    assert tools.call("read_file", {"path": "notes/a.txt"}) == "27"
    assert execute(tools, "print(int(open('notes/a.txt').read()) + 1)") == "28"
    assert tools.call("bash", {"command": "cat notes/a.txt; exit 3"}) == "27\nerror: exit code 3"
    tools.close()
    first = {event.sandbox_id for event in told if isinstance(event, ExecutionFinished)}
    assert len(first) == 1
    other = Toolbox(EpisodeSandbox(sandboxes, "p2", timeout_seconds=2.0), ToolSet.ALL, 100)
    missing = "notes/a.txt: No such file or directory\nerror: exit code 1"
    assert other.call("read_file", {"path": "notes/a.txt"}) == missing
    other.close()
    outcomes = [(event.task_id, event.outcome) for event in told if isinstance(event, ExecutionFinished)]
    assert outcomes == [("p1", "success")] * 3 + [("p1", "failure"), ("p2", "failure")]


def test_the_start_of_the_sandbox_is_measured_with_its_first_command(tools: Toolbox, told: list[Event]) -> None:
    for _ in range(3):
        execute(tools, "pass")
    first, *others = [event for event in told if isinstance(event, ExecutionFinished)]
    assert first.startup_seconds is not None
    assert first.startup_seconds > 0
    assert first.exec_seconds is not None
    assert [event.startup_seconds for event in others] == [None, None]


def test_errors_and_timeouts_are_observations(tools: Toolbox, told: list[Event]) -> None:
    failed = execute(tools, "print('before')\n1 / 0")
    assert failed.startswith("before\nTraceback")
    assert failed.endswith("ZeroDivisionError: division by zero\nerror: exit code 1")
    assert execute(tools, "print('so far', flush=True)\nwhile True: pass") == "so far\nerror: timeout"
    assert execute(tools, "print('still here')") == "still here"
    assert isinstance(told[1], ExecutionFinished)
    assert (told[1].outcome, told[1].returncode) == ("error", None)
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    assert execute(tools, deaf).endswith("error: exit code 137")


def test_the_loss_of_the_sandbox_ends_the_episode(tools: Toolbox, told: list[Event]) -> None:
    with Assassin() as assassin:
        assert execute(tools, assassin.code) == LOST
    assert tools.end == "lost"
    assert tools.loss
    assert tools.call("submit_solution", {"code": "x = 1"}) == LOST
    assert (tools.solution, tools.calls, len(told)) == (None, 1, 1)


def test_what_nobody_will_read_stays_in_the_sandbox(sandboxes: JobSandboxes) -> None:
    sandbox = EpisodeSandbox(sandboxes, "p", timeout_seconds=2.0)
    outcome = sandbox.outcome("python", "-", stdin="import sys; print('a' * 9_000_000, 'b'); sys.exit(3)")
    left = sandbox.run("sh", "-c", "ls /tmp | wc -l")
    sandbox.close()
    assert outcome is not None
    assert (len(outcome.stdout), outcome.stdout[:2], outcome.stdout[-2:]) == (512 * 1024, b"aa", b"b\n")
    assert outcome.exit_code == 3
    # What the command itself prints into.
    assert left == "1"


def test_only_the_first_submission_counts_and_needs_no_sandbox(tools: Toolbox, told: list[Event]) -> None:
    assert (tools.solution,) == (None,)
    assert tools.call("submit_solution", {"code": "def f(): pass"}) == "Submitted."
    assert tools.call("submit_solution", {"code": "def g(): pass"}) == "error: a solution was submitted before"
    assert (tools.solution, tools.calls, tools.end) == ("def f(): pass", 1, "submitted")
    assert told == []
