"""The parts of a training with ART that need nothing of ART."""

from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path

import pytest
from pydantic import JsonValue
from rich.console import Console
from tests.support.sample_runs import trajectory

from sandrl.cli.training import ART, TrainingLines, TrainingTable, training_remark
from sandrl.cli.verbosity import choose_verbosity
from sandrl.config.art import ArtPolicy, ArtTrainConfig
from sandrl.config.layers import resolve
from sandrl.errors import InfrastructureError, InputError, InterruptedRunError, TrainingError, UsageError
from sandrl.events import (
    Event,
    ProblemPlayed,
    StepFinished,
    StepStarted,
    TrainingStarted,
    TrainingStopping,
    TrajectoriesCollected,
)
from sandrl.models.messages import Message
from sandrl.runs import MessageRow, MetricsRow, RunReader, RunWriter, TrajectoryRow
from sandrl.runs.rows import BranchRow
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from sandrl.trainers.art.checks import COMMAND
from sandrl.trainers.art.groups import Group, Sample, count_tokens, groups_of_rows, why_no_gradient, with_gradient
from sandrl.trainers.art.loop import EventLoop
from sandrl.trainers.art.plan import make_request
from sandrl.trainers.art.results import STEP, ArtRun, Round, check_sound, next_round

JOB = "job-0123abcd"


def sample(
    reward: float, *, tokens: tuple[str, ...] = ("token_id:5",), logprobs: tuple[float, ...] = (-0.1,)
) -> Sample:
    said = Message("assistant", "x", tokens=tokens, logprobs=logprobs)
    return Sample("s", (Message("system", "s"), Message("user", "u"), said), reward)


def group(*rewards: float, name: str = "a") -> Group:
    return Group(name, tuple(map(sample, rewards)))


def agents_row(reward: float, *, is_told: bool = True) -> TrajectoryRow:
    told = {"tokens": ("token_id:5", "token_id:6"), "logprobs": (-0.1, -0.2)}
    asked, said = MessageRow(role="user", content="u"), MessageRow(role="assistant", content="x", **told)
    other = MessageRow(role="assistant", content="y", **(told if is_told else {}))
    given = MessageRow(role="assistant", content="x", is_given=True)
    return trajectory(
        id=f"r{reward}",
        reward=reward,
        messages=(asked, said, asked, said),
        tools=({"name": "main"},),
        branches=(BranchRow(messages=(asked, given, asked, other), tools=({"name": "sub"},)),),
    )


def test_every_turn_that_was_sampled_in_a_conversation_of_an_agent_is_trained_on_once() -> None:
    ((found,),) = groups_of_rows([agents_row(0.0), agents_row(1.0)]).values()
    main, branch = found.samples[0].conversations
    assert (main.turns, branch.turns) == ((1, 3), (3,))
    assert ([*main.tools], [*branch.tools]) == ([{"name": "main"}], [{"name": "sub"}])
    assert count_tokens([found]) == 2 * 3 * 2
    assert with_gradient([found], needs_logprobs=True) == (found,)


def test_an_agents_episode_without_the_tokens_of_a_turn_is_left_out() -> None:
    ((found,),) = groups_of_rows([agents_row(0.0), agents_row(1.0, is_told=False)]).values()
    assert [each.has_logprobs for each in found.samples] == [True, False]
    assert not with_gradient([found], needs_logprobs=True)


def test_the_defaults_are_the_documented_ones() -> None:
    config = resolve(ArtTrainConfig, {})
    shown = (config.backend, config.policy, config.teacher, config.base_model, config.problems, config.rollout)
    assert shown == ("auto", "teacher", "gpt-5.1-codex-mini", "Qwen/Qwen3-8B", "mbpp", "tools")
    assert (config.num_problems, config.steps, config.samples) == (10, 5, 2)
    assert (config.learning_rate, config.project) == (1e-5, "aviato-mbpp")
    assert config.episodes_per_step == 20


@pytest.mark.parametrize(
    ("given", "message", "fields"),
    [
        ({"samples": 1}, "samples: Input should be greater than or equal to 2, not 1", ("samples",)),
        ({"policy": "trained", "model": "gpt"}, "model: names a teacher, but the trained model acts", ("model",)),
        ({"policy": "trained", "base_url": "http://x"}, "base_url: names a teacher", ("base_url",)),
        ({"trajectories": "run", "model": "gpt"}, "model: names a teacher, but recorded episodes", ("model",)),
        (
            {"policy": "trained", "temperature": 0},
            "temperature: must be more than 0; at 0 all episodes",
            ("temperature",),
        ),
        ({"batch_size": 5}, "batch_size: 5 is not a multiple of samples, which is 2;", ("batch_size",)),
        ({"batch_size": 22}, "batch_size: needs 11 problems, and num_problems is 10", ("batch_size", "num_problems")),
        ({"learning_rate": 0}, "learning_rate: Input should be greater than 0", ("learning_rate",)),
        ({"num_steps": 1}, "there is no option 'num_steps'", ()),
        ({"project": "a b"}, "project: String should match pattern", ("project",)),
        ({"max_sandboxes": 1}, "max_sandboxes: must be 2 or more; an episode uses", ("max_sandboxes",)),
    ],
)
def test_what_cannot_work_is_said_by_the_name_of_its_field(
    given: dict[str, object], message: str, fields: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(ArtTrainConfig, given)
    assert refused.value.message.startswith(message)
    assert [name for name in refused.value.fields if name != "print_config"] == [*fields]


def test_a_step_has_a_group_of_each_problem_or_as_many_as_its_episodes_make() -> None:
    assert resolve(ArtTrainConfig, {"num_problems": 7, "samples": 4}).groups == 7
    some = resolve(ArtTrainConfig, {"num_problems": 7, "samples": 4, "batch_size": 12})
    assert (some.groups, some.episodes_per_step) == (3, 12)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "state", tmp_path / "cache", tmp_path / "runs")


def saved_run(settings: Settings, config: ArtTrainConfig, *, command: str = COMMAND, **more: str) -> None:
    options: dict[str, JsonValue] = {**config.document(), "runtime_kind": "local", **more}
    RunWriter.create(settings.runs_dir, command=command, job_id=JOB, name="begun", options=options).close()


def test_a_run_that_goes_on_keeps_its_configuration_but_may_have_more_steps(settings: Settings) -> None:
    saved_run(settings, resolve(ArtTrainConfig, {"policy": "trained", "steps": 2, "reward": "fraction"}))
    request = make_request({"steps": 7}, settings, resume="begun", file={"max_sandboxes": 6, "reward": "fraction"})
    config = request.config
    assert (config.policy, config.steps, config.max_sandboxes) == (ArtPolicy.TRAINED, 7, 6)
    assert (config.reward, request.resume) == ("fraction", settings.runs_dir / "begun")
    with pytest.raises(UsageError, match="base_model has changed since the run 'begun' was started") as refused:
        make_request({"base_model": "other"}, settings, resume="begun")
    assert refused.value.fields == ("base_model",)
    with pytest.raises(UsageError, match="leave out run_name and runs_dir"):
        make_request({"run_name": "begun"}, settings, resume="begun")


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [("grpo", {}, "is a run of `sandrl grpo`"), (COMMAND, {"backend": "abacus"}, "incompatible version")],
)
def test_a_run_that_another_command_or_version_has_begun_does_not_go_on(
    settings: Settings, command: str, more: dict[str, str], message: str
) -> None:
    saved_run(settings, resolve(ArtTrainConfig, {}), command=command, **more)
    with pytest.raises(InputError, match=message):
        make_request({}, settings, resume="begun")


def test_only_groups_whose_rewards_differ_teach() -> None:
    groups = (group(1, 1), group(0, 1), group(0.5), group(0, 0, 0, 1))
    assert with_gradient(groups, needs_logprobs=True) == (groups[1], groups[3])
    dumb = Group("b", (sample(0), sample(1, tokens=("the",), logprobs=(-1.0,))))
    assert with_gradient((dumb,), needs_logprobs=False) == (dumb,)
    # Its only other member cannot be trained on: one is no group.
    assert with_gradient((dumb,), needs_logprobs=True) == ()


def test_why_nothing_was_trained_is_said() -> None:
    assert why_no_gradient((), 3, needs_logprobs=True) == "no episode has a reward, 3 dropped"
    equal = why_no_gradient((group(0, 0), group(0, 0)), 0, needs_logprobs=True)
    assert equal == "equal rewards in every group: 0 in all, 2 groups"
    assert (
        why_no_gradient((group(0, 0), group(1, 1)), 0, needs_logprobs=True) == "equal rewards in every group, 2 groups"
    )
    single = why_no_gradient((group(1), group(0)), 2, needs_logprobs=True)
    assert single == "no problem has two scored episodes to compare, 2 dropped"
    deaf = Group("b", (sample(0), sample(1, tokens=(), logprobs=())))
    left = why_no_gradient((deaf, group(0, 0)), 0, needs_logprobs=True)
    assert left == "equal rewards in every group: 0 in all, 2 groups, 1 left out because they have no logprobs"
    mute = Group("b", (sample(0, tokens=(), logprobs=()), sample(1, tokens=(), logprobs=())))
    assert why_no_gradient((mute,), 0, needs_logprobs=True).startswith("no logprobs: the endpoint")


def row(step: int, task: str, reward: float | None, **more: object) -> TrajectoryRow:
    messages = (MessageRow(role="user", content="u"), MessageRow(role="assistant", content="a"))
    fields = {"messages": messages, **more}
    return TrajectoryRow(
        job_id=JOB, step=step, index=0, id=f"{step}/{task}", task_id=task, reward=reward, status="passed",
        duration_seconds=0.0, **fields,
    )  # fmt: skip


def test_recorded_episodes_are_grouped_by_step_and_problem() -> None:
    rows = [
        row(1, "a", 1.0), row(0, "a", 1.0), row(0, "b", 0.0), row(0, "a", 0.0), row(0, "a", None),
        row(0, "a", 0.5, messages=()), row(0, "a", 0.7, held_out=True),
    ]  # fmt: skip
    steps = groups_of_rows(rows)
    assert list(steps) == [0, 1]
    assert [(each.task_id, [one.reward for one in each.samples]) for each in steps[0]] == [("a", [1, 0]), ("b", [0])]


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path, command=COMMAND, job_id=JOB, name="run")


def measured(writer: RunWriter, round_: int, step: int | None) -> None:
    metrics = {"reward/mean": 0.5} | ({} if step is None else {STEP: float(step)})
    writer.append(MetricsRow(job_id=JOB, step=round_, metrics=metrics))


def test_a_run_goes_on_after_its_last_round(writer: RunWriter) -> None:
    with writer:
        assert next_round(writer, 0) == 0
        for round_, step in enumerate((1, 1, 2)):
            measured(writer, round_, step)
        # What was written when the job was given up in the middle of a round is no round.
        measured(writer, 3, None)
        assert next_round(writer, 2) == 3
        with pytest.raises(UsageError, match="it has made 2 steps, and its backend has 1"):
            next_round(writer, 1)


def test_a_step_that_is_in_no_line_gets_one(writer: RunWriter) -> None:
    with writer:
        measured(writer, 0, 1)
        for reward in (1.0, 0.0, 0.0, 1.0):
            writer.append(row(1, "a", reward))
        assert next_round(writer, 2) == 2
        last = RunReader(writer.path).metrics().rows[-1]
        assert (last.step, last.metrics[STEP], last.metrics["reward/mean"], last.metrics["completions"]) == (
            1,
            2,
            0.5,
            4,
        )
        assert next_round(writer, 2) == 2


def test_a_round_that_was_given_up_after_its_step_is_shown_with_that_step(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, command=COMMAND, job_id=JOB, name="run") as first:
        measured(first, 0, 1)
        first.append(row(1, "a", 1.0))
        measured(first, 1, None)
    with RunWriter.create(tmp_path, command=COMMAND, job_id="job-0123abce", name="run", resume=True) as second:
        assert next_round(second, 2) == 2
        rows = RunReader(second.path).metrics().rows
        assert [(each.step, each.metrics.get(STEP)) for each in rows] == [(0, 1), (1, 2)]


def test_a_run_whose_model_is_lost_does_not_go_on(writer: RunWriter) -> None:
    with writer:
        measured(writer, 0, 1)
        check_sound(writer.path)
        writer.append(MetricsRow(job_id=JOB, step=1, metrics={STEP: 2.0, "loss": float("nan")}))
        with pytest.raises(UsageError, match="a loss or gradient in it is not a number"):
            check_sound(writer.path)


def round_(step: int, failure: str = "", *, trajectories: int = 4, dropped: int = 0) -> Round:
    return Round(step, trajectories, dropped, 0.5, {}, failure)


def run(*rounds: Round, of: int = 3, **more: object) -> ArtRun:
    step = rounds[-1].step if rounds else 0
    fields = {"job_id": JOB, "run_dir": Path("runs/r"), "first_step": 0, "steps": step, "of": of, "rounds": rounds}
    return ArtRun(**{**fields, **more})  # type: ignore[arg-type]


def test_how_a_training_ends() -> None:
    run(round_(1), round_(1, "equal"), round_(2), round_(3)).raise_for_outcome()
    run(round_(1), is_short=True).raise_for_outcome()
    with pytest.raises(TrainingError, match="step 2 had no gradient, 2 times: why"):
        run(round_(1), round_(1, "equal"), round_(1, "why")).raise_for_outcome()
    with pytest.raises(TrainingError):
        run(round_(0, "equal"), is_short=True).raise_for_outcome()
    # Steps of earlier jobs count, and failures of earlier steps do not.
    run(first_step=5, steps=5).raise_for_outcome()
    run(round_(2, "equal"), is_short=True, of=9).raise_for_outcome()
    with pytest.raises(TrainingError, match="step 2 had no gradient, 1 times"):
        run(round_(0, "equal"), round_(0, "equal"), round_(1), round_(1, "equal")).raise_for_outcome()
    with pytest.raises(InfrastructureError, match="4 episodes were lost; none"):
        run(round_(0, "none", trajectories=0, dropped=4)).raise_for_outcome()
    with pytest.raises(InterruptedRunError, match="interrupted after step 1 of 3") as interrupted:
        run(round_(1), signal_number=2).raise_for_outcome()
    assert interrupted.value.hint == "sandrl art train --resume r"


METRICS = {
    "reward/mean": 0.35,
    "reward/std": 0.4770,
    "pass_rate": 0.35,
    "episodes/dropped": 0.0,
    "reward/zero_variance_groups": 3.0,
    "reward/groups": 10.0,
    "train/gradient_steps": 1.0,
    "train/tokens": 4213.0,
    "loss": -0.02814,
    "step_seconds": 52.44,
}
TOLD: list[Event] = [
    TrainingStarted("r", "base", 10, 0, 5, 20, backend="tinker", actor="base"),
    StepStarted(0, 5, 1, 10),
    ProblemPlayed("mbpp/602", (1.0, None), 3, 10),
    TrajectoriesCollected(20, 0, 0.35, 10, 7),
    StepFinished(0, 5, METRICS),
    StepStarted(1, 5, 2, 10),
    TrajectoriesCollected(0, 20, None, 0, 0),
    StepFinished(1, 5, {"episodes/dropped": 20.0}, "no episode has a reward, 20 dropped", 2),
]
STEP_LINES = [
    "Step 1/5: reward 0.35 ±0.48, passed 35%, dropped 0, groups with equal rewards 3/10, tokens 4213,"
    " loss -0.0281, 52.4 s",
    "Step 2 failed, nothing was trained (attempt 2): no episode has a reward, 20 dropped",
]
BEGUN = "Training: base (tinker), to step 5, episodes by base: 20 per step on 10 problems (run r)"


@pytest.mark.parametrize("shows_steps", [True, False])
def test_each_step_has_one_line(capsys: pytest.CaptureFixture[str], shows_steps: bool) -> None:
    shown = TrainingLines(ART, shows_steps=shows_steps)
    for event in TOLD:
        shown(event)
    out, err = capsys.readouterr()
    assert out.splitlines() == (STEP_LINES if shows_steps else [])
    assert err.splitlines() == ([BEGUN] if shows_steps else [BEGUN, *STEP_LINES])


def test_a_user_who_asks_for_more_sees_each_problem(capsys: pytest.CaptureFixture[str]) -> None:
    choose_verbosity(verbose=True, quiet=False)
    shown = TrainingLines(ART)
    for event in TOLD:
        shown(event)
    choose_verbosity(verbose=False, quiet=False)
    out, err = capsys.readouterr()
    assert out.splitlines() == STEP_LINES
    assert err.splitlines() == [
        BEGUN,
        "Step 1: 10 problems",
        "Problem 3/10: mbpp/602, rewards 1.00, dropped",
        "Collected 20 trajectories, avg reward: 0.35 (rewards differ in 7 of 10 groups)",
        'Trained: step=1, metrics={"gradient_steps": 1, "trained_tokens": 4213, "loss": -0.02814, "seconds": 52.44}',
        "Step 2, attempt 2: 10 problems",
        "Collected 0 trajectories, 20 dropped, avg reward: – (rewards differ in 0 of 0 groups)",
    ]


def test_a_terminal_has_a_table_with_the_course_of_the_reward() -> None:
    width = 120
    console = Console(width=width, height=30, force_terminal=True, file=StringIO())
    now = 0.0
    with TrainingTable(console, ART, clock=lambda: now) as table:
        for event in TOLD:
            table(event)
        for step in (1, 2, 3):
            table(StepFinished(step, 5, {**METRICS, "reward/mean": 0.2 * (step + 1)}))
        table(StepStarted(4, 5, 1, 10))
        table(ProblemPlayed("mbpp/7", (1.0,), 4, 10))
        now = 9.0
        paper = Console(width=width, height=30, file=StringIO())
        paper.print(table.render())
    assert isinstance(console.file, StringIO)
    assert isinstance(paper.file, StringIO)
    said, drawn = console.file.getvalue(), paper.file.getvalue()
    lines = [line.strip() for line in drawn.splitlines()]
    assert lines[0].split() == ["step", "reward", "passed", "dropped", "equal", "groups", "tokens", "loss", "time"]
    assert [line.split()[0] for line in lines[1:5]] == ["1/5", "2/5", "3/5", "4/5"]
    # The round that taught nothing is a gap of the course, not a row.
    assert lines[5].startswith("reward")
    assert lines[5].endswith("0.35 → 0.80")
    assert lines[6] == "step 5/5: 4/10 problems finished, 9 s in total"
    assert "nothing was trained" in said
    assert "mbpp/602" not in said
    assert max(map(len, drawn.splitlines())) <= width


def test_a_training_that_goes_on_says_from_which_step() -> None:
    begun = TrainingStarted("r", "base", 10, 2, 5, 20, backend="tinker", actor="base")
    assert training_remark(begun) == BEGUN.replace("step 5,", "step 5, resumed at step 3,")


def test_the_settings_find_tinkers_key_and_treat_it_as_a_secret() -> None:
    older = Settings.from_environment({"TINKER_API_KEY": "tml-two", "TINKER_BASE_URL": "http://t"})
    assert (older.tinker_api_key_source, older.tinker_base_url) == ("TINKER_API_KEY", "http://t")
    both = Settings.from_environment({"ART_TINKER_API_KEY": "tml-one", "TINKER_API_KEY": "tml-two"})
    assert (both.tinker_api_key, both.tinker_api_key_source) == ("tml-one", "ART_TINKER_API_KEY")
    assert both.secrets == ("tml-one",)
    assert "tml-" not in repr(both)


def test_who_waits_for_the_loop_is_woken_by_a_wish_to_stop() -> None:
    import asyncio

    interrupt = Interrupt()
    told: list[Event] = []

    async def answer() -> int:
        await asyncio.sleep(0.2)
        return 42

    with EventLoop(interrupt, told.append) as loop:
        threading.Timer(0.05, interrupt.request, [2]).start()
        # A step is finished after the first wish; what is no step is not.
        assert loop.run(answer(), is_step=True) == 42
        assert told == [TrainingStopping(cancel=False)]
        with pytest.raises(InterruptedRunError):
            loop.run(asyncio.sleep(600))
        interrupt.request(2)
        with pytest.raises(InterruptedRunError):
            loop.run(asyncio.sleep(600), is_step=True)
