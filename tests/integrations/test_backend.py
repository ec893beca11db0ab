"""What adapters share: one job for all threads of a process, one request for calls that come together."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sandrl.errors import AuthenticationError, ServiceError, UsageError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.installation import package_command
from sandrl.integrations.backend import LocalBackend, Scoring, ServiceBackend, backend_for, scored
from sandrl.integrations.problems import problem_of
from sandrl.problems import Problem
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import RuntimeKind
from tests.integrations.serving import Serving, serving

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT, HALF = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2</answer>"
LOCAL = SandboxRequest(runtime=RuntimeKind.LOCAL)


def test_threads_that_call_at_once_share_one_backend_one_job_and_one_scorer(place: str | None) -> None:
    texts = [f"{RIGHT if number % 2 else HALF} {number}" for number in range(64)]
    together = threading.Barrier(32)

    def score(text: str) -> tuple[int, float | None]:
        if texts.index(text) < 32:
            together.wait()
        backend = backend_for(place)
        return id(backend), backend.submit(INC, text).result().reward

    with ThreadPoolExecutor(32) as pool:
        scored_ones = list(pool.map(score, texts))
    assert [reward for _, reward in scored_ones] == [0.0, 1.0] * 32
    assert len({backend for backend, _ in scored_ones}) == 1
    if place is None:
        assert [thread.name for thread in threading.enumerate()].count("sandrl-scorer") == 1


async def test_tasks_wait_for_their_results_while_the_event_loop_goes_on(place: str | None) -> None:
    slow = "<answer>import time\ntime.sleep(1)\ndef f(x): return x + 1</answer>"
    happened: list[str] = []

    async def score() -> None:
        result = await scored(backend_for(place), INC, slow)
        happened.append(result.status.value)

    async def turn() -> None:
        await asyncio.sleep(0)
        happened.append("a turn of the loop")

    await asyncio.gather(score(), turn(), score())
    assert happened == ["a turn of the loop", "passed", "passed"]


def test_options_are_the_same_in_this_process_and_with_a_service(place: str | None) -> None:
    fraction = Scoring.of({"reward": "fraction", "format_reward": 0.5})
    result = backend_for(place).submit(INC, HALF, fraction).result()
    assert (result.reward, result.task_id, result.status) == (0.5, "inc", Status.FAILED)
    assert result.components == {"format": 0.5}
    with pytest.raises(UsageError, match="rewrad: is not an option for scoring"):
        Scoring.of({"rewrad": "fraction"})


def test_rows_are_read_as_the_options_say_wherever_they_are_scored(place: str | None) -> None:
    scoring = Scoring.of({"fields": ["prompt=ask", "tests=checks"], "prelude": "import math as m"})
    problem = problem_of({"ask": "Add one.", "checks": ["assert f(1) == 2"]}, scoring=scoring)
    result = backend_for(place).submit(problem, "def f(x): return m.floor(x) + 1", scoring, is_code=True).result()
    assert result.reward == 1.0


def test_calls_that_come_together_share_a_request_of_at_most_256(service: Serving) -> None:
    before = service.requests()
    with ServiceBackend(service.url, service.token, window_seconds=0.5) as backend:
        futures = [backend.submit(INC, f"{RIGHT} {number}") for number in range(300)]
        assert sum(future.result().reward or 0.0 for future in futures) == 300
    assert service.requests() - before == 2


def test_calls_with_other_options_are_not_scored_with_those_of_the_first(service: Serving) -> None:
    with ServiceBackend(service.url, window_seconds=0.2) as backend:
        binary = [backend.submit(INC, HALF) for _ in range(3)]
        fraction = [backend.submit(INC, HALF, Scoring.of({"reward": "fraction"})) for _ in range(3)]
        assert [future.result().reward for future in binary] == [0.0] * 3
        assert [future.result().reward for future in fraction] == [0.5] * 3


def test_two_problems_of_one_name_are_judged_by_their_own_tests(place: str | None) -> None:
    other = Problem("inc", "Add two.", tests=("assert f(1) == 3",))
    backend = backend_for(place)
    futures = [backend.submit(problem, RIGHT) for problem in (INC, other) * 3]
    assert [future.result().reward for future in futures] == [1.0, 0.0] * 3
    assert {future.result().task_id for future in futures} == {"inc"}


def test_a_problem_that_the_service_refuses_fails_alone(service: Serving) -> None:
    large = Problem("large", "Add one.", tests=("assert f(1) == 2",), memory_bytes=1 << 50)
    with ServiceBackend(service.url, window_seconds=0.2) as backend:
        futures = [backend.submit(large if number == 3 else INC, RIGHT) for number in range(8)]
        for number, future in enumerate(futures):
            if number == 3:
                with pytest.raises(UsageError, match="memory"):
                    future.result()
            else:
                assert future.result().reward == 1.0


def test_who_gives_up_takes_nothing_from_the_others(place: str | None) -> None:
    backend = backend_for(place)
    slow = "<answer>import time\ntime.sleep(60)\ndef f(x): return x + 1</answer>"
    futures = [backend.submit(INC, f"{RIGHT} {number}") for number in range(10)]
    given_up = backend.submit(INC, slow, Scoring.of({"timeout_seconds": 1}))
    assert given_up.cancel()
    assert [future.result().reward for future in futures] == [1.0] * 10


def test_a_service_that_is_gone_or_refuses_the_token_is_an_error_and_no_reward() -> None:
    with serving() as running:
        with ServiceBackend(running.url, "no-such-token-" + "x" * 16) as refused, pytest.raises(AuthenticationError):
            refused.submit(INC, RIGHT).result()
        with ServiceBackend(running.url, running.token, patience_seconds=0.5) as backend:
            assert backend.submit(INC, RIGHT).result().reward == 1.0
            running.process.kill()
            running.process.wait()
            with pytest.raises(ServiceError, match="does not answer"):
                backend.submit(INC, HALF).result()


def test_sandboxes_that_cannot_be_had_are_an_error_for_each_who_asks() -> None:
    backend = LocalBackend(SandboxRequest(runtime=RuntimeKind.LOCAL, packages=("no-such-package-of-anybody",)))
    for _ in range(2):
        with pytest.raises((UsageError, ServiceError)):
            backend.submit(INC, RIGHT)


def test_the_options_of_sandboxes_are_fields_of_a_request_for_them() -> None:
    assert backend_for(sandboxes={"runtime": "local"}) is backend_for(sandboxes=LOCAL)
    for wrong in ({"runtime": "lokal"}, {"colour": "red"}, {"max_sandboxes": 0}):
        with pytest.raises(UsageError):
            backend_for(sandboxes=wrong)
    with pytest.raises(UsageError, match="which owns the sandboxes"):
        backend_for("http://127.0.0.1:1", sandboxes={"runtime": "local"})


def test_the_environment_names_the_service(service: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_SERVICE_URL", service.url)
    monkeypatch.setenv("SANDRL_SERVICE_TOKEN", service.token)
    before = service.requests()
    assert backend_for().submit(INC, RIGHT).result().reward == 1.0
    assert service.requests() == before + 1


def test_a_backend_that_was_closed_begins_anew(place: str | None, service: Serving) -> None:
    backend = LocalBackend(LOCAL) if place is None else ServiceBackend(service.url)
    for _ in range(2):
        future: Future[ScoredCompletion] = backend.submit(INC, RIGHT)
        assert future.result().reward == 1.0
        backend.close()


_FORKED = """
import json, os, sys
from sandrl.errors import SandrlError
from sandrl.integrations.backend import backend_for
from sandrl.problems import Problem

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))

def score():
    try:
        return backend_for().submit(INC, "<answer>def f(x): return x + 1</answer>").result(60).reward
    except SandrlError as error:
        return type(error).__name__

used, told = sys.argv[1] == "used", {}
if used:
    told["parent"] = score()
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, json.dumps(score()).encode())
    backend_for().close()
    os._exit(0)
os.close(writing)
with os.fdopen(reading) as pipe:
    told["child"] = json.loads(pipe.read())
os.wait()
told["parent afterwards"] = score()
print(json.dumps(told))
"""


def run(program: str, *words: str, **environment: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_forked_child_scores_with_a_service_as_its_parent_does(service: Serving) -> None:
    told = run(_FORKED, "used", SANDRL_SERVICE_URL=service.url)
    assert told == {"parent": 1.0, "child": 1.0, "parent afterwards": 1.0}


def test_a_forked_child_has_sandboxes_of_its_own_unless_its_parent_had_some() -> None:
    assert run(_FORKED, "unused") == {"child": 1.0, "parent afterwards": 1.0}
    assert run(_FORKED, "used") == {"parent": 1.0, "child": "ForkedProcessError", "parent afterwards": 1.0}


_LEFT = """
import json
from sandrl.integrations.backend import backend_for
from sandrl.problems import Problem

backend = backend_for()
problem = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
reward = backend.submit(problem, "<answer>def f(x): return x + 1</answer>").result().reward
print(json.dumps({"reward": reward, "job": backend.job_id}))
"""


def test_sandboxes_end_with_the_process_that_had_them() -> None:
    told = run(_LEFT)
    assert told["reward"] == 1.0
    listed = subprocess.run(
        [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--output", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert str(told["job"]) not in listed.stdout


@pytest.mark.parametrize(
    ("module", "use", "package"),
    [
        ("verifiers", "load_environment", "verifiers>=0.4"),
        ("skyrl_gym", "register", "skyrl-gym"),
        ("openenv", "create_app", "openenv>=0.10"),
    ],
)
def test_an_adapter_is_imported_without_its_framework_and_says_what_to_install(
    module: str, use: str, package: str
) -> None:
    program = f"""
import json, sys
sys.modules[{module!r}] = None
from sandrl.errors import MissingExtraError
from sandrl.integrations import {module} as adapter
try:
    adapter.{use}()
except MissingExtraError as error:
    print(json.dumps({{"message": error.message, "hint": error.hint}}))
"""
    assert run(program) == {
        "message": f"the package {module!r} is not installed",
        "hint": package_command(package),
    }
