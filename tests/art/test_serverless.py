"""`sandrl art train --backend serverless` with ART's own backend and client, against the HTTP API of W&B Training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import AuthenticationError, EndpointError, InterruptedRunError, TrainingError, UsageError
from sandrl.events import Event, Warned
from sandrl.models import client
from sandrl.runs import MetricsRow, RunReader, disagreements
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings, load_settings
from sandrl.trainers.art import serverless
from sandrl.trainers.art.plan import make_request, plan_of
from sandrl.trainers.art.results import GRADIENT_STEPS, STEP, ArtRun
from sandrl.trainers.art.train import run_art
from tests.art.training import PROBLEMS, reference
from tests.support.scripted_model import Fault, Question, Says, ScriptedModel
from tests.support.training_service import KEY, TrainingService

pytestmark = pytest.mark.timeout(300)
NAME = "wandb-run"


class Half:
    """A policy that solves every second episode of a problem."""

    def __init__(self) -> None:
        self._episodes: Counter[str] = Counter()

    def __call__(self, question: Question) -> Says:
        right = reference(question)
        self._episodes[right] += 1
        return Says(f"<answer>{right if self._episodes[right] % 2 else 'def wrong(): pass'}</answer>")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(serverless, "_FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def service() -> Iterator[TrainingService]:
    with TrainingService(Half()) as server:
        yield server


class Training:
    def __init__(self, service: TrainingService, directory: Path) -> None:
        self.service = service
        self.events: list[Event] = []
        self.settings: Settings = replace(
            load_settings(),
            runs_dir=directory / "runs",
            wandb_api_key=KEY,
            wandb_training_base_url=service.base_url,
        )

    def request(self, *, resume: bool = False, **given: Any) -> Any:
        usual: dict[str, Any] = {
            "backend": "serverless",
            "problems": "tiny",
            "num_problems": 2,
            "samples": 4,
            "rollout": "attempts",
            "max_attempts": 1,
            "extract": "answer",
            "max_tokens": 48,
            "runtime": "local",
            "report_to": "none",
            "run_name": NAME,
        }
        return make_request(given if resume else {**usual, **given}, self.settings, resume=NAME if resume else None)

    def run(self, *, resume: bool = False, interrupt: Interrupt | None = None, **given: Any) -> ArtRun:
        request = self.request(resume=resume, **given)
        self.events.clear()
        return run_art(request, self.settings, emit=self.events.append, interrupt=interrupt)

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Warned)]

    @property
    def rows(self) -> list[MetricsRow]:
        found = RunReader(self.settings.runs_dir / NAME).metrics().rows
        return [row for row in found if row.metrics.get(STEP) is not None]

    def check_steps(self, steps: int) -> None:
        """That every step is written down once, with its loss, and that no job was made twice."""
        assert [row.metrics[STEP] for row in self.rows] == list(range(1, steps + 1))
        assert [row.metrics["loss"] for row in self.rows] == [pytest.approx(0.375)] * steps
        assert [row.metrics[GRADIENT_STEPS] for row in self.rows] == [2] * steps
        assert all(row.metrics["train/tokens"] for row in self.rows)
        assert len(self.service.jobs) == steps
        assert not disagreements(RunReader(self.settings.runs_dir / NAME), is_complete=True)


@pytest.fixture
def training(service: TrainingService, tmp_path: Path) -> Training:
    return Training(service, tmp_path)


def begun_job(service: TrainingService, count: int = 1) -> None:
    """Waits until the service has begun a job, whose first steps are told."""
    ends_at = time.monotonic() + 240
    while len(service.jobs) < count or not service.jobs[-1].events:
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_the_model_of_each_step_plays_the_episodes_that_its_job_gets(training: Training) -> None:
    run = training.run(steps=3)
    run.raise_for_outcome()
    training.check_steps(3)
    service = training.service
    # At first there may be no checkpoint to name; later each step is asked by its name.
    assert Counter(service.asked) == {None: 8, 1: 8, 2: 8}
    (model,) = service.models.values()
    assert (model["name"], model["project"], model["base_model"]) == (
        NAME,
        "aviato-mbpp",
        "OpenPipe/Qwen3-14B-Instruct",
    )
    rows = RunReader(run.run_dir).trajectories().rows
    for step, job in enumerate(service.jobs):
        sent = [each for group in job.groups for each in group["trajectories"]]
        # Later releases leave out what is usual.
        assert sorted(each.get("reward", 0.0) for each in sent) == [0.0] * 4 + [1.0] * 4
        played = {row.id: row for row in rows if row.step == step}
        for trajectory in sent:
            choice = trajectory["messages_and_choices"][-1]
            said = next(m for m in played[trajectory["metadata"]["id"]].messages if m.role == "assistant")
            tokens = [(each["token"], each["logprob"]) for each in choice["logprobs"]["content"]]
            assert tokens == list(zip(said.tokens, said.logprobs, strict=True))
            assert all(token.startswith("token_id:") for token, _ in tokens)
        assert job.config["learning_rate"] == 1e-5


def test_the_next_episodes_are_played_by_the_model_before_the_step_that_is_trained(training: Training) -> None:
    training.run(steps=3, overlap="step").raise_for_outcome()
    training.check_steps(3)
    assert Counter(training.service.asked) == {None: 16, 1: 8}


def problems_of(run: Path) -> dict[int, list[str]]:
    """The problems of each round, in the order in which they were played."""
    found: dict[int, list[str]] = {}
    for row in sorted(RunReader(run).trajectories().rows, key=lambda row: row.index):
        names = found.setdefault(row.step or 0, [])
        names.extend({row.task_id} - set(names))
    return found


@pytest.mark.parametrize("overlap", ["none", "step"])
def test_flat_groups_are_replaced_also_in_rounds_that_are_ahead(training: Training, overlap: str) -> None:
    names = tuple(PROBLEMS)[:5]
    easy = {str(PROBLEMS[name].reference) for name in (names[0], names[3])}
    half = Half()

    def policy(question: Question) -> Says:
        right = reference(question)
        return Says(f"<answer>{right}</answer>") if right in easy else half(question)

    training.service.policy = policy
    run = training.run(steps=3, num_problems=5, batch_size=8, dynamic_sampling=1, overlap=overlap)
    run.raise_for_outcome()
    training.check_steps(3)
    assert problems_of(run.run_dir) == {0: [*names[:3]], 1: [names[3], names[4], names[0], names[1]], 2: [*names[2:]]}


def test_rounds_whose_groups_stay_flat_end_the_training(training: Training) -> None:
    training.service.policy = lambda question: Says(f"<answer>{reference(question)}</answer>")
    run = training.run(steps=2, num_problems=4, batch_size=8, dynamic_sampling=1, overlap="step", max_flat_rounds=2)
    with pytest.raises(TrainingError, match="step 1 had no gradient, 2 times: equal rewards in every group: 1 in all"):
        run.raise_for_outcome()
    assert [len(names) for names in problems_of(run.run_dir).values()][:2] == [4, 4]
    assert not training.service.jobs


def test_grades_of_a_model_are_trained_on_and_an_episode_without_one_is_left_out(training: Training) -> None:
    def grade(question: Question) -> Says:
        document = json.loads(question.messages[1]["content"])
        points = None if "wrong" in document["answer"] else 4
        return Says(json.dumps({"id": document["id"], "points": points}))

    asked: Counter[str] = Counter()

    def policy(question: Question) -> Says:
        right = reference(question)
        asked[right] += 1
        code = (right, "def other(): pass", right, "def wrong(): pass")[(asked[right] - 1) % 4]
        return Says(f"<answer>{code}</answer>")

    training.service.policy = policy
    with ScriptedModel(grade) as judge:
        run = training.run(steps=1, judge_base_url=judge.base_url, judge_weight=0.5)
    run.raise_for_outcome()
    rows = RunReader(run.run_dir).trajectories().rows
    assert Counter((row.status, row.reward, row.components.get("judge")) for row in rows) == {
        ("passed", 1.0, 0.2): 4,
        ("failed", 0.0, 0.2): 2,
        ("judge_error", None, None): 2,
    }
    (job,) = training.service.jobs
    sent = [sorted(each["reward"] for each in group["trajectories"]) for group in job.groups]
    assert sent == [[0.2, 1.2, 1.2]] * 2
    assert training.rows[0].metrics["component/judge"] == pytest.approx(0.2)


def test_a_dry_run_asks_the_service_and_makes_nothing(training: Training) -> None:
    plan = plan_of(training.request(), training.settings)
    assert any(training.service.base_url in note for note in plan.notes)
    assert not training.service.models
    for settings, words in (
        (replace(training.settings, wandb_api_key=None), "needs a W&B API key"),
        (replace(training.settings, wandb_api_key="other"), "refuses the key in WANDB_API_KEY"),
    ):
        with pytest.raises(AuthenticationError, match=words):
            plan_of(training.request(), settings)
    with pytest.raises(UsageError, match="has no model 'Qwen/Qwen3-8B'") as raised:
        plan_of(training.request(base_model="Qwen/Qwen3-8B"), training.settings)
    assert raised.value.hint is not None
    assert "OpenPipe/Qwen3-14B-Instruct" in raised.value.hint
    nobody = replace(training.settings, wandb_training_base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EndpointError, match="cannot be reached"):
        plan_of(training.request(), nobody)
    training.service.fault = lambda method, path: Fault(503)
    with pytest.raises(EndpointError, match="HTTP 503"):
        plan_of(training.request(), training.settings)


def test_a_deployment_without_a_list_of_models_refuses_them_itself(training: Training) -> None:
    training.service.fault = lambda method, path: Fault(404) if path.endswith("base-models") else None
    with pytest.raises(UsageError, match=r"refuses the model: .*Unsupported base model Qwen/Qwen3-8B"):
        training.run(steps=1, base_model="Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "teacher"}, "policy: the backend serverless scores no tokens of other models"),
        ({"model": "gpt"}, "policy: the backend serverless scores no tokens of other models"),
        ({"lora_rank": 16}, "lora_rank: the backend serverless decides it"),
        ({"renderer": "qwen3"}, "renderer: only tinker has one"),
        ({"chat_template": "plain"}, "chat_template: W&B Training makes texts of conversations itself"),
        ({"lora": False}, "lora: the backend serverless trains adapters only"),
    ],
)
def test_what_the_backend_cannot_do_is_refused(training: Training, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        training.request(**given)


def test_a_new_run_takes_no_model_that_has_steps(tmp_path: Path) -> None:
    with TrainingService(Half(), checkpoints=4) as service:
        with pytest.raises(UsageError, match=f"has a model '{NAME}' with 4 steps"):
            Training(service, tmp_path).run(steps=5)
        assert not service.jobs


def test_a_job_that_fails_ends_the_run_which_makes_the_step_again_when_resumed(training: Training) -> None:
    training.service.failure = "CUDA out of memory"
    with pytest.raises(EndpointError, match="the training job of step 1 failed: CUDA out of memory"):
        training.run(steps=2)
    training.service.failure = ""
    failed = training.service.jobs.pop()
    training.run(resume=True).raise_for_outcome()
    training.check_steps(2)
    assert failed.events[-1]["type"] == "training_failed"


def stopped_in_a_job(training: Training) -> None:
    """Leaves a run that was cancelled while its first job went on."""
    service, interrupt = training.service, Interrupt()
    service.may_end.clear()

    def stop() -> None:
        begun_job(service)
        time.sleep(0.2)
        interrupt.request(signal.SIGINT)
        interrupt.request(signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(InterruptedRunError):
        training.run(steps=2, interrupt=interrupt)


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_run_that_was_stopped_in_a_job_continues_with_it(training: Training, has_ended: bool) -> None:
    service = training.service
    stopped_in_a_job(training)
    threading.Timer(0.0 if has_ended else 2.0, service.may_end.set).start()
    while has_ended and service.jobs[0].events[-1]["type"] != "training_ended":
        time.sleep(0.02)
    training.run(resume=True).raise_for_outcome()
    assert any("waiting for the training job" in told for told in training.warnings)
    training.check_steps(2)


@pytest.mark.parametrize("is_lost", [True, False])
def test_the_step_of_a_job_that_failed_meanwhile_is_made_again(training: Training, is_lost: bool) -> None:
    service = training.service
    stopped_in_a_job(training)
    service.failure = "preempted"
    service.may_end.set()
    while service.jobs[0].events[-1]["type"] != "training_failed":
        time.sleep(0.02)
    service.failure = ""
    if is_lost:
        service.jobs.clear()
    training.run(resume=True).raise_for_outcome()
    why = "has no such model or training job" if is_lost else "failed: preempted"
    assert any(why in told and told.endswith("its step is made again") for told in training.warnings)
    service.jobs[:] = service.jobs[-2:]
    training.check_steps(2)


def test_a_run_that_was_killed_in_a_job_continues_with_it(training: Training, tmp_path: Path) -> None:
    service = training.service
    service.may_end.clear()
    environment = {
        **os.environ,
        "WANDB_API_KEY": KEY,
        "WANDB_TRAINING_BASE_URL": service.base_url,
        "SANDRL_RUNS_DIR": str(training.settings.runs_dir),
    }
    words = (
        "--problems tiny --num-problems 2 --samples 4 --rollout attempts --max-attempts 1 --extract answer"
        f" --max-tokens 48 --steps 2 --run-name {NAME} --report-to none --runtime local --backend serverless"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sandrl", "art", "train", *words.split()],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    begun_job(service)
    time.sleep(0.5)
    process.kill()
    printed = process.communicate()[0]
    assert KEY not in printed
    service.may_end.set()
    training.run(resume=True).raise_for_outcome()
    training.check_steps(2)
    kept = [path.read_bytes() for path in (training.settings.runs_dir / NAME).rglob("*") if path.is_file()]
    assert not [content for content in kept if KEY.encode() in content]


def test_a_service_that_fails_for_a_while_loses_nothing(training: Training) -> None:
    failing: Counter[str] = Counter()

    def fault(method: str, path: str) -> Fault | None:
        # Of each kind of request the first two fail: a job is begun once, and only after a refusal that begins none.
        kind = next((word for word in ("events", "checkpoints?", "training-jobs", "chat") if word in path), "")
        if "0000" in path or not kind:
            return None
        failing[kind] += 1
        return Fault(503 if failing[kind] < 3 else 200, headers={"retry-after-ms": "10"}) if failing[kind] < 3 else None

    training.service.fault = fault
    training.run(steps=2).raise_for_outcome()
    training.check_steps(2)
    assert {"events", "checkpoints?", "training-jobs", "chat"} <= {*failing}


_BEGIN = ("POST", "/v1/preview/training-jobs")


@pytest.mark.parametrize(
    ("fault", "words", "error"),
    [
        (Fault(500, body={"detail": "boom"}), "fails: .*boom", EndpointError),
        (Fault(200, raw=b"<html>"), "gives an answer that ART cannot read", EndpointError),
        (Fault(reset=True), "does not answer", EndpointError),
        (Fault(401, body={"detail": "expired"}), "refuses the key", AuthenticationError),
        (Fault(403, body={"detail": "no credits left"}), "refuses access: .*no credits left", AuthenticationError),
        (Fault(413, body={"detail": "too large"}), "fails: .*too large", EndpointError),
        (Fault(422, body={"detail": "no tokens"}), "W&B Training refuses step 1: .*no tokens", TrainingError),
    ],
)
def test_a_job_that_cannot_be_begun_is_one_error_and_the_run_can_be_resumed(
    training: Training, fault: Fault, words: str, error: type[Exception]
) -> None:
    training.service.fault = lambda method, path: fault if (method, path) == _BEGIN else None
    with pytest.raises(error, match=words):
        training.run(steps=1)
    training.service.fault = lambda method, path: None
    training.run(resume=True).raise_for_outcome()
    training.check_steps(1)


def test_a_job_without_gradient_steps_is_no_step(training: Training) -> None:
    training.service.gradient_steps = 0
    with pytest.raises(TrainingError, match="step 1 had no gradient, but the backend counted it"):
        training.run(steps=1)


def test_events_of_many_pages_are_read_once(training: Training) -> None:
    training.service.gradient_steps = 45
    run = training.run(steps=1)
    run.raise_for_outcome()
    assert [row.metrics[GRADIENT_STEPS] for row in training.rows] == [45]
    losses = [0.5 - number / 4 for number in range(45)]
    assert training.rows[0].metrics["loss"] == pytest.approx(sum(losses) / 45)
