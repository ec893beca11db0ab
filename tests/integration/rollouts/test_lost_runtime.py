"""The runtime ends while episodes are played: they go on in new sandboxes, with the files that they had."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cwsandbox
import pytest

from sandrl.config.words import EpisodeKind, ToolSet
from sandrl.events import Event, ExecutionFinished
from sandrl.models.client import ModelEndpoint
from sandrl.models.endpoint import EndpointModel
from sandrl.problems import Problem
from sandrl.rewards import Judge, Limits, ScoreOptions, VerdictCache
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode, play
from sandrl.rollouts.sandbox import LOST, EpisodeSandbox, JobSandboxes
from sandrl.rollouts.shared_job import SharedJob
from sandrl.rollouts.toolbox import Toolbox
from sandrl.runtime import daemon
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from tests.support.dead_daemon import kill_daemon
from tests.support.fork_server import inner_process
from tests.support.scripted_model import MODEL, Answer, Question, Says, ScriptedModel

PROBLEM = Problem("inc", "Write f(x), which adds one.", tests=("assert f(1) == 2", "assert f(41) == 42"))
PATIENCE_SECONDS = 60.0
APPEND = "open('log', 'a').write('x'); print(len(open('log').read()))"


def kill() -> None:
    kill_daemon(load_settings().state_dir)


def kill_at_once() -> None:
    kill_daemon(load_settings().state_dir, waits=False)


def kill_fork_server() -> None:
    endpoint = daemon.find(load_settings().state_dir)
    assert endpoint is not None
    os.kill(inner_process(endpoint.pid), signal.SIGKILL)


@pytest.fixture
def tools(sandboxes: JobSandboxes) -> Toolbox:
    return Toolbox(EpisodeSandbox(sandboxes, "p1", timeout_seconds=2.0), ToolSet.ALL, 100)


def execute(tools: Toolbox, code: str) -> str:
    return tools.call("execute_code", {"code": code})


def executions(told: Sequence[Event]) -> list[tuple[str, str | None]]:
    """The outcomes of commands, and where they ran."""
    return [(event.outcome, event.sandbox_id) for event in told if isinstance(event, ExecutionFinished)]


@pytest.mark.parametrize("strike", [kill_at_once, kill_fork_server])
def test_an_episode_goes_on_with_its_files_in_a_new_sandbox(
    tools: Toolbox, told: list[Event], strike: Callable[[], None]
) -> None:
    assert tools.call("write_file", {"path": "lib.py", "content": "def f(x): return x + 1\n"}) == "(no output)"
    assert [execute(tools, APPEND) for _ in range(2)] == ["1", "2"]
    strike()
    assert execute(tools, APPEND) == "3"
    assert tools.call("submit_solution", {"code": "from lib import f", "files": ["lib.py"]}) == "Submitted."
    tools.close()
    assert (tools.end, tools.loss, tools.calls) == ("submitted", "", 5)
    # Both sandboxes have run the first three commands; what failed in between names none.
    ran = [where for outcome, where in executions(told) if outcome == "success"]
    assert [ran.count(where) for where in dict.fromkeys(ran)] == [3, 5]


def test_a_command_that_runs_when_the_runtime_ends_runs_again(tools: Toolbox) -> None:
    assert execute(tools, APPEND) == "1"
    killer = threading.Timer(0.5, kill)
    killer.start()
    assert execute(tools, f"import time; time.sleep(1.2); {APPEND}") == "2"
    killer.join()
    assert tools.loss == ""
    tools.close()


def test_an_episode_that_cannot_be_repeated_exactly_is_lost(tools: Toolbox) -> None:
    assert execute(tools, "import os; print(os.urandom(8).hex())") != LOST
    kill()
    assert execute(tools, "print(1)") == LOST
    assert tools.end == "lost"
    assert "another result" in tools.loss


def test_a_runtime_that_ends_before_the_first_command_costs_nothing(tools: Toolbox) -> None:
    kill()
    assert execute(tools, "print(1)") == "1"
    tools.close()


def test_a_command_that_fails_before_its_input_is_handed_over_is_a_lost_command(
    tools: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert execute(tools, APPEND) == "1"
    kill()
    start = cwsandbox.Sandbox.exec

    def start_slowly(*arguments: Any, **named: Any) -> Any:
        """As where this thread gets no processor until the SDK's own has found that nothing answers."""
        monkeypatch.undo()
        process = start(*arguments, **named)
        with pytest.raises(cwsandbox.CWSandboxError):
            process.result(PATIENCE_SECONDS)
        return process

    monkeypatch.setattr(cwsandbox.Sandbox, "exec", start_slowly)
    assert execute(tools, APPEND) == "2"
    assert cwsandbox.Sandbox.exec is start
    tools.close()


def played(script: Callable[[Question], Answer], options: EpisodeOptions, count: int) -> list[Episode]:
    """Plays episodes against a script one after another, as `art rollout` does."""
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    judge = Judge(with_site_packages=connection.has_site_packages)
    scoring = ScoreOptions(limits=Limits(timeout_seconds=2.0), retries=0)
    episodes = [new_episode(number, f"e{number}", PROBLEM, options) for number in range(count)]
    with (
        ScriptedModel(script) as server,
        Job(connection, job_id=new_job_id(), max_lifetime_seconds=120) as job,
        SharedJob(job, judge, scoring, VerdictCache(), timeout_seconds=2.0) as sandboxes,
    ):
        model = EndpointModel(ModelEndpoint(server.base_url, retries=1), MODEL)
        threads = [threading.Thread(target=play, args=(each, model, sandboxes, options)) for each in episodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return episodes


def test_episodes_with_tools_are_played_to_their_ends_while_the_runtime_ends() -> None:
    kills: list[int] = []
    lock = threading.Lock()

    def script(question: Question) -> Answer:
        with lock:
            if question.turn == 2 and not kills:
                kill()
                kills.append(question.number)
        if question.turn < 4:
            return Says("", [("execute_code", {"code": APPEND})])
        return Says("", [("submit_solution", {"code": "def f(x):\n    return x + 1"})])

    episodes = played(script, EpisodeOptions(EpisodeKind.TOOLS, ToolSet.ALL), 4)
    for episode in episodes:
        said = [message.content for message in episode.messages if message.role == "tool"]
        assert (said, episode.end, episode.loss) == (["1", "2", "3", "4", "Submitted."], "submitted", "")
        assert episode.result is not None
        assert (episode.result.reward, episode.result.retries) == (1.0, 0)
        assert episode.tool_calls == 5
    assert kills


def test_an_attempt_after_the_runtime_ended_is_tried_like_any_other() -> None:
    def script(question: Question) -> Answer:
        if question.turn == 0:
            return Says("```python\ndef f(x):\n    return x\n```")
        kill()
        return Says("```python\ndef f(x):\n    return x + 1\n```")

    (episode,) = played(script, EpisodeOptions(EpisodeKind.ATTEMPTS), 1)
    assert (episode.end, episode.attempts, episode.loss) == ("passed", 2, "")
    assert episode.result is not None
    assert episode.result.reward == 1.0
