"""Problems are chosen by their cards: before a set is split, and the same ones when a run is resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.task_directories import HARBOR, write_task

from sandrl.config.layers import resolve
from sandrl.config.scoring import RewardConfig
from sandrl.errors import InputError, UsageError
from sandrl.events import Event, Warned
from sandrl.problems import Problem, load_problems
from sandrl.problems.quality import QualityFilter, card_digest
from sandrl.problems.splits import load_splits
from sandrl.problems.tasks.sources import read_task
from sandrl.runs.card_record import CardRecord, cards_at, cards_of_run
from sandrl.runs.cards import Card, Cheat
from sandrl.settings import Settings, load_settings


def problem(number: int, **given: Any) -> Problem:
    return Problem(f"p{number}", f"Return {number}.", tests=(f"assert f() == {number}",), **given)


def card(of: Problem, quality: float) -> Card:
    return Card(task_id=of.task_id, kind="task", digest=card_digest(of), nop=1.0 - quality, nop_runs=1)


def cards(*qualities: float | None) -> dict[str, Card]:
    """Cards of the problems from 0 on; None is a problem without one."""
    given = [card(problem(n), each) for n, each in enumerate(qualities) if each is not None]
    return {each.digest: each for each in given}


def written(path: Path, count: int) -> Path:
    rows = [{"task_id": f"p{n}", "prompt": f"Return {n}.", "tests": [f"assert f() == {n}"]} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))
    return load_settings()


def filter_of(settings: Settings, resume: Path | None = None, **given: Any) -> QualityFilter:
    found = QualityFilter.of(resolve(RewardConfig, {}, given), settings, resume=resume)
    assert found is not None
    return found


def test_low_and_unmeasured_problems_are_left_out_and_named(tmp_path: Path) -> None:
    quality = QualityFilter(0.5, cards(1.0, 0.5, 0.4, None))
    loaded = load_problems(written(tmp_path / "p.jsonl", 4), quality=quality)
    assert [*loaded.problems] == ["p0", "p1"]
    assert [*loaded.names] == ["p0", "p1", "p2", "p3"]
    seen: list[Event] = []
    quality.tell("p.jsonl", seen.append)
    [warning] = seen
    assert isinstance(warning, Warned)
    assert warning.message == ("2 of 4 problems are left out; quality lower than 0.5: 1 (p2); not measured: 1 (p3)")
    assert "sandrl problems validate p.jsonl" in (warning.hint or "")
    assert quality.why_left_out("p2") == "its quality is 0.40, lower than min_quality 0.5"
    assert quality.why_left_out("p3") == "its quality was not measured"
    assert quality.why_left_out("p0") is None


def test_a_problem_without_a_quality_was_not_measured(tmp_path: Path) -> None:
    failed = Card(task_id="p0", kind="task", digest=card_digest(problem(0)), null_runs=3)
    quality = QualityFilter(0.0, {failed.digest: failed} | cards(None, 0.0))
    assert [*load_problems(written(tmp_path / "p.jsonl", 2), quality=quality).problems] == ["p1"]


def test_nothing_left_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", 3)
    with pytest.raises(InputError, match="no problem is left by min_quality: 3 of 3 problems") as failure:
        load_problems(path, quality=QualityFilter(0.5, {}))
    assert failure.value.fields == ("min_quality",)
    assert f"sandrl redteam --problems {path}" in (failure.value.hint or "")


def test_a_set_is_filtered_before_it_is_split(tmp_path: Path) -> None:
    qualities = [1.0 if number % 2 else 0.0 for number in range(100)]
    good = [f"p{number}" for number in range(1, 100, 2)]
    path = str(written(tmp_path / "p.jsonl", 100))
    sets = load_splits(path, num_problems=None, eval_problems=50, seed=0, quality=QualityFilter(0.5, cards(*qualities)))
    assert sets.is_held_out
    assert (len(sets.train), len(sets.evaluation)) == (40, 10)
    assert sorted([*sets.train, *sets.evaluation]) == sorted(good)
    assert sets.quality is not None
    assert sets.quality.left_out == 50


def test_the_problems_of_an_evaluation_set_of_its_own_are_filtered_too(tmp_path: Path) -> None:
    path, other = written(tmp_path / "p.jsonl", 3), tmp_path / "other.jsonl"
    other.write_text('{"task_id": "q", "prompt": "Q", "tests": ["assert g() == 1"]}\n')
    with pytest.raises(InputError, match=r"other\.jsonl.*no problem is left by min_quality"):
        load_splits(
            str(path),
            num_problems=None,
            eval_problems=5,
            seed=0,
            eval_set=str(other),
            quality=QualityFilter(0.5, cards(1.0, 1.0, 1.0)),
        )


def test_a_problem_that_was_left_out_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandrl.problems.store.MEMORY_BYTES", 1)
    loaded = load_problems(written(tmp_path / "p.jsonl", 50), quality=QualityFilter(0.5, cards(0.0, 1.0)))
    assert [*loaded.problems] == ["p1"]
    assert loaded.problems["p1"].tests == ("assert f() == 1",)


def test_tasks_that_were_never_tried_with_cheats_are_kept_and_told(tmp_path: Path) -> None:
    task = read_task(write_task(tmp_path / "task"))
    on_task = Problem("task", "", task=task)
    known = Card(task_id="task", kind="task", digest=task.digest, nop=0.0, nop_runs=3)
    for tried, count in ((None, 1), (7, 0)):
        quality = QualityFilter(1.0, {task.digest: known.model_copy(update={"cheats_tried": tried})})
        assert quality.accepts(on_task)
        seen: list[Event] = []
        quality.tell("tasks", seen.append)
        assert [type(event) for event in seen] == [Warned] * count


@pytest.mark.parametrize("mode", ["shared", "separate"])
def test_a_cheat_that_the_run_stops_does_not_count(settings: Settings, tmp_path: Path, mode: str) -> None:
    task = read_task(
        write_task(tmp_path / "task", {"task.toml": f'{HARBOR["task.toml"]}[verifier]\nenvironment_mode = "{mode}"\n'})
    )
    on_task = Problem("task", "", task=task)
    shim = Cheat(name="shim", group="path", reward=1.0, stopped_by=("artifacts",))
    known = Card(task_id="task", kind="task", digest=task.digest, nop=0.0, nop_runs=1, cheats_tried=9, cheats=(shim,))
    record = CardRecord(settings.state_dir)
    record.add([known.model_copy(update={"oracle_under": {"artifacts": 1.0}})])
    assert not filter_of(settings, min_quality=0.5).accepts(on_task)
    assert not filter_of(settings, min_quality=0.5, verifier="separate").accepts(on_task)
    # What runs apart already is the same with every option.
    begun = filter_of(settings, min_quality=0.5, verifier="artifacts")
    assert begun.accepts(on_task) == (mode == "shared")
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    begun.keep(run)
    assert cards_of_run(run) == begun.used
    resumed = filter_of(settings, resume=run, min_quality=0.5, verifier="artifacts")
    assert resumed.accepts(on_task) == (mode == "shared")
    # Its solution was found to fail there.
    record.add([Card(task_id="task", kind="task", digest=task.digest, oracle=0.0, oracle_runs=1, verifier="artifacts")])
    assert not filter_of(settings, min_quality=0.5, verifier="artifacts").accepts(on_task)


def test_strict_runs_have_verifiers_apart() -> None:
    for given, place in (({}, "task"), ({"require_isolated": True}, "separate")):
        assert resolve(RewardConfig, {}, given).verifier_place == place
    both = resolve(RewardConfig, {}, {"require_isolated": True, "verifier": "artifacts"})
    assert both.verifier_place == "artifacts"


def test_cards_are_those_of_the_record_unless_others_are_named(settings: Settings, tmp_path: Path) -> None:
    CardRecord(settings.state_dir).add(cards(1.0).values())
    assert filter_of(settings, min_quality=0.5).accepts(problem(0))
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"".join(each.to_json() + b"\n" for each in cards(0.2, 1.0).values()))
    named = filter_of(settings, min_quality=0.5, cards=str(other))
    assert not named.accepts(problem(0))
    assert named.accepts(problem(1))
    assert QualityFilter.of(resolve(RewardConfig, {}, {}), settings) is None


def test_a_run_keeps_the_cards_by_which_it_was_begun(settings: Settings, tmp_path: Path) -> None:
    record = CardRecord(settings.state_dir)
    record.add(cards(1.0, 0.2).values())
    begun = filter_of(settings, min_quality=0.5)
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    assert [begun.accepts(problem(number)) for number in range(3)] == [True, False, False]
    begun.keep(run)
    # Since then, the first was found to be cheated, and the others to be good.
    record.add(each.model_copy(update={"nop_runs": 5}) for each in cards(0.0, 1.0, 1.0).values())
    resumed = filter_of(settings, resume=run, min_quality=0.5)
    assert [resumed.accepts(problem(number)) for number in range(3)] == [True, False, False]
    kept = (run / "cards.jsonl").read_bytes()
    resumed.keep(run)
    assert (run / "cards.jsonl").read_bytes() == kept
    assert cards_at(str(run), settings.state_dir, settings.runs_dir).keys() == cards(1.0, 0.2).keys()


def test_a_card_is_that_of_the_checks_whatever_their_name_and_prompt() -> None:
    assert card_digest(problem(1)) == card_digest(Problem("other", "x", tests=problem(1).tests))
    assert card_digest(problem(1)) != card_digest(problem(2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_quality": 1.5}, "min_quality"),
        ({"min_quality": -0.1}, "min_quality"),
        ({"min_quality": "nan"}, "min_quality"),
        ({"cards": "run"}, "cards: has no effect without min_quality"),
    ],
)
def test_values_without_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(RewardConfig, {}, given)
