"""Scoring through the real SDK on the real local runtime, with real faults."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cwsandbox import AuthHeaders, Sandbox

from sandrl.config.scoring import RewardConfig
from sandrl.errors import AuthenticationError, UsageError
from sandrl.events import CompletionFinished, Event, SandboxCreated, SandboxStopped, Warned
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.problems import Completion, Problem
from sandrl.rewards import Extraction, Limits, ScoreOptions, run_reward, score
from sandrl.runs import RunOutcome, RunReader, SandboxEvent
from sandrl.sandboxes import (
    Command,
    Connection,
    Interrupt,
    Job,
    JobEntry,
    find_owner,
    new_job_id,
    read_jobs,
)
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.settings import RuntimeKind, Settings
from tests.support.judges import InProcessJudge, reward_config
from tests.support.wheels import Index

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
EACH_FOR_ITSELF = ScoreOptions(concurrency=4, caching=False)
SLOW = "import time\ntime.sleep(1.5)\n" + RIGHT


def completions(*codes: str) -> list[Completion]:
    return [Completion(f"c{number}", "inc", code=code) for number, code in enumerate(codes)]


def sandboxes_with(connection: Connection, tag: str, *, ended: bool = False) -> list[Sandbox]:
    assert isinstance(connection, SdkConnection)
    auth = AuthHeaders(headers={"Authorization": f"Bearer {connection.token}"}, strategy="test")
    listing = Sandbox.list(tags=[tag], show_terminated=ended, base_url=connection.address, auth=auth)
    return listing.result(30)


def test_results_come_in_input_order_and_events_in_order_of_arrival(job: Job) -> None:
    told: list[Event] = []
    arrived: list[ScoredCompletion] = []
    report = score(
        completions(SLOW, WRONG, RIGHT),
        {"inc": INC},
        job=job,
        options=ScoreOptions(concurrency=3),
        emit=told.append,
        on_result=arrived.append,
    )
    assert [result.index for result in report.results] == [0, 1, 2]
    assert [result.reward for result in report.results] == [1.0, 0.0, 1.0]
    assert arrived[-1].index == 0
    finished = [event for event in told if isinstance(event, CompletionFinished)]
    assert [event.finished for event in finished] == [1, 2, 3]
    assert [event.result.index for event in finished] == [result.index for result in arrived]


# The check sets the random state of its own process.
LOGGING = Problem(
    "logging",
    "",
    tests=("import logging\nlogging.getLogger().setLevel(10)\nassert level() == 10",),
    entry_point="level",
    reference="import logging\ndef level():\n    return logging.getLogger().level\n",
)
# Passes only in the process of its check.
LOOKS_AT_ITS_CALLER = "import sys\ndef f():\n    return sys._getframe(1).f_globals['expected']\n"


def test_a_reference_decides_once_that_checks_need_one_process_and_no_completion_does(job: Job) -> None:
    unknown = Problem("unknown", "", ("expected = 7\nassert f() == expected",))
    apart = Problem("apart", "", ("x = f(1)\nassert x == 2",), entry_point="f", reference=RIGHT)
    # Nothing of these is on disk.
    logging, unknown, apart = (
        replace(each, tests=(f"{each.tests[0]}  # {job.id}",)) for each in (LOGGING, unknown, apart)
    )
    assert logging.reference is not None
    codes = [logging.reference, logging.reference + "# again\n", "def level():\n    return 0\n"]
    report = score(
        [Completion(f"c{number}", "logging", code=code) for number, code in enumerate(codes)]
        + [Completion("r", "unknown", code=LOOKS_AT_ITS_CALLER), Completion("w", "apart", code=WRONG)],
        {"logging": logging, "unknown": unknown, "apart": apart},
        job=job,
        options=EACH_FOR_ITSELF,
    )
    [in_one_process] = score(
        [Completion("r", "unknown", code=LOOKS_AT_ITS_CALLER)], {"unknown": unknown}, job=job, judge=InProcessJudge()
    ).results
    assert in_one_process.reward == 1.0
    assert [result.reward for result in report.results] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert [result.trust for result in report.results] == [Trust.IN_PROCESS] * 3 + [Trust.ISOLATED] * 2
    # The reference of `logging` apart, in one process, and apart again; an empty answer to `unknown`; that of `apart`.
    assert report.summary.canaries == 5


def test_every_completion_has_a_sandbox_of_its_own_and_none_is_left(connection: Connection) -> None:
    told: list[Event] = []
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60, emit=told.append) as job:
        report = score(completions(*[RIGHT] * 12), {"inc": INC}, job=job, options=EACH_FOR_ITSELF)
    used = [result.sandbox_id for result in report.results]
    assert len(set(used)) == 12
    assert {event.sandbox_id for event in told if isinstance(event, SandboxCreated)} == set(used)
    assert {event.sandbox_id for event in told if isinstance(event, SandboxStopped)} == set(used)
    assert sandboxes_with(connection, job.id) == []
    assert len(sandboxes_with(connection, job.id, ended=True)) == 12
    assert job.unstopped == ()


def test_a_sandbox_carries_the_tags_of_job_owner_problem_and_user(connection: Connection) -> None:
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60, tags=["model:a/b"]) as job:
        score(completions(RIGHT), {"inc": INC}, job=job)
    [sandbox] = sandboxes_with(connection, "problem-inc", ended=True)[-1:]
    assert set(job.tags) <= set(sandbox.tags)
    assert {"rl-training", job.id, f"owner-{job.owner.hash}"} <= set(sandbox.tags)


def test_no_code_uses_no_sandbox(connection: Connection) -> None:
    told: list[Event] = []
    texts = [Completion("a", "inc", completion="I do not know."), Completion("b", "inc", completion="Nor do I.")]
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        report = score(texts, {"inc": INC}, job=job, emit=told.append)
    assert [(result.status, result.reward, result.sandbox_id) for result in report.results] == [
        (Status.NO_CODE, 0.0, None)
    ] * 2
    assert any(isinstance(event, Warned) and "`extract` auto" in event.message for event in told)
    assert sandboxes_with(connection, job.id, ended=True) == []


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"token": "wrong"}, AuthenticationError, None),
        pytest.param({"image": "127.0.0.1:1/none"}, UsageError, r"host python3\.", id="an image, with what there is"),
    ],
)
def test_refused_credentials_or_images_end_the_work_at_once(
    connection: Connection, wrong: dict[str, str], error: type[Exception], message: str | None
) -> None:
    assert isinstance(connection, SdkConnection)
    refused = replace(connection, renew=None, **wrong)  # type: ignore[arg-type]
    with pytest.raises(error, match=message), Job(refused, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        score(completions(RIGHT, RIGHT), {"inc": INC}, job=job)


def test_the_session_goes_where_the_connection_says(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CWSANDBOX_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        report = score(completions(RIGHT), {"inc": INC}, job=job)
    assert report.summary.passed == 1
    assert os.environ["CWSANDBOX_BASE_URL"] == "http://127.0.0.1:9"


def test_the_first_wish_to_stop_finishes_what_is_in_flight(job: Job) -> None:
    interrupt = Interrupt()
    threading.Timer(0.5, interrupt.request, [signal.SIGINT]).start()
    report = score(
        completions(*[SLOW] * 6),
        {"inc": INC},
        job=job,
        options=replace(EACH_FOR_ITSELF, concurrency=2),
        interrupt=interrupt,
    )
    assert [result.reward for result in report.results] == [1.0, 1.0]
    assert (report.unfinished, report.signal_number) == (4, signal.SIGINT)


def test_the_second_wish_to_stop_cancels_and_leaves_no_sandbox(connection: Connection) -> None:
    interrupt = Interrupt()
    for seconds in (0.4, 0.6):
        threading.Timer(seconds, interrupt.request, [signal.SIGINT]).start()
    began = time.monotonic()
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        sleeper = "import time\ntime.sleep(60)"
        options = replace(EACH_FOR_ITSELF, limits=Limits(timeout_seconds=100))
        report = score(completions(*[sleeper] * 8), {"inc": INC}, job=job, options=options, interrupt=interrupt)
    assert report.results == ()
    assert report.unfinished == 8
    assert sandboxes_with(connection, job.id) == []
    assert time.monotonic() - began < 55


def test_an_error_in_the_middle_leaves_no_sandbox(connection: Connection) -> None:
    def fail(result: ScoredCompletion) -> None:
        raise RuntimeError("the disk is full")

    job = Job(connection, job_id=new_job_id(), max_lifetime_seconds=60)
    with pytest.raises(RuntimeError, match="disk"), job:
        score(completions(RIGHT, *[SLOW] * 3), {"inc": INC}, job=job, options=EACH_FOR_ITSELF, on_result=fail)
    assert sandboxes_with(connection, job.id) == []


@pytest.mark.slow
def test_a_crowded_machine_makes_no_honest_completion_time_out(job: Job) -> None:
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n" + RIGHT
    told: list[Event] = []
    codes = [busy] * (8 * (os.cpu_count() or 1)) + ["import time\ntime.sleep(60)"]
    options = replace(EACH_FOR_ITSELF, limits=Limits(timeout_seconds=1), concurrency=len(codes))
    report = score(completions(*codes), {"inc": INC}, job=job, options=options, emit=told.append)
    assert [result.reward for result in report.results] == [1.0] * (len(codes) - 1) + [0.0]
    assert report.results[-1].sandboxes == 1, "who sleeps has waited for nobody"


@pytest.fixture
def request_of_demo(tmp_path: Path) -> RewardConfig:
    return RewardConfig(runtime=RuntimeKind.LOCAL, tags=("mine",), runs_dir=tmp_path, run_name="demo")


def test_a_run_leaves_a_directory_that_says_everything(settings: Settings, request_of_demo: RewardConfig) -> None:
    finished = run_reward(request_of_demo, settings)
    run = RunReader(finished.run_dir)
    assert run.config.options["extract"] == Extraction.AUTO
    assert run.config.options["runtime_kind"] == "local"
    assert run.config.options["tags"] == ["mine"]
    assert [job.outcome for job in run.config.jobs] == [RunOutcome.FINISHED]
    assert sorted(row.task_id for row in run.trajectories().rows) == sorted(
        ["slow-sum", "string-ops", "delayed-error", "syntax-error", "slow-list"]
    )
    assert all(row.completion and row.code for row in run.trajectories().rows)
    [metrics] = run.metrics().rows
    assert metrics.metrics["pass_rate"] == 0.6
    finished.raise_for_outcome()


@pytest.mark.parametrize("fresh", [False, True], ids=["cells", "fresh"])
def test_the_ledger_tells_of_every_sandbox_before_it_exists(
    settings: Settings, request_of_demo: RewardConfig, fresh: bool
) -> None:
    finished = run_reward(request_of_demo.model_copy(update={"fresh_sandboxes": fresh}), settings)
    lines = RunReader(finished.run_dir).sandboxes().rows
    by_key: dict[str, list[SandboxEvent]] = {}
    for line in lines:
        by_key.setdefault(line.key, []).append(line.event)
    once = [SandboxEvent.INTENT, SandboxEvent.CREATED, SandboxEvent.STOPPED]
    assert list(by_key.values()) == [once] * (5 if fresh else 1)
    assert all("mine" in line.tags and line.owner is not None for line in lines if line.event is SandboxEvent.INTENT)


@pytest.mark.parametrize("runtime", [RuntimeKind.LOCAL, RuntimeKind.DAEMONLESS])
@pytest.mark.parametrize("fresh", [False, True])
def test_packages_of_a_command_or_of_a_problem_are_installed_for_its_job_only(
    runtime: RuntimeKind, fresh: bool, settings: Settings, tmp_path: Path, index: Index
) -> None:
    index.add("own-package", files={"own_package.py": "def one(): return 1\n"})
    row = {"task_id": "t", "prompt": "", "tests": ["import own_package\nassert f() == own_package.one()"]}
    problems, naming, answers = (tmp_path / f"{name}.jsonl" for name in ("p", "n", "c"))
    problems.write_text(json.dumps(row))
    naming.write_text(json.dumps({**row, "packages": ["own-package>=1", "missing_package"][: 1 if fresh else 2]}))
    codes = ["import own_package\ndef f(): return own_package.one()", "def f(): return 2"]
    answers.write_text("".join(json.dumps({"task_id": "t", "code": code}) + "\n" for code in codes))
    base = RewardConfig(
        completions=str(answers), problems=str(problems), runtime=runtime, runs_dir=tmp_path, fresh_sandboxes=fresh
    )

    def results(**update: object) -> list[tuple[float | None, Status, Trust | None]]:
        found = run_reward(base.model_copy(update=update), settings).report.results
        return [(each.reward, each.status, each.trust) for each in found]

    judged = [(1.0, Status.PASSED, Trust.ISOLATED), (0.0, Status.FAILED, Trust.ISOLATED)]
    assert results(packages=("own-package",)) == judged
    invalid = [(None, Status.INVALID_PROBLEM, None)] * 2
    assert results() == invalid, "other jobs do not have it"
    assert results(problems=str(naming)) == (judged if fresh else invalid)


def test_a_job_is_registered_while_it_has_sandboxes_and_no_longer(connection: Connection) -> None:
    assert connection.state_dir is not None
    job = Job(connection, job_id=new_job_id(), command="testing", max_lifetime_seconds=60)

    def entries() -> list[JobEntry]:
        assert connection.state_dir is not None
        return [entry for entry in read_jobs(connection.state_dir) if entry.job_id == job.id]

    with job:
        assert entries() == [], "nothing was asked for yet"
        job.launch(Command(("true",)))
        (entry,) = entries()
        assert (entry.command, entry.tags, entry.address) == ("testing", job.tags, connection.address)
        assert find_owner(connection.state_dir, job.owner.hash) == job.owner
    assert entries() == []


def test_what_is_printed_is_in_the_run_and_no_longer_in_memory(tmp_path: Path, settings: Settings) -> None:
    codes = [f"print({number}, 'x' * 10_000)\n{RIGHT}" for number in range(4)]
    told: list[Event] = []
    run = run_reward(reward_config(tmp_path, INC, codes), settings, emit=told.append)
    assert [(result.reward, result.stdout) for result in run.report.results] == [(1.0, "")] * 4
    for results in (
        [event.result for event in told if isinstance(event, CompletionFinished)],
        RunReader(run.run_dir).trajectories().rows,
    ):
        printed = {result.index: result.stdout for result in results}
        assert printed == {number: f"{number} {'x' * 10_000}\n" for number in range(4)}
