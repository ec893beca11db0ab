"""`sandrl art train` with the real SDK and ART's own backend, against a Tinker server that trains on the processor."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.art import ArtTrainConfig
from sandrl.config.episodes import RolloutConfig
from sandrl.config.layers import resolve
from sandrl.config.parts import ScoringPart
from sandrl.config.scoring import RegradeConfig
from sandrl.config.words import Extraction, VerifierPlace
from sandrl.errors import InterruptedRunError, TrainingError, UsageError
from sandrl.events import Event, StepFinished
from sandrl.models import client
from sandrl.rewards.importing import import_run
from sandrl.rewards.regrade import regrade, saved_options
from sandrl.rollouts.run import run_rollouts
from sandrl.runs import MetricsRow, RunReader, disagreements
from sandrl.runs.atif import export_run
from sandrl.sandboxes import Interrupt
from sandrl.settings import RuntimeKind, Settings, load_settings
from sandrl.trainers.art.plan import make_request
from sandrl.trainers.art.results import GRADIENT_STEPS, STEP, ArtRun
from sandrl.trainers.art.train import run_art
from tests.art.training import RENDERER, WINDOW, Uneven, reference
from tests.support.scripted_model import Answer, Question, Says, ScriptedModel
from tests.support.tinker_server.process import TinkerServer, running_server

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


class Training:
    """Runs trainings in one place, against one server."""

    def __init__(self, server: TinkerServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.events: list[Event] = []

    @property
    def settings(self) -> Settings:
        return replace(
            load_settings(),
            runs_dir=self.directory / "runs",
            tinker_api_key=self.server.key,
            tinker_api_key_source="ART_TINKER_API_KEY",
            tinker_base_url=self.server.base_url,
        )

    def run(
        self, *, name: str = "run", resume: bool = False, interrupt: Interrupt | None = None, **given: Any
    ) -> ArtRun:
        usual: dict[str, Any] = {
            "backend": "tinker",
            "base_model": str(self.server.model),
            "renderer": RENDERER,
            "problems": "tiny",
            "num_problems": 5,
            "samples": 4,
            "rollout": "attempts",
            "max_attempts": 2,
            "extract": "answer",
            "max_tokens": 48,
            "learning_rate": 4e-4,
            "runtime": "local",
            "report_to": "none",
        }
        options = given if resume else {**usual, "run_name": name, **given}
        request = make_request(options, self.settings, resume=name if resume else None)
        self.events.clear()
        return run_art(request, self.settings, emit=self.events.append, interrupt=interrupt)

    def records(self, run: ArtRun) -> list[dict[str, Any]]:
        """What the server did to the models of a run, in order."""
        (state,) = (run.run_dir / "art").rglob("state.json")
        ids = json.loads(state.read_text())["tinker_run_ids"]
        return [row for row in self.server.records() if row.get("model_id") in ids]


@pytest.fixture
def training(tiny_server: TinkerServer, tmp_path: Path) -> Training:
    return Training(tiny_server, tmp_path)


def steps_of(run: ArtRun) -> list[MetricsRow]:
    return [row for row in RunReader(run.run_dir).metrics().rows if row.metrics.get(STEP) is not None]


def trained_steps(run: ArtRun) -> list[float | None]:
    """The steps of the rounds that taught something; one whose rewards happen to be equal is no mistake."""
    return [row.metrics[STEP] for row in steps_of(run) if row.metrics[GRADIENT_STEPS]]


def check_steps(training: Training, run: ArtRun, steps: int) -> None:
    """That the model had so many steps, each of which changed its weights and is written down."""
    rows = [row for row in steps_of(run) if row.metrics[GRADIENT_STEPS]]
    assert [row.metrics[STEP] for row in rows] == list(range(1, steps + 1))
    assert all((row.metrics["train/tokens"] or 0) > 0 for row in rows)
    assert all(math.isfinite(row.metrics["loss"] or 0) for row in rows)
    weights = [row["weights"] for row in training.records(run) if row["op"] == "optim_step"]
    assert len(weights) == len(set(weights)) == steps


def test_the_model_learns_from_its_own_episodes_step_by_step(training: Training) -> None:
    run = training.run(policy="trained", steps=3)
    assert (run.first_step, run.steps, run.of) == (0, 3, 3)
    run.raise_for_outcome()
    check_steps(training, run, 3)
    assert [event.step for event in training.events if isinstance(event, StepFinished)] == [0, 1, 2]
    assert not disagreements(RunReader(run.run_dir), is_complete=True)
    # The policy that acts is the one of the step: what it samples is what it is trained on.
    rows = RunReader(run.run_dir).trajectories().rows
    assert all(message.logprobs for row in rows for message in row.messages if message.role == "assistant")


def test_the_model_learns_from_a_teacher_whose_words_are_scored_under_it(training: Training) -> None:
    with ScriptedModel(Uneven()) as teacher:
        run = training.run(policy="teacher", model="scripted", base_url=teacher.base_url, steps=3, concurrency=1)
    run.raise_for_outcome()
    check_steps(training, run, 3)
    assert not disagreements(RunReader(run.run_dir), is_complete=True)
    trained = [row for row in training.records(run) if row["op"] == "forward_backward"]
    # Scored by the very weights that are trained: every ratio is 1, so that what was sent is what the loss is made of.
    for row, step in zip(trained, steps_of(run), strict=True):
        pairs = [pair for datum in row["data"] for pair in zip(datum["advantages"], datum["logprobs"], strict=True)]
        expected = -math.fsum(advantage * logprob for advantage, logprob in pairs)
        assert abs(expected) > 1
        assert step.metrics["art/loss:sum"] == pytest.approx(expected, rel=1e-3)


def spoken_and_context(datum: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens of a datum that are trained, and those before them."""
    begin = next(place for place, advantage in enumerate(datum["advantages"]) if advantage)
    assert all(datum["advantages"][begin:])
    return tuple(datum["target_tokens"][begin:]), tuple(datum["input_tokens"][: begin + 1])


@pytest.mark.parametrize("rollout", ["attempts", "tools"])
def test_every_turn_is_trained_once_and_is_once_in_the_context_of_later_ones(training: Training, rollout: str) -> None:
    from transformers import AutoTokenizer

    with ScriptedModel(Uneven()) as teacher:
        run = training.run(
            policy="teacher",
            model="scripted",
            base_url=teacher.base_url,
            steps=1,
            rollout=rollout,
            max_attempts=3,
            concurrency=1,
        )
    run.raise_for_outcome()
    tokenizer = AutoTokenizer.from_pretrained(training.server.model)
    rows = RunReader(run.run_dir).trajectories().rows
    rewards: dict[str, set[float | None]] = {}
    for row in rows:
        rewards.setdefault(row.task_id, set()).add(row.reward)
    turns = Counter(
        message.content
        for row in rows
        if len(rewards[row.task_id]) > 1
        for message in row.messages
        if message.role == "assistant"
    )
    assert max(sum(m.role == "assistant" for m in row.messages) for row in rows) > 1
    (step,) = (row for row in training.records(run) if row["op"] == "forward_backward")
    trained: Counter[Any] = Counter()
    for datum in step["data"]:
        spoken, before = (tokenizer.decode(list(tokens)) for tokens in spoken_and_context(datum))
        assert spoken.endswith("<|im_end|>")
        text = spoken.removesuffix("<|im_end|>")
        if rollout == "tools":
            assert text.count("<tool_call>") == 1
            text = text.partition("\n<tool_call>")[0]
        trained[text] += 1
        # The context is a whole conversation, in which each earlier turn stands once and ends once.
        earlier = re.findall(r"<\|im_start\|>assistant\n(.*?)<\|im_end\|>", before, re.DOTALL)
        assert before.endswith("<|im_start|>assistant\n")
        assert before.count("<|im_start|>assistant") == len(earlier) + 1
        assert before.count("<|im_start|>system") == 1
    assert trained == turns


def test_what_is_trained_on_policy_is_token_for_token_what_was_sampled(training: Training) -> None:
    run = training.run(policy="trained", steps=1, max_attempts=3)
    rows = RunReader(run.run_dir).trajectories().rows
    groups: dict[str, list[float | None]] = {}
    for row in rows:
        groups.setdefault(row.task_id, []).append(row.reward)
    sampled = Counter(
        tuple(int(token.removeprefix("token_id:")) for token in message.tokens)
        for row in rows
        if len(set(groups[row.task_id])) > 1
        for message in row.messages
        if message.role == "assistant"
    )
    logprobs = {message.logprobs for row in rows for message in row.messages}
    (step,) = (row for row in training.records(run) if row["op"] == "forward_backward")
    trained: Counter[tuple[int, ...]] = Counter()
    for datum in step["data"]:
        spoken, before = spoken_and_context(datum)
        trained[spoken] += 1
        # ART sends them with 32 bits.
        kept = tuple(datum["logprobs"][len(before) - 1 :])
        assert any(each == pytest.approx(kept, rel=1e-6) for each in logprobs if len(each) == len(kept))
    assert trained == sampled
    assert sum(sampled.values()) > 0


def test_equal_rewards_train_nothing_and_that_is_a_failure(training: Training) -> None:
    with ScriptedModel(lambda question: Says(f"<answer>{reference(question)}</answer>")) as teacher:
        run = training.run(policy="teacher", model="scripted", base_url=teacher.base_url, steps=2)
    assert (run.steps, len(run.rounds)) == (0, 3)
    failed = [event for event in training.events if isinstance(event, StepFinished)]
    assert [(event.step, event.attempt) for event in failed] == [(0, 1), (0, 2), (0, 3)]
    assert "equal rewards in every group: 1 in all, 5 groups" in failed[0].failure
    with pytest.raises(TrainingError, match="step 1 had no gradient, 3 times: equal rewards") as raised:
        run.raise_for_outcome()
    job = RunReader(run.run_dir).config.jobs[-1]
    assert (job.outcome, job.error) == ("failed", raised.value.message)
    assert not [row for row in training.records(run) if row["op"] in ("forward_backward", "optim_step")]
    assert [row.metrics[GRADIENT_STEPS] for row in steps_of(run)] == [0, 0, 0]
    assert [row.metrics[STEP] for row in steps_of(run)] == [0, 0, 0]
    assert not disagreements(RunReader(run.run_dir), is_complete=True)


def test_more_rounds_may_train_nothing_until_one_does(training: Training) -> None:
    uneven = Uneven()

    def late(question: Question) -> Answer:
        # The rewards of four rounds of five problems with four episodes are equal.
        return Says(f"<answer>{reference(question)}</answer>") if question.number < 80 else uneven(question)

    with ScriptedModel(late) as teacher:
        given: dict[str, Any] = {"policy": "teacher", "model": "scripted", "base_url": teacher.base_url}
        run = training.run(steps=1, concurrency=1, max_flat_rounds=5, **given)
    run.raise_for_outcome()
    assert (run.steps, len(run.rounds)) == (1, 5)
    assert [row.metrics[GRADIENT_STEPS] for row in steps_of(run)] == [0, 0, 0, 0, 1]


def test_episodes_longer_than_the_model_can_read_are_left_out_and_said(training: Training) -> None:
    def talkative(question: Question) -> Answer:
        answer = uneven(question)
        return replace(answer, text=f"{'So. ' * (WINDOW // 2)}{answer.text}") if isinstance(answer, Says) else answer

    uneven = Uneven()
    with ScriptedModel(talkative) as teacher:
        run = training.run(policy="teacher", model="scripted", base_url=teacher.base_url, steps=1, concurrency=1)
    assert run.steps == 0
    assert "20 episodes could not be scored" in run.failures[0]
    with ScriptedModel(lambda question: talkative(question) if question.number == 1 else uneven(question)) as teacher:
        run = training.run(
            name="some", policy="teacher", model="scripted", base_url=teacher.base_url, steps=1, concurrency=1
        )
    assert run.steps == 1
    assert steps_of(run)[0].metrics["train/left_out"] == 1


def test_what_was_judged_with_every_scoring_option_is_judged_again_with_all_of_them(training: Training) -> None:
    scoring = ScoringPart(
        extract=Extraction.ANSWER,
        timeout_seconds=5.0,
        check_timeout_seconds=2.0,
        max_output_bytes=50_000,
        max_cases=50,
        compile_timeout_seconds=20.0,
        all_checks=True,
        max_file_bytes=1 << 20,
        prelude="from math import prod",
        require_isolated=True,
        hash_seed=3,
        hash_seeds=2,
        caching=False,
        retries=1,
        second_opinion=1.0,
        reward="fraction",
        format_reward=0.25,
        length_penalty=0.125,
        timeout_penalty=0.125,
        verifier=VerifierPlace.ARTIFACTS,
        pass_env=("NAME",),
    )
    given: dict[str, Any] = {**scoring.document()}
    usual = ScoringPart().document()
    assert [name for name, value in given.items() if value == usual[name]] == []
    with ScriptedModel(Uneven()) as teacher:
        run = training.run(
            policy="teacher", model="scripted", base_url=teacher.base_url, steps=1, concurrency=1, **given
        )
    run.raise_for_outcome()
    reader = RunReader(run.run_dir)
    kept = reader.config.options
    assert {name: kept[name] for name in given} == given
    assert isinstance(kept["runtime_kind"], str)
    # The weight of the format is in the reward that is trained on, and every failed verdict has its opinion.
    failed = [row for row in reader.trajectories().rows if row.status == "failed"]
    assert 0 < len(failed) == len(reader.opinions().rows)
    request = RegradeConfig.model_validate({**saved_options(reader), "run": str(run.run_dir)})
    again = regrade(request, training.settings)
    assert (again.compared, again.flips, again.left_out) == (20, (), 0)
    assert regrade(request.model_copy(update={"extract": Extraction.FENCE}), training.settings).flips


def test_episodes_of_a_problem_are_ranked_and_those_without_a_ranking_are_dropped(training: Training) -> None:
    lost: list[str] = []

    def rank(question: Question) -> Answer:
        document = json.loads(question.messages[1]["content"])
        if document["task"] in (lost or [document["task"]]):
            lost[:] = [document["task"]]
            return Says("?")
        return Says(
            json.dumps({"id": document["id"], "points": [place for place, _ in enumerate(document["answers"])]})
        )

    given: dict[str, Any] = {"policy": "teacher", "model": "scripted", "steps": 1, "concurrency": 1}
    with ScriptedModel(Uneven()) as teacher, ScriptedModel(rank) as judge:
        options: dict[str, Any] = {"judge_base_url": judge.base_url, "judge_ranking": True, "judge_weight": 2.0}
        run = training.run(**given, base_url=teacher.base_url, **options)
    rows = RunReader(run.run_dir).trajectories().rows
    kept = [row for row in rows if row.reward is not None]
    assert (len(rows), len(kept)) == (20, 16)
    assert {row.status for row in rows if row.reward is None} == {"judge_error"}
    assert all(row.dropped and not row.components for row in rows if row.reward is None)
    groups = {row.task_id: [each.components["ranking"] for each in kept if each.task_id == row.task_id] for row in kept}
    assert list(groups.values()) == [pytest.approx([0.0, 0.2, 0.4, 0.6])] * 4
    [step] = steps_of(run)
    assert step.metrics["component/ranking"] == pytest.approx(0.3)
    assert not disagreements(RunReader(run.run_dir), is_complete=True)


def test_recorded_episodes_are_trained_on_without_playing_any(training: Training) -> None:
    with ScriptedModel(Uneven()) as model:
        recorded = run_rollouts(
            RolloutConfig(
                model="scripted",
                base_url=model.base_url,
                problems="tiny",
                steps=2,
                problems_per_step=2,
                samples=4,
                concurrency=1,
                runtime=RuntimeKind.LOCAL,
                runs_dir=training.settings.runs_dir,
                run_name="recorded",
            ),
            load_settings(),
        )
    run = training.run(trajectories=str(recorded.run_dir), steps=5)
    assert (run.steps, run.is_short) == (2, True)
    run.raise_for_outcome()
    check_steps(training, run, 2)
    assert [row.metrics["pass_rate"] for row in steps_of(run)] == [0.5, 0.5]
    assert not (run.run_dir / "sandboxes.jsonl").exists()
    # What has no logprobs cannot be trained on as if the model had sampled it.
    with pytest.raises(UsageError, match="policy trained needs logprobs with the tokens' ids") as refused:
        training.run(name="other", trajectories=str(recorded.run_dir), policy="trained")
    assert refused.value.hint is not None
    assert "`policy` teacher" in refused.value.hint
    assert not (training.settings.runs_dir / "other").exists()


def test_trajectories_of_a_file_are_trained_on_with_their_own_tokens(training: Training, tmp_path: Path) -> None:
    played = training.run(policy="trained", steps=1)
    export_run(RunReader(played.run_dir), tmp_path / "out")
    imported = import_run(tmp_path / "out", training.settings, name="imported").path
    run = training.run(name="again", trajectories=str(imported), policy="trained", steps=1)
    run.raise_for_outcome()
    first, again = steps_of(played)[-1].metrics, steps_of(run)[-1].metrics
    # The same base model, the same tokens: the same step.
    assert again["loss"] == pytest.approx(first["loss"], rel=1e-3)
    assert again["train/tokens"] == first["train/tokens"]


def test_a_step_that_was_trained_but_not_written_down_is_neither_lost_nor_repeated(training: Training) -> None:
    run = training.run(policy="trained", steps=2)
    metrics = run.run_dir / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    # As `kill -9` leaves it, between the backend's checkpoint and the line.
    last = json.loads(lines[-1])["step"]
    metrics.write_text("".join(line for line in lines if json.loads(line)["step"] != last))
    again = training.run(resume=True, steps=3)
    assert (again.first_step, again.steps) == (2, 3)
    assert trained_steps(again) == [1, 2, 3]
    lost = json.loads(lines[-1])
    restored = next(row for row in steps_of(again) if row.step == lost["step"])
    for name in ("reward/mean", "loss", "train/tokens", GRADIENT_STEPS):
        assert restored.metrics[name] == lost["metrics"][name]
    assert len([row for row in training.records(again) if row["op"] == "optim_step"]) == 3
    assert not disagreements(RunReader(again.run_dir), is_complete=True)


def test_ctrl_c_finishes_the_step_and_the_second_gives_it_up(training: Training) -> None:
    interrupt = Interrupt()

    def stop_at_first_problem(event: Event) -> None:
        if type(event).__name__ == "ProblemPlayed" and not interrupt.level:
            interrupt.request(2)

    training.events = _Hearing(stop_at_first_problem)
    run = training.run(policy="trained", steps=3, interrupt=interrupt)
    assert run.signal_number == 2
    assert run.steps == 1
    check_steps(training, run, 1)
    again = Interrupt()

    def give_up_in_step_2(event: Event) -> None:
        if type(event).__name__ == "TrajectoriesCollected":
            again.request(2)
            again.request(2)

    training.events = _Hearing(give_up_in_step_2)
    with pytest.raises(InterruptedRunError, match="interrupted before the current step was trained"):
        training.run(resume=True, interrupt=again)
    reader = RunReader(run.run_dir)
    assert [job.outcome for job in reader.config.jobs] == ["interrupted", "interrupted"]
    ledger = reader.sandboxes().rows
    begun, gone = ({row.sandbox_id for row in ledger if row.event == word} for word in ("created", "stopped"))
    assert begun == gone
    # Whether the service finished the step or not, it is there once.
    training.events = []
    whole = training.run(resume=True)
    assert whole.steps == 3
    assert trained_steps(whole) == [1, 2, 3]


class _Hearing(list[Event]):
    def __init__(self, hear: Any) -> None:
        super().__init__()
        self._hear = hear

    def append(self, event: Event) -> None:
        super().append(event)
        self._hear(event)


def test_no_key_is_anywhere_in_the_run(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = secrets.token_urlsafe

    def remember(size: int | None = None) -> str:
        made.append(make(size))
        return made[-1]

    monkeypatch.setattr(secrets, "token_urlsafe", remember)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-teacher")
    with ScriptedModel(Uneven(), key="sk-of-the-teacher") as teacher:
        run = training.run(policy="teacher", model="scripted", base_url=teacher.base_url, steps=1)
    kept = b"".join(path.read_bytes() for path in run.run_dir.rglob("*") if path.is_file())
    assert made
    assert not [key for key in (training.server.key, "sk-of-the-teacher", *made) if key.encode() in kept]
    assert "TINKER_API_KEY" not in os.environ


def test_the_models_server_answers_nobody_without_its_token(training: Training, tmp_path: Path) -> None:
    import urllib.error
    import urllib.request

    from sandrl.trainers.art.loop import EventLoop
    from sandrl.trainers.art.tinker import TinkerModel

    config = resolve(
        ArtTrainConfig,
        {"backend": "tinker", "policy": "trained", "base_model": str(training.server.model), "renderer": RENDERER},
    )
    with EventLoop(Interrupt()) as loop:
        served = str(training.server.model)
        model = TinkerModel(config, training.settings, name="guarded", path=tmp_path / "art", model=served, loop=loop)
        try:
            assert model.endpoint.base_url.startswith("http://127.0.0.1:")
            question = json.dumps({"model": model.name, "messages": [{"role": "user", "content": "Hi"}]}).encode()
            codes = []
            for header in ({}, {"Authorization": "Bearer default"}, {"Authorization": f"Bearer {model.endpoint.key}"}):
                request = urllib.request.Request(
                    f"{model.endpoint.base_url}/chat/completions",
                    question,
                    {"Content-Type": "application/json", **header},
                )
                try:
                    with urllib.request.urlopen(request, timeout=30) as response:
                        codes.append(response.status)
                except urllib.error.HTTPError as error:
                    codes.append(error.code)
                    error.close()
            assert codes == [401, 401, 200]
        finally:
            model.close()


def test_a_loss_that_is_no_number_ends_the_run_for_good(untrained_policy: Path, tmp_path: Path) -> None:
    with running_server(untrained_policy, tmp_path / "record.jsonl", "--nan-after", "1") as server:
        training = Training(server, tmp_path)
        with ScriptedModel(Uneven()) as teacher:
            given: dict[str, Any] = {"policy": "teacher", "model": "scripted", "base_url": teacher.base_url}
            given["concurrency"] = 1
            with pytest.raises(TrainingError, match="the loss of step 2 is not a number"):
                training.run(steps=3, **given)
            with pytest.raises(UsageError, match="its model is lost"):
                training.run(resume=True)


def test_a_proxy_is_not_asked_for_the_server_on_this_machine(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert training.run(policy="trained", steps=1).steps == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_policy_that_learns_from_its_own_episodes_earns_more(training: Training) -> None:
    run = training.run(policy="trained", num_problems=16, samples=8, steps=20, max_attempts=1, extract="exact")
    run.raise_for_outcome()
    rewards = [each.reward or 0.0 for each in run.rounds]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:3]) / 3 + 0.2, rewards
    check_steps(training, run, 20)
