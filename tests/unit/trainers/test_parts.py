"""The parts of a training run that need none of the libraries that train."""

from __future__ import annotations

import json
import re
import signal
from io import StringIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from rich.console import Console

from sandrl import events
from sandrl.cli.training import GRPO, TrainingLines, TrainingTable, reward_call_line, step_line, training_remark
from sandrl.errors import InputError, InterruptedRunError
from sandrl.problems.splits import load_splits
from sandrl.runs.recorder import put_together
from sandrl.sandboxes import Level
from sandrl.settings import RuntimeKind
from sandrl.trainers.interrupts import TrainingInterrupt

HERE = (RuntimeKind.LOCAL, RuntimeKind.DAEMONLESS)


def shares(name: str, value: float | None) -> dict[str, float | None]:
    """A share and its bounds, as an evaluation has them."""
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {f"held_out/{name}": value, f"held_out/{name}_low": low, f"held_out/{name}_high": high}


def call(number: int, **counts: int) -> events.RewardCallFinished:
    fields = dict.fromkeys(("completions", "sandboxes", "passed", "judged", "no_code", "cached", "unscorable"), 0)
    return events.RewardCallFinished(number=number, seconds=float(number), **{**fields, **counts})


def test_a_call_for_rewards_is_one_line() -> None:
    plain = call(4, completions=3, sandboxes=2, judged=2, no_code=1)
    here = RuntimeKind.LOCAL
    assert reward_call_line(plain, here) == (
        "Reward call 4: 0 of 2 completions with code passed, 2 executions in sandboxes, 1 without code (not executed)"
    )
    full = call(5, completions=9, sandboxes=3, passed=4, judged=7, cached=4, unscorable=1)
    line = (
        "Reward call 5: 4 of 7 completions with code passed, 3 executions in sandboxes, 4 with the verdict of identical"
        " code, 1 without a reward (unscorable)"
    )
    assert reward_call_line(full, here) == line
    asked = call(6, sandboxes=3, judged=3, second_opinions=2, disagreements=1)
    assert reward_call_line(asked, here).endswith("in sandboxes, 1 of 2 failures pass in one process")


@pytest.mark.parametrize(("runtime", "begin"), [*((each, "") for each in HERE), (RuntimeKind.REMOTE, "[Aviato] ")])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_calls_for_rewards_name_aviato_only_where_its_sandboxes_were_used(
    runtime: RuntimeKind, begin: str, is_terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = StringIO()
    chosen = events.RuntimeChosen(runtime, "asked for", "address", "python:3.11", "native")
    view = TrainingTable(Console(file=shown, width=200), clock=lambda: 0.0) if is_terminal else TrainingLines()
    for event in (chosen, call(1, sandboxes=2, passed=1, judged=2)):
        view(event)
    if isinstance(view, TrainingTable):
        view.console.print(view.render())
    lines = (shown.getvalue() + capsys.readouterr().out).splitlines()
    assert f"{begin}Reward call 1: 1 of 2 completions with code passed, 2 executions in sandboxes" in [
        line.strip() for line in lines
    ]


def test_a_step_without_a_reward_has_a_line_too() -> None:
    metrics: dict[str, float | None] = {"reward/mean": None, "unscorable_share": 1.0, "loss": 0.0, "step_seconds": 2.5}
    assert step_line(events.StepFinished(0, 3, metrics), GRPO) == (
        "Step 1/3: reward – ±–, passed –, unscorable 100%, groups with equal rewards –/–,"
        " executions –, loss 0.0000, 2.5 s"
    )


def test_the_line_of_a_step_counts_groups_that_nothing_has_replaced() -> None:
    metrics: dict[str, float | None] = {"reward/zero_variance_groups": 5, "reward/groups": 8, "groups/missing": 1}
    assert "groups with equal rewards 5/8 (1 missing)," in step_line(events.StepFinished(0, 3, metrics), GRPO)


@pytest.mark.parametrize(("width", "headers"), [(80, 8), (40, 4)])
def test_a_narrow_terminal_shows_what_matters_and_cuts_no_number(width: int, headers: int) -> None:
    metrics: dict[str, float | None] = {"reward/mean": 0.41, "reward/std": 0.49, "pass_rate": 0.41, "loss": -0.0123}
    console = Console(width=width, height=20, force_terminal=True, file=StringIO())
    with TrainingTable(console) as table:
        table(events.StepFinished(6, 80, metrics))
        table(events.Warned("an \x1b[31modd one"))
    assert isinstance(console.file, StringIO)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip() for line in console.file.getvalue().splitlines()]
    assert "warning: an \\x1b[31modd one" in lines
    [head] = {line for line in lines if line.startswith("step")}
    assert len(re.split(r"\s{2,}", head)) == headers
    [row] = {line for line in lines if line.startswith("7/80")}
    assert {"0.41 ±0.49", "41%", "-0.0123"} <= set(re.split(r"\s{2,}", row))


def test_below_the_table_are_the_course_of_the_reward_and_what_is_going_on() -> None:
    console = Console(width=80, height=7, force_terminal=True, file=StringIO())
    now = 100.0
    table = TrainingTable(console, clock=lambda: now)

    def below() -> list[str]:
        with console.capture() as shown:
            console.print(table.render())
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.get()).splitlines()
        return [line.rstrip() for line in lines if not re.match(r"step +reward| *\d+/", line)]

    table(events.TrainingStarted("run", "tiny", 10, 0, 9, 8))
    table(events.EvaluationStarted(0, 16))
    now = 112.4
    assert below() == ["evaluation after 0 steps: generating for 16 problems, 12 s in total"]
    table(call(1, completions=16, judged=16))
    assert below()[1] == "evaluation after 0 steps, 12 s in total"
    table(events.EvaluationFinished(0, 16, {"held_out/pass@1": 0.5}))
    assert below()[1] == "step 1/9: generating, 12 s in total"
    for step, reward in enumerate([0.25, None, 0.5, 1.0]):
        table(events.StepFinished(step, 9, {"reward/mean": reward}))
    # The table has room for three of the four steps, the curve for all.
    assert below()[0] == "reward  ▁ ▃█  0.25 → 1.00"
    table(call(2, completions=8, judged=8))
    assert below()[2] == "step 5/9: learning, 12 s in total"
    table(events.StepFinished(8, 9, {"reward/mean": 1.0}))
    assert not any("generating" in line for line in below())


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        (
            {
                **shares("pass@1", 0.62),
                "held_out/problems": 128.0,
                **shares("greedy", 0.7),
                "held_out/greedy_problems": 128.0,
            },
            "pass@1 0.62 [0.52, 0.72] sampled, 0.70 [0.60, 0.80] greedy, of 128 problems",
        ),
        (
            {**shares("pass@1", 0.62), **shares("pass@5", 0.8), "held_out/problems": 126.0},
            "pass@1 0.62 [0.52, 0.72], pass@5 0.80 [0.70, 0.90] sampled,"
            " of 126 of 128 problems (the others could not be scored)",
        ),
        (
            {**shares("pass@1", None), "held_out/problems": 0.0},
            "pass@1 – sampled, of 0 of 128 problems (the others could not be scored)",
        ),
    ],
)
def test_an_evaluation_is_a_line_with_its_intervals(metrics: dict[str, float | None], line: str) -> None:
    assert training_remark(events.EvaluationFinished(20, 128, metrics)) == f"After 20 steps: {line}"


def test_a_set_to_evaluate_on_leaves_out_training_problems_and_needs_names_of_its_own(tmp_path: Path) -> None:
    def write(name: str, *prompts: str) -> str:
        rows = [{"task_id": f"p{n}", "prompt": prompt, "check": "exit_status"} for n, prompt in enumerate(prompts)]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return str(tmp_path / name)

    mine = write("mine.jsonl", *(f"Print {n}." for n in range(20)))
    none_left = write("same.jsonl", "print 3", "Print  4")
    with pytest.raises(InputError, match="all of its problems are also in the training set"):
        load_splits(mine, num_problems=None, eval_problems=50, seed=0, eval_set=none_left)
    same_name = write("names.jsonl", "Print 3.", "Show 3.")
    with pytest.raises(InputError, match="has a problem 'p1' that differs from the training problem"):
        load_splits(mine, num_problems=None, eval_problems=50, seed=0, eval_set=same_name)
    sets = load_splits("tiny", num_problems=5, eval_problems=3, seed=0, eval_set=mine)
    assert (len(sets.train), len(sets.evaluation), sets.is_held_out) == (5, 3, True)


def test_the_parts_of_one_call_are_put_together_by_their_number() -> None:
    parts = [call(1, completions=4, passed=1), call(2, completions=4), call(1, completions=4, passed=2, sandboxes=3)]
    first, second = put_together(parts)
    assert (first.completions, first.passed, first.sandboxes, second.completions) == (8, 3, 3, 4)


def test_a_set_with_splits_keeps_them_and_the_evaluation_is_the_same_for_every_seed() -> None:
    one, other = (load_splits("tiny", num_problems=20, eval_problems=16, seed=seed) for seed in (1, 2))
    assert one.is_held_out
    assert not one.train.keys() & one.evaluation.keys()
    assert one.evaluation == other.evaluation
    assert (len(one.train), len(one.evaluation)) == (20, 16)
    assert one.train != other.train
    assert one.content != other.content


def test_of_a_set_without_splits_a_fifth_is_held_out_by_name(tmp_path: Path) -> None:
    rows = [{"task_id": f"p{n}", "prompt": f"Print {n}.", "check": "exit_status"} for n in range(20)]
    for name, chosen in (("all", rows), ("turned", rows[::-1])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, chosen)), encoding="utf-8")
    one, other = (
        load_splits(str(tmp_path / f"{name}.jsonl"), num_problems=None, eval_problems=50, seed=0)
        for name in ("all", "turned")
    )
    assert one.is_held_out
    assert (len(one.train), len(one.evaluation)) == (16, 4)
    assert one.evaluation.keys() == other.evaluation.keys()
    assert one.remark is None


def test_rows_that_are_skipped_are_counted_once(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"task_id": f"p{n}", "prompt": f"Print {n}.", "check": "exit_status"} for n in range(20)
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {"task_id": "p20"}])), encoding="utf-8")
    with pytest.raises(InputError, match="jsonl:21"):
        load_splits(str(path), num_problems=None, eval_problems=50, seed=0)
    sets = load_splits(str(path), num_problems=None, eval_problems=50, seed=0, skip_bad_rows=True)
    assert len(sets.all) == 20
    assert sets.remark is not None
    assert sets.remark.startswith("1 rows of problems skipped; the first: ")


def test_without_an_evaluation_nothing_is_held_out(tmp_path: Path) -> None:
    rows = [{"task_id": f"p{n}", "prompt": f"Print {n}.", "check": "exit_status"} for n in range(20)]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    sets = load_splits(str(path), num_problems=None, eval_problems=0, seed=0)
    assert (len(sets.train), len(sets.evaluation), sets.is_held_out) == (20, 0, False)


@pytest.mark.parametrize(
    ("twin", "is_duplicate"),
    [
        ({"prompt": "Add  TWO\nnumbers: {n}.", "tests": ["assert other({n}) == 1"]}, True),
        ({"prompt": "A sum, {n}", "tests": ["assert add({n}, 1) == {n} + 1 "]}, True),
        ({"prompt": "A sum, {n}", "tests": ["assert add({n}, 2) == {n} + 2"]}, False),
    ],
)
def test_a_held_out_problem_that_is_in_the_training_split_again_is_left_out(
    tmp_path: Path, twin: dict[str, Any], is_duplicate: bool
) -> None:
    rows = [
        {"task_id": f"p{n}", "prompt": f"Add two numbers: {n}.", "tests": [f"assert add({n}, 1) == {n} + 1"]}
        for n in range(40)
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    plain = load_splits(str(path), num_problems=None, eval_problems=50, seed=0)
    held_out, trained = next(iter(plain.evaluation)), next(iter(plain.train))
    number = trained.removeprefix("p")
    filled = json.loads(json.dumps(twin).replace("{n}", number))
    rows[int(held_out.removeprefix("p"))].update(filled)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    sets = load_splits(str(path), num_problems=None, eval_problems=50, seed=0)
    assert sets.train == plain.train
    assert (held_out in sets.evaluation, sets.duplicates) == (not is_duplicate, int(is_duplicate))
    if is_duplicate:
        assert sets.remark == (
            "1 held-out problem is left out: a training problem has the same checks or the same prompt"
        )


def test_a_small_set_is_evaluated_on_itself_and_too_many_problems_are_refused() -> None:
    toy = load_splits("toy", num_problems=None, eval_problems=128, seed=0)
    assert not toy.is_held_out
    assert toy.train == toy.evaluation
    with pytest.raises(InputError, match="has 5 problems to train on, fewer than the 6 that were requested"):
        load_splits("toy", num_problems=6, eval_problems=0, seed=0)


def test_the_first_wish_finishes_the_second_tears_the_third_changes_nothing() -> None:
    interrupt = TrainingInterrupt()
    with interrupt.tearing():
        assert interrupt.request(signal.SIGINT)
        assert interrupt.scoring.level is Level.NONE
        with pytest.raises(InterruptedRunError):
            interrupt.request(signal.SIGTERM)
    assert [interrupt.scoring.level] == [Level.CANCEL]
    assert not interrupt.request(signal.SIGINT)


def test_outside_of_training_nothing_is_torn() -> None:
    interrupt = TrainingInterrupt()
    assert interrupt.request(signal.SIGINT)
    assert interrupt.request(signal.SIGINT)
    assert interrupt.level is Level.CANCEL


def test_a_launcher_that_passes_ctrl_c_on_does_not_count_twice() -> None:
    interrupt = TrainingInterrupt(is_one_of_many=True)
    with interrupt.tearing():
        assert interrupt.request(signal.SIGINT)
        assert interrupt.request(signal.SIGTERM)
        assert interrupt.level is Level.FINISH


def test_each_wish_is_answered_from_another_thread() -> None:
    interrupt = TrainingInterrupt()
    told: SimpleQueue[events.Event] = SimpleQueue()
    with interrupt.answered(told.put):
        for cancel in (False, True):
            interrupt.request(signal.SIGINT)
            assert told.get(timeout=10) == events.TrainingStopping(cancel=cancel)
    with TrainingInterrupt().answered(told.put):
        pass
    assert told.empty()
