"""Many callers, one thread that scores: everybody gets results of their own, and nobody waits for another's crowd."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from sandrl.errors import AuthenticationError, InputError, QueueFullError, ScorerClosedError, UsageError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.limits import Limits
from sandrl.judge.running import Program
from sandrl.problems import Call, Completion, Problem
from sandrl.sandboxes import Connection, Job, new_job_id
from sandrl.scoring.judging import SandboxJudging
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Answer, Scorer

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
SLEEP = "import time\ntime.sleep({seconds})\ndef f(x): return x + 1  # {number}"
OPTIONS = ScoreOptions()


@pytest.fixture
def job(connection: Connection) -> Iterator[Job]:
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=600, has_cells=True) as job:
        yield job


@pytest.fixture
def scorer(job: Job) -> Iterator[Scorer]:
    with Scorer(job, concurrency=4) as scorer:
        yield scorer


def answers(count: int, code: str = "def f(x): return x + 1  # {number}", first: int = 0) -> list[Answer]:
    numbers = range(first, first + count)
    return [(Completion(f"c{number}", "inc", code=code.replace("{number}", str(number))), INC) for number in numbers]


def sleepers(count: int, seconds: float) -> list[Answer]:
    return answers(count, SLEEP.replace("{seconds}", str(seconds)))


def ids(results: Sequence[ScoredCompletion]) -> list[str]:
    return [result.id for result in results]


def test_callers_on_many_threads_each_get_their_own_results(scorer: Scorer) -> None:
    found: dict[int, list[str]] = {}

    def ask(caller: int) -> None:
        found[caller] = ids(scorer.score(answers(5, first=caller * 5), OPTIONS, client=str(caller % 3)))

    threads = [threading.Thread(target=ask, args=(caller,)) for caller in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {caller: [f"c{number}" for number in range(caller * 5, caller * 5 + 5)] for caller in range(20)}
    assert (scorer.waiting, scorer.in_flight, scorer.unfinished) == (0, 0, 0)


def test_what_is_in_the_cache_is_answered_however_much_of_it_there_is(scorer: Scorer) -> None:
    same = [(Completion(str(number), "inc", code="def f(x): return x + 1"), INC) for number in range(300)]
    results = scorer.score(same, OPTIONS)
    assert [result.reward for result in results] == [1.0] * 300
    assert sum(not result.cached for result in results) == 1
    assert all(result.cached for result in scorer.score(same, OPTIONS))


@pytest.mark.parametrize("client", ["crowd", "another"])
def test_one_completion_waits_for_no_crowd_of_its_client_or_of_another(scorer: Scorer, client: str) -> None:
    crowd = scorer.submit(sleepers(60, 0.2), scorer.context(OPTIONS), client="crowd")
    time.sleep(0.3)
    scorer.score(answers(1, first=1000), OPTIONS, client=client)
    assert len(crowd.waiting) > 30
    crowd.cancel()


def test_clients_share_the_sandboxes_evenly_however_long_their_programs_run(scorer: Scorer) -> None:
    """A client whose programs sleep must not end up with all places because the others give theirs back."""
    slow = scorer.submit(sleepers(200, 0.5), scorer.context(OPTIONS), client="slow")
    quick = scorer.submit(answers(300, first=1000), scorer.context(OPTIONS), client="quick")
    time.sleep(2.0)
    shares = []
    for _ in range(20):
        shares.append(slow.client.in_flight)
        time.sleep(0.02)
    window = max(shares)
    assert quick.future.done() or sum(shares) / len(shares) <= 0.8 * window + 1
    assert quick.future.result(60)
    slow.cancel()


def test_what_is_cancelled_before_its_turn_never_runs(scorer: Scorer) -> None:
    told: list[ScoredCompletion] = []
    ticket = scorer.submit(sleepers(40, 0.2), scorer.context(OPTIONS), on_result=told.append)
    time.sleep(0.3)
    ticket.cancel()
    seen = len(told)
    assert scorer.waiting == 0
    with pytest.raises(CancelledError):
        ticket.future.result(1)
    scorer.score(answers(1, first=1000), OPTIONS)
    assert len(told) == seen < 40


def test_a_full_queue_refuses_and_says_when_to_come_again(job: Job) -> None:
    with Scorer(job, concurrency=2, max_waiting=10) as scorer:
        scorer.submit(sleepers(10, 0.5), scorer.context(OPTIONS))
        with pytest.raises(QueueFullError) as caught:
            scorer.submit(answers(10, first=100), scorer.context(OPTIONS))
        assert caught.value.retry_seconds >= 1
        with pytest.raises(QueueFullError):
            scorer.submit(answers(11, first=100), scorer.context(OPTIONS))


def test_a_closed_scorer_refuses_and_tells_those_who_wait(job: Job) -> None:
    scorer = Scorer(job, concurrency=2)
    ticket = scorer.submit(sleepers(50, 0.3), scorer.context(OPTIONS))
    scorer.close()
    scorer.close()
    with pytest.raises(ScorerClosedError):
        ticket.future.result(1)
    with pytest.raises(ScorerClosedError):
        scorer.submit(answers(1), scorer.context(OPTIONS))


def test_options_of_one_caller_change_no_verdict_of_another(scorer: Scorer) -> None:
    """A reference that cannot end within one caller's limit says nothing about the problem to another."""
    slow = Problem(
        "slow",
        "",
        fn="f",
        calls=(Call.asking([1]),),
        reference="import time\ndef f(x):\n    time.sleep(0.6)\n    return x + 1",
    )
    answer = [(Completion("c", "slow", code="def f(x): return x + 1"), slow)]
    hasty = ScoreOptions(limits=Limits(timeout_seconds=0.3, check_timeout_seconds=0.3))
    [refused] = scorer.score(answer, hasty)
    assert refused.status is Status.INVALID_PROBLEM
    [scored] = scorer.score(answer, OPTIONS)
    assert scored.reward == 1.0


def test_contexts_with_the_same_options_are_the_same_and_their_number_is_bounded(scorer: Scorer) -> None:
    first = scorer.context(OPTIONS)
    assert scorer.context(ScoreOptions()) is first
    assert scorer.context(OPTIONS, require_isolated=True) is not first
    for number in range(40):
        scorer.context(ScoreOptions(limits=Limits(timeout_seconds=1 + number)))
    assert len(scorer._context) <= 16


def test_an_error_of_one_batch_ends_its_requests_and_the_scorer_goes_on(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AuthenticationError("the key was revoked")

    with monkeypatch.context() as patched:
        patched.setattr(SandboxJudging, "begin", refuse)
        with pytest.raises(AuthenticationError, match="revoked"):
            scorer.score(answers(3), OPTIONS)
    assert [result.reward for result in scorer.score(answers(3), OPTIONS)] == [1.0] * 3


def test_a_problem_that_takes_more_than_sandboxes_have_is_refused(job: Job) -> None:
    with Scorer(job, longest_seconds=100) as scorer:
        with pytest.raises(UsageError, match="memory"):
            scorer.check(Problem("p", "", check="exit_status", memory_bytes=1 << 40), Limits())
        with pytest.raises(UsageError, match="time limits"):
            scorer.check(Problem("p", "", check="exit_status", timeout_seconds=1000), Limits())
        scorer.check(INC, Limits())


def ran(scorer: Scorer, code: str, seconds: float = 5, **fields: Any) -> Any:
    return scorer.run(Program(code, **fields), Limits(timeout_seconds=seconds)).result(60)


@pytest.mark.parametrize(
    ("code", "exit_status", "status"),
    [
        ("print(1)", 0, Status.PASSED),
        ("import os\nos._exit(0)", 0, Status.PASSED),
        ("raise ValueError(1)", 1, Status.FAILED),
        ("import sys\nsys.exit('no')", 1, Status.FAILED),
        ("x = [", 1, Status.SYNTAX_ERROR),
        ("import os\nos.kill(os.getpid(), 11)", -11, Status.CRASHED),
        ("import os\nos.kill(os.getpid(), 15)", -15, Status.CRASHED),
        ("import os\nos.execv('/bin/sh', ['sh', '-c', 'exit 7'])", 7, Status.FAILED),
    ],
)
def test_a_program_ends_as_it_would_anywhere(scorer: Scorer, code: str, exit_status: int, status: Status) -> None:
    result = ran(scorer, code)
    assert (result.run.exit_status, result.status) == (exit_status, status)


def test_a_program_finds_its_files_and_leaves_others(scorer: Scorer) -> None:
    files = {"data/in.txt": "hello", "helper.py": "VALUE = 7", "solution.py": "NAME = 'mine'"}
    code = (
        "import helper, solution\nopen('out.bin', 'wb').write(bytes(range(256)))\n"
        "print(open('data/in.txt').read(), helper.VALUE, solution.NAME)\nopen('/tmp/whole', 'w').write('w')"
    )
    fetch = ("out.bin", "data/in.txt", "missing", "/tmp/whole")
    result = ran(scorer, code, files=files, fetch=fetch)
    assert result.run.stdout == "hello 7 mine\n"
    assert result.files == {"out.bin": bytes(range(256)), "data/in.txt": b"hello", "/tmp/whole": b"w"}


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.symlink('/etc/passwd', 'out')",
        "import os\nos.symlink('/etc', 'folder')\n",
        "import os\nos.mkfifo('out')",
        "import os\nos.mkdir('out')",
        "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)",
    ],
)
def test_only_plain_files_of_its_own_are_fetched(scorer: Scorer, code: str) -> None:
    result = ran(scorer, code, fetch=("out", "folder/passwd"))
    assert result.status is Status.PASSED
    assert result.files == {}


def test_a_file_that_is_too_large_is_named_and_left_out(scorer: Scorer) -> None:
    code = "open('large', 'wb').write(bytes(20 << 20))\nopen('small', 'w').write('s')"
    result = ran(scorer, code, fetch=("large", "small"))
    assert (result.files, result.omitted) == ({"small": b"s"}, ("large",))


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "/tmp/../etc/passwd", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(InputError, match=r"fetch\[0\]"):
        Program("", fetch=(path,))


def test_a_program_cannot_say_itself_how_it_ended(scorer: Scorer) -> None:
    """What the judge reports has a key that the program does not know."""
    forged = "print('0' * 32 + ' returned 0 - -')\nprint('x' * 32, 'passed', 'p', 0, 0, 0, 0, 0, '-', '-')\nexit(4)"
    result = ran(scorer, forged)
    assert result.run.exit_status == 4
    assert result.run.stdout.startswith("0" * 32)


def test_programs_in_other_languages_find_and_leave_files_too(scorer: Scorer) -> None:
    failing = ran(scorer, "echo out; cat helper.txt; echo made > made; exit 9", language="bash",
                  files={"helper.txt": "help"}, fetch=("made",))  # fmt: skip
    assert (failing.run.exit_status, failing.run.stdout) == (9, "out\nhelp")
    assert failing.files == {"made": b"made\n"}


def test_an_unknown_language_is_refused(scorer: Scorer) -> None:
    with pytest.raises(InputError, match="language"):
        scorer.run(Program("", language="klingon"), Limits())


def test_a_program_given_up_before_its_turn_never_runs(scorer: Scorer) -> None:
    crowd = scorer.submit(sleepers(40, 0.3), scorer.context(OPTIONS), client="same")
    running = scorer.run(Program("print(1)"), Limits(), client="same")
    waiting = scorer.waiting
    running.cancel()
    assert scorer.waiting == waiting - 1
    crowd.cancel()
