"""Episodes of a scripted model in real sandboxes, judged by the real judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from sandrl.config.words import EpisodeKind, ToolSet
from sandrl.errors import AuthenticationError, RequestRefusedError
from sandrl.events.results import Status
from sandrl.models import client
from sandrl.models.client import ModelEndpoint
from sandrl.models.endpoint import EndpointModel
from sandrl.problems import Case, Problem
from sandrl.rewards import Judge, Limits, ScoreOptions, VerdictCache
from sandrl.rollouts.episodes import Episode, EpisodeOptions, new_episode, play
from sandrl.rollouts.feedback import NO_CODE, OTHERS_FAIL
from sandrl.rollouts.results import PlayedStep
from sandrl.rollouts.shared_job import SharedJob
from sandrl.runs import CANARY_TAG, ROLLOUT_TAG
from sandrl.runs.rows import SandboxEvent, SandboxRow
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from tests.support.assassin import Assassin
from tests.support.scripted_model import MODEL, Answer, Fault, Question, Says, Script, ScriptedModel

PROBLEM = Problem("inc", "Write f(x), which adds one.", tests=("assert f(1) == 2", "assert f(41) == 42"))
RIGHT = "def f(x):\n    return x + 1\n"
TOOLS = EpisodeOptions(EpisodeKind.TOOLS, ToolSet.ALL)
ATTEMPTS = EpisodeOptions(EpisodeKind.ATTEMPTS)
SUBMIT = Says("", [("submit_solution", {"code": RIGHT})])

Play = Callable[..., Episode]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


class Tags:
    """A ledger that keeps the tags of every sandbox."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[str, ...]] = {}

    def __call__(self, row: SandboxRow) -> None:
        if row.event is SandboxEvent.INTENT:
            self.of[row.key] = row.tags

    def count(self) -> tuple[int, int]:
        """How many sandboxes the model worked in, and how many judged it."""
        kinds = [{ROLLOUT_TAG, CANARY_TAG} & {*tags} for tags in self.of.values()]
        return kinds.count({ROLLOUT_TAG}), kinds.count(set())


@pytest.fixture
def ledger() -> Tags:
    return Tags()


@pytest.fixture
def played(ledger: Tags) -> Play:
    """Plays an episode against a script, and stops all sandboxes."""

    def run(script: Script | Sequence[Answer], options: EpisodeOptions, problem: Problem = PROBLEM) -> Episode:
        connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
        judge = Judge(with_site_packages=connection.has_site_packages)
        episode = new_episode(0, "e", problem, options)
        scoring = ScoreOptions(limits=Limits(timeout_seconds=2.0), backoff_seconds=0.01)
        with (
            ScriptedModel(script) as server,
            Job(connection, job_id=new_job_id(), max_lifetime_seconds=120, ledger=ledger) as job,
            SharedJob(job, judge, scoring, VerdictCache(), timeout_seconds=2.0) as sandboxes,
        ):
            play(episode, EndpointModel(ModelEndpoint(server.base_url, retries=1), MODEL), sandboxes, options)
        assert job.unstopped == ()
        return episode

    return run


def observations(episode: Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "tool"]


def test_a_model_tries_its_code_and_submits_it(played: Play, ledger: Tags) -> None:
    episode = played([Says("", [("execute_code", {"code": f"{RIGHT}print(f(1))"})]), SUBMIT], TOOLS)
    assert [message.role for message in episode.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert observations(episode) == ["2", "Submitted."]
    assert (episode.end, episode.tool_calls) == ("submitted", 2)
    assert episode.result is not None
    assert (episode.result.reward, episode.result.status, episode.result.passed) == (1.0, Status.PASSED, 2)
    assert episode.messages[2].logprobs == (-0.5,)
    assert ledger.count() == (1, 1)


def test_what_a_model_does_to_its_sandbox_does_not_decide_its_reward(played: Play) -> None:
    cheat = "open('helper.py', 'w').write('def f(x): return x + 1')"
    script = [
        Says("", [("execute_code", {"code": cheat})]),
        Says("", [("submit_solution", {"code": "from helper import f"})]),
    ]
    episode = played(script, TOOLS)
    assert episode.result is not None
    assert episode.result.reward == 0.0


def test_files_that_are_named_are_copied_over(played: Play) -> None:
    code = (
        "from __future__ import annotations\nfrom lib.helper import f\nassert open('data.bin', 'rb').read() == b'\\xff'"
    )
    script = [
        Says("", [("write_file", {"path": "lib/helper.py", "content": RIGHT})]),
        Says("", [("execute_code", {"code": "open('data.bin', 'wb').write(b'\\xff')"})]),
        Says("", [("submit_solution", {"code": code, "files": ["lib/helper.py", "data.bin"]})]),
    ]
    episode = played(script, TOOLS)
    assert episode.result is not None
    assert episode.result.reward == 1.0, episode.result.detail


def test_files_that_cannot_be_copied_leave_the_solution_unsubmitted(played: Play) -> None:
    bad: list[Answer] = [
        Says("", [("submit_solution", {"code": RIGHT, "files": [name]})]) for name in ("none.py", "/etc/passwd")
    ]
    many = Says("", [("submit_solution", {"code": RIGHT, "files": ["a"] * 17})])
    big = Says("", [("execute_code", {"code": "open('big', 'wb').truncate(300_000)"})])
    large = Says("", [("submit_solution", {"code": RIGHT, "files": ["big"]})])
    episode = played([*bad, many, big, large, SUBMIT], TOOLS)
    told = observations(episode)
    assert told[0].startswith("error: not submitted: none.py: No such file")
    assert "is outside the working directory" in told[1]
    assert "at most 16 files" in told[2]
    assert "larger than 262144 bytes" in told[4]
    assert episode.end == "submitted"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("execute_code", "{broken"), "error: the arguments of execute_code are wrong: no JSON object: Expecting"),
        (("", {}), "error: the call names no tool; the tools are execute_code, submit_solution, bash"),
        (("execute_code", {"code": "'\\ud800'; print('\\0')"}), "\x00"),
        (("read_file", {"path": "a\0b"}), "error: exit code 126"),
    ],
)
def test_whatever_is_wrong_with_a_call_is_an_observation(played: Play, call: tuple[str, object], told: str) -> None:
    episode = played([Says("", [call], ids=[""]), SUBMIT], TOOLS)
    assert observations(episode)[0].startswith(told)
    assert (episode.end, episode.loss) == ("submitted", "")
    calls = [call.id for message in episode.messages for call in message.tool_calls]
    assert calls[0]
    assert len(set(calls)) == 2


@pytest.mark.parametrize("calls", [1, 3])
def test_an_episode_ends_when_its_model_has_destroyed_the_sandbox(played: Play, calls: int) -> None:
    destroys = Says("", [("bash", {"command": "rm -rf /tmp/* /tmp/.[!.]*; chmod 000 /tmp"})])
    busy = Says("", [("execute_code", {"code": "print(1)"}), ("bash", {"command": "true"})] * calls)
    missing = Says("", [("bash", {"command": "no-such-program"})])
    episode = played([busy, missing, destroys, busy, SUBMIT], TOOLS)
    told = observations(episode)
    # A command that does not exist is no reason to end.
    assert told[2 * calls].endswith("error: exit code 127")
    assert told[2 * calls + 2].endswith("error: exit code 126")
    assert {*told[2 * calls + 3 :]} == {"error: no command can be executed any more, so the episode has ended"}
    assert (episode.end, episode.loss) == ("sandbox destroyed", "")
    assert episode.result is not None
    assert (episode.result.status, episode.result.reward) == (Status.NO_CODE, 0.0)
    assert PlayedStep(0, (episode,), 0, 1.0).metrics["episodes/destroyed"] == 1.0


def test_an_attempt_that_destroys_the_sandbox_is_the_last(played: Play) -> None:
    said = Says("```python\nimport os, shutil\nshutil.rmtree('/tmp', True)\nos.chmod('/tmp', 0)\n```")
    episode = played([said, said, Says(f"```python\n{RIGHT}```")], ATTEMPTS)
    assert (episode.end, episode.attempts) == ("sandbox destroyed", 2)
    assert episode.result is not None
    assert episode.result.reward == 0.0


def test_an_episode_without_calls_left_has_no_code(played: Play, ledger: Tags) -> None:
    busy = Says("", [("execute_code", {"code": "print(1)"})] * 3)
    episode = played([busy], EpisodeOptions(EpisodeKind.TOOLS, max_tool_calls=4))
    assert (episode.end, episode.tool_calls) == ("no tool calls left", 4)
    assert episode.result is not None
    assert (episode.result.status, episode.result.reward) == (Status.NO_CODE, 0.0)
    assert ledger.count() == (1, 0)


def test_a_message_without_a_call_is_the_last(played: Play) -> None:
    episode = played([Says(None)], TOOLS)
    assert [message.role for message in episode.messages[2:]] == ["assistant"]
    assert episode.end == "no tool calls"
    assert episode.result is not None
    assert episode.result.reward == 0.0


def answer(code: str) -> Says:
    return Says(f"Here:\n```python\n{code}\n```")


def test_errors_are_fed_back_and_files_stay_between_attempts(played: Play, ledger: Tags) -> None:
    script = [
        answer("open('left.txt', 'w').write('1')\ndef f(x): return x / 0"),
        Says("I have no idea."),
        answer("n = int(open('left.txt').read())\ndef f(x):\n    return x + 1"),
    ]
    episode = played(script, ATTEMPTS)
    fed_back = [message.content for message in episode.messages if message.role == "user"][1:]
    assert fed_back[0].startswith("Tests failed. Error output:\nTraceback")
    assert "ZeroDivisionError" in fed_back[0]
    assert "f(41)" not in "".join(fed_back)
    assert fed_back[1] == NO_CODE
    # It passed where its own file lay, and is judged where it does not.
    assert (episode.end, episode.attempts) == ("no attempts left", 3)
    assert episode.result is not None
    assert episode.result.reward == 0.0
    assert ledger.count() == (1, 1)


def test_hidden_tests_are_judged_and_never_named(played: Play) -> None:
    episode = played([answer("def f(x): return 2"), answer(RIGHT)], ATTEMPTS)
    assert (episode.end, episode.attempts) == ("passed", 2)
    assert episode.messages[3].content == OTHERS_FAIL
    assert episode.result is not None
    assert (episode.result.reward, episode.result.sandboxes, episode.result.reruns) == (1.0, 2, 1)


def test_what_a_hidden_check_got_and_expected_is_in_the_verdict_and_in_no_message(played: Play) -> None:
    secret = Problem("p", "Write f(x).", tests=("assert f(1) == 1", "assert f(31337) == 62674"))
    wrong = [answer(f"def f(x): return x  # {number}") for number in range(3)]
    episode = played(wrong, ATTEMPTS, secret)
    assert episode.result is not None
    assert [(check.got, check.expected) for check in episode.result.checks] == [(None, None), ("31337", "62674")]
    said = "".join(message.content for message in episode.messages)
    assert [word for word in ("31337", "62674") if word in said] == []


def test_an_attempt_that_takes_too_long_has_a_message_of_its_own(played: Play) -> None:
    episode = played([answer("while True: pass"), answer(RIGHT)], ATTEMPTS)
    assert "took too long" in episode.messages[3].content
    assert episode.end == "passed"


def test_an_attempt_at_a_program_is_tried_with_the_example_it_is_shown(played: Play) -> None:
    doubling = Problem("double", "Print twice the number.", cases=(Case("2\n", "4\n"), Case("5\n", "10\n")))
    episode = played([answer("print(input())"), answer("print(2 * int(input()))")], ATTEMPTS, doubling)
    assert episode.messages[3].content.endswith("your code printed:\n2")
    assert episode.end == "passed"


def test_an_endpoint_that_fails_loses_the_episode_and_gives_it_no_reward(played: Play, ledger: Tags) -> None:
    episode = played([answer("def f(x): return 2"), Fault(500)], ATTEMPTS)
    assert episode.end == "lost"
    assert "did not answer after 2 tries: HTTP 500" in episode.loss
    assert ledger.count() == (1, 1)


def test_a_sandbox_that_is_lost_loses_the_episode(played: Play) -> None:
    with Assassin() as assassin:
        episode = played([Says("", [("execute_code", {"code": assassin.code})]), SUBMIT], TOOLS)
    assert (episode.end, episode.result) == ("lost", None)
    assert episode.loss.startswith("the sandbox was lost")


def test_a_conversation_that_became_too_long_is_the_models_doing(played: Play) -> None:
    full = Fault(400, body={"error": {"message": "This model's maximum context length is 8192 tokens."}})
    episode = played([answer("def f(x): return 2"), full], ATTEMPTS)
    assert (episode.end, episode.loss) == ("the conversation became too long", "")
    assert episode.result is not None
    assert episode.result.reward == 0.0


def test_what_is_refused_from_the_start_ends_all_episodes_and_later_only_the_one(played: Play) -> None:
    refusal = Fault(400, body={"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
    with pytest.raises(RequestRefusedError, match="enable-auto-tool-choice"):
        played([refusal], TOOLS)
    episode = played([Says("", [("bad name!", {})]), refusal], TOOLS)
    assert episode.end == "lost"
    assert "enable-auto-tool-choice" in episode.loss


def test_a_tool_no_server_would_accept_is_named_acceptably_when_sent_back(played: Play) -> None:
    def strict(question: Question) -> Answer:
        calls = [call for message in question.messages for call in message.get("tool_calls", ())]
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call["function"]["name"]) for call in calls)
        return Says("", [("bad name!", {}), ("", {})]) if not question.turn else SUBMIT

    assert played(strict, TOOLS).end == "submitted"


def test_a_refused_key_ends_all_episodes(played: Play) -> None:
    with pytest.raises(AuthenticationError):
        played([Fault(401)], ATTEMPTS)
