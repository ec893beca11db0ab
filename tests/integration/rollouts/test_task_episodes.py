"""Episodes of a scripted model on tasks, in real machines, judged by the verifiers of the tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sandrl.config.words import EpisodeKind
from sandrl.events.results import Status
from sandrl.models import client
from sandrl.models.client import ModelEndpoint
from sandrl.models.endpoint import EndpointModel
from sandrl.problems import Problem, load_problems
from sandrl.rewards import Judge, ScoreOptions, VerdictCache
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode, play
from sandrl.rollouts.results import result_of
from sandrl.rollouts.shared_job import SharedJob
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from tests.support.scripted_model import MODEL, Answer, Fault, Says, Script, ScriptedModel
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import INSTRUCTION, judge, write_shell_task

Play = Callable[..., Episode]
SUBMIT = Says("", [("submit", {})])


@pytest.fixture(scope="session", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


def problem_of(directory: Path) -> Problem:
    (problem,) = load_problems(str(directory)).problems.values()
    return problem


@pytest.fixture
def played() -> Play:
    """Plays an episode against a script, and stops all sandboxes."""

    def run(script: Script | Sequence[Answer], problem: Problem, options: EpisodeOptions | None = None) -> Episode:
        options = options or EpisodeOptions()
        connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
        episode = new_episode(0, "e", problem, options)
        with (
            ScriptedModel(script) as server,
            Job(connection, job_id=new_job_id(), max_lifetime_seconds=300) as job,
            SharedJob(job, Judge.on(connection), ScoreOptions(backoff_seconds=0.01), VerdictCache()) as sandboxes,
        ):
            play(episode, EndpointModel(ModelEndpoint(server.base_url, retries=1), MODEL), sandboxes, options)
        assert job.unstopped == ()
        return episode

    return run


def bash(command: str, **arguments: object) -> Says:
    return Says("", [("bash", {"command": command, **arguments})])


def observations(episode: Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "tool"]


def test_what_a_model_makes_of_the_machine_is_its_answer(played: Play, tmp_path: Path) -> None:
    look = bash("id -un; pwd; ls /tests /solution 2>/dev/null; (exit 3)")
    episode = played([look, bash("echo done > answer"), SUBMIT], problem_of(write_shell_task(tmp_path / "t")))
    assert [message.role for message in episode.messages[:2]] == ["system", "user"]
    assert episode.messages[1].content == INSTRUCTION
    assert observations(episode) == ["app\n/home/app\nerror: exit code 3", "(no output)", "Submitted."]
    result = result_of(episode)
    assert (result.reward, result.status, result.trust) == (1.0, Status.PASSED, "shared")
    assert (episode.end, episode.tool_calls, episode.loss) == ("submitted", 3, "")
    assert all(seconds > 0 for seconds in episode.seconds.values())


def test_a_model_that_stops_is_judged_by_what_is_there(played: Play, tmp_path: Path) -> None:
    problem = problem_of(write_shell_task(tmp_path / "t"))
    episode = played([bash("echo half > answer"), Says("I am done.")], problem)
    assert (episode.end, result_of(episode).reward) == ("no tool calls", 0.0)
    episode = played([bash("echo done > answer")], problem, EpisodeOptions(max_tool_calls=3))
    assert (episode.end, episode.tool_calls, result_of(episode).reward) == ("no tool calls left", 3, 1.0)


def test_an_episode_ends_when_no_command_can_be_executed_any_more(played: Play, tmp_path: Path) -> None:
    task = write_shell_task(tmp_path / "t")
    config = (task / "task.toml").read_text().replace('user = "app"', 'user = "root"')
    (task / "task.toml").write_text(config)
    destroy = bash("rm -rf /bin /usr/bin /sbin /usr/sbin")
    episode = played([bash("echo done > answer"), destroy, bash("true")], problem_of(task))
    told = observations(episode)
    assert (episode.end, episode.tool_calls, episode.loss) == ("sandbox destroyed", 5, "")
    assert [each.splitlines()[1] for each in told[2:]] == ["error: exit code 126"] * 3
    assert result_of(episode).reward == 0.0


def test_the_terminal_keeps_its_state_and_its_programs(played: Play, tmp_path: Path) -> None:
    script = [
        bash("mkdir sub && cd sub && export WORD=done; f() { echo $WORD; }"),
        bash("pwd; f > ../answer"),
        Says("", [("terminal", {})]),
        bash("read -r line; echo got $line", timeout_seconds=1),
        Says("", [("terminal", {"text": "abc\n"})]),
        bash("echo begun; sleep 600", timeout_seconds=1),
        bash("echo no"),
        Says("", [("terminal", {"key": "ctrl-shift-x"})]),
        Says("", [("terminal", {"key": "ctrl-c"})]),
        bash("sleep 600 & echo started"),
        bash("seq 100000"),
        bash("exit 3"),
        bash("pwd"),
        SUBMIT,
    ]
    episode = played(script, problem_of(write_shell_task(tmp_path / "t")))
    told = observations(episode)
    assert told[:4] == [
        "(no output)",
        "/home/app/sub",
        "error: no program runs in the terminal; run one with `bash`",
        "The program still runs after 1 s.",
    ]
    assert told[4].endswith("got abc")
    assert told[5] == "begun\nThe program still runs after 1 s."
    assert told[6].startswith("error: the last command still runs; with `terminal`, see its output")
    assert told[7].startswith("error: 'ctrl-shift-x' is not a key")
    assert told[8].endswith("error: exit code 130")
    assert "started" in told[9]
    assert re.search(r"^1\n2\n.*\n\[\.\.\. \d+ bytes are left out \.\.\.\]\n.*\n99999\n100000$", told[10], re.DOTALL)
    assert len(told[10]) < 12_100
    assert told[11].endswith("error: exit code 3\nThe shell has ended; the next command gets a new one.")
    assert told[12:] == ["/home/app", "Submitted."]
    assert result_of(episode).reward == 1.0


def test_files_are_those_of_the_agent(played: Play, tmp_path: Path) -> None:
    script = [
        Says("", [("write_file", {"path": "new/file", "content": "one two"})]),
        Says("", [("edit_file", {"path": "new/file", "old": "one", "new": "1"})]),
        bash("cat new/file; stat -c %u new/file"),
        Says("", [("write_file", {"path": "/root/file", "content": ""})]),
        Says("", [("write_file", {"path": "answer", "content": "done\n"})]),
        SUBMIT,
    ]
    episode = played(script, problem_of(write_shell_task(tmp_path / "t")))
    told = observations(episode)
    assert told[:3] == ["Written.", "Edited.", "1 two1000"]
    assert told[3].startswith("error: ")
    assert result_of(episode).reward == 1.0


def test_arguments_that_no_program_takes_are_observations(played: Play, tmp_path: Path) -> None:
    script = [
        Says("", [("write_file", {"path": "a\0b", "content": "x"})]),
        Says("", [("edit_file", {"path": "a\0b", "old": "x", "new": "y"})]),
        Says("", [("write_file", {"path": "", "content": "x"})]),
        Says("", [("write_file", {"path": "a" * 300, "content": "x"})]),
        bash("echo a\0b; echo '\ud83d'"),
        bash("echo 'a\r\x1b[31mb\t\x07'"),
        bash("'"),
        Says("", [("terminal", {"key": "ctrl-c"})]),
        bash("echo done > answer", timeout_seconds=-1),
        bash("sleep 1; cat answer", timeout_seconds=1e300),
        SUBMIT,
    ]
    episode = played(script, problem_of(write_shell_task(tmp_path / "t")))
    told = observations(episode)
    assert all(each.startswith("error: ") for each in told[:4]), told[:4]
    assert (told[9], told[10]) == ("done", "Submitted.")
    assert result_of(episode).reward == 1.0


def test_the_time_of_the_agent_ends_the_work_which_is_judged(played: Play, tmp_path: Path) -> None:
    task = write_shell_task(tmp_path / "t", agent="timeout_sec = 3.0")
    episode = played([bash("echo done > answer; sleep 600")], problem_of(task))
    assert (episode.end, result_of(episode).reward) == ("time is up", 1.0)


def test_steps_are_one_conversation(played: Play, tmp_path: Path) -> None:
    files = {
        "instruction.md": None,
        "tests/test.sh": None,
        "steps/one/instruction.md": "First.",
        "steps/one/tests/test.sh": judge("1"),
        "steps/two/instruction.md": "Second.",
        "steps/two/tests/test.sh": judge("2"),
    }
    more = (
        '[[steps]]\nname = "one"\n[steps.agent]\nuser = "app"\n[[steps]]\nname = "two"\n[steps.agent]\nuser = "app"\n'
    )
    problem = problem_of(write_shell_task(tmp_path / "t", environment=more, files=files))
    script = [bash("echo 1 > answer"), SUBMIT, bash("cat answer; ls /tests; echo 3 > answer"), Says("Done.")]
    episode = played(script, problem)
    said = [message.content for message in episode.messages if message.role == "user"]
    assert said == ["First.", "Second."]
    assert observations(episode)[2].startswith("1\n")
    assert (episode.end, result_of(episode).reward) == ("no tool calls", 0.5)


@pytest.mark.parametrize("fault", [Fault(500), Fault(400, body={"error": {"message": "no"}})])
def test_an_episode_whose_endpoint_fails_is_lost(played: Play, tmp_path: Path, fault: Fault) -> None:
    problem = problem_of(write_shell_task(tmp_path / "t"))
    episode = played([bash("echo done > answer"), fault], problem)
    result = result_of(episode)
    assert (episode.end, result.reward, result.status) == ("lost", None, Status.INFRASTRUCTURE)
    assert episode.loss


def test_a_conversation_that_is_too_long_is_judged(played: Play, tmp_path: Path) -> None:
    full = Fault(400, body={"error": {"message": "the context is too long"}})
    episode = played([bash("echo done > answer"), full], problem_of(write_shell_task(tmp_path / "t")))
    assert (episode.end, result_of(episode).reward) == ("the conversation became too long", 1.0)


def test_a_task_whose_machine_cannot_be_had_is_lost_before_a_question(played: Play, tmp_path: Path) -> None:
    asked: list[int] = []
    task = write_shell_task(tmp_path / "t", environment="")
    config = (task / "task.toml").read_text().replace("tests/tasks:1", "tests/none:1")
    (task / "task.toml").write_text(config)

    def script(question: object) -> Answer:
        asked.append(1)
        return SUBMIT

    episode = played(script, problem_of(task))
    assert (asked, episode.end, result_of(episode).reward) == ([], "cannot be judged", None)


def test_answers_to_tasks_are_scripts_with_feedback(played: Play, tmp_path: Path) -> None:
    wrong, right = (f"```bash\necho {word} > answer\n```" for word in ("half", "done"))
    options = EpisodeOptions(EpisodeKind.ATTEMPTS)
    episode = played(
        [Says("no script"), Says(wrong), Says(right)], problem_of(write_shell_task(tmp_path / "t")), options
    )
    assert episode.messages[0].content.startswith("Solve the task with a shell script. Reply with the complete script")
    told = [message.content for message in episode.messages if message.role == "user"][1:]
    assert told[0].startswith("No code was found in your answer.")
    assert told[1].startswith("Your answer does not solve the task: the verifier gave 0\n")
    assert (episode.end, episode.attempts, result_of(episode).reward) == ("passed", 3, 1.0)
