"""Pass rates of earlier runs, by which a training chooses and orders its problems."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.sample_runs import JOB, failed, trajectory, write_run

from sandrl.errors import InputError
from sandrl.problems import Problem
from sandrl.problems.problem_records import KeptProblems
from sandrl.problems.profile import FILE, Profile
from sandrl.runs import RunOutcome, RunWriter, TrajectoryRow
from sandrl.settings import load_settings


def problem(name: str, *, test: str = "assert f() == 1") -> Problem:
    return Problem(name, f"Write {name}.", tests=(test,))


def problems(*names: str) -> dict[str, Problem]:
    return {name: problem(name) for name in names}


def rows(passed: dict[str, tuple[int, int]], **fields: Any) -> list[TrajectoryRow]:
    """Of each problem, completions that passed and others."""
    found: list[TrajectoryRow] = []
    for name, (good, of) in passed.items():
        for number in range(of):
            make = trajectory if number < good else failed
            found.append(make(len(found), task_id=name, id=f"{name}#{number}", sandboxes=0, sandbox_id=None, **fields))
    return found


def profile(run: Path, difficulty: str | None = None, *, resume: Path | None = None) -> Profile:
    found = Profile.of(SimpleNamespace(profile=str(run), difficulty=difficulty), load_settings(), resume=resume)
    assert found is not None
    return found


def chosen(found: Profile, of: dict[str, Problem]) -> list[str]:
    return list(found.choose(of, "set.jsonl"))


def test_problems_outside_the_range_are_left_out_and_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"a": (0, 4), "b": (1, 4), "c": (3, 4), "d": (4, 4), "other": (2, 4)}))
    found = profile(run, "0.25..0.75")
    assert chosen(found, problems("d", "c", "b", "a", "new")) == ["c", "b"]
    assert found.rates == {"a": 0.0, "b": 0.25, "c": 0.75, "d": 1.0}
    assert found.remark == (
        "profile sample: 2 of 5 training problems have a pass rate in 0.25..0.75; left out: 1 pass less often,"
        " 1 pass more often, 1 were not measured"
    )


def test_without_a_range_all_stay_and_those_without_a_rate_are_told(tmp_path: Path) -> None:
    found = profile(write_run(tmp_path, rows({"a": (0, 4)})))
    assert chosen(found, problems("a", "new")) == ["a", "new"]
    assert found.remark == "profile sample: 1 training problems were not measured; they count as half solved"


def test_what_failed_for_infrastructure_counts_in_no_rate(tmp_path: Path) -> None:
    lost = [
        failed(9 + n, "infrastructure", task_id=name, reward=None, trust=None) for n, name in enumerate(["a", "b", "b"])
    ]
    run = write_run(tmp_path, [*rows({"a": (1, 2)}), *lost])
    found = profile(run, "0..1")
    assert chosen(found, problems("a", "b")) == ["a"]
    assert found.rates == {"a": 0.5}


def test_a_training_run_says_what_it_measured_last_of_each_problem(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        [
            *rows({"a": (0, 2), "b": (0, 2)}, step=0),
            *rows({"a": (2, 2)}, step=3),
            *rows({"c": (1, 2)}, step=0, held_out=True),
            *rows({"c": (2, 2)}, step=4, held_out=True),
            *rows({"c": (0, 2)}, step=4, held_out=True, greedy=True),
        ],
        command="grpo",
    )
    found = profile(run)
    chosen(found, problems("a", "b", "c"))
    assert found.rates == {"a": 1.0, "b": 0.0, "c": 1.0}


def test_of_a_step_that_was_done_again_the_later_attempt_counts(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        [*rows({"a": (0, 2)}, step=0), *rows({"a": (2, 2)}, step=0, attempt=2)],
        command="grpo",
        outcome=RunOutcome.INTERRUPTED,
    )
    found = profile(run)
    chosen(found, problems("a"))
    assert found.rates == {"a": 1.0}


def test_a_damaged_run_counts_without_its_unreadable_lines(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"a": (1, 2)}), outcome=None)
    with (run / "trajectories.jsonl").open("ab") as file:
        file.write(b"{not json\n\xff\xfe\n" + b'{"task_id": "a", "rew')
    found = profile(run)
    chosen(found, problems("a"))
    assert found.rates == {"a": 0.5}


def keep(run: Path, kept: Iterable[Problem], passed: dict[str, tuple[int, int]]) -> None:
    """Adds completions to a run whose problems it keeps."""
    with RunWriter(run, job_id=JOB) as writer:
        digests = {each.task_id: KeptProblems(writer).digest_of(each) for each in kept}
        for row in rows(passed):
            writer.append(row.model_copy(update={"problem": digests[row.task_id]}))


def test_a_problem_with_other_checks_counts_as_unmeasured(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"x": (1, 2)}))
    keep(run, [problem("a"), problem("b", test="assert f() == 2")], {"a": (1, 2), "b": (1, 2)})
    found = profile(run, "0..1")
    assert chosen(found, problems("a", "b")) == ["a"]
    assert "1 were not measured (1 of these have other checks there)" in found.remark
    with pytest.raises(InputError, match="has a pass rate of none of the 1 training problems, 1 of these with other"):
        chosen(profile(run), problems("b"))


def test_another_prompt_is_the_same_problem(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"x": (1, 2)}))
    keep(run, [Problem("a", "Asked in other words.", tests=("assert f() == 1",))], {"a": (1, 2)})
    found = profile(run)
    chosen(found, problems("a"))
    assert found.rates == {"a": 0.5}


def test_a_profile_of_another_set_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"theirs": (1, 2)}))
    with pytest.raises(
        InputError, match="the profile sample has a pass rate of none of the 2 training problems"
    ) as bad:
        chosen(profile(run), problems("a", "b"))
    assert bad.value.fields == ("profile",)
    assert bad.value.hint == "measure them: sandrl eval --problems SET --samples 8"


def test_a_range_that_leaves_nothing_says_why(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"a": (0, 1), "b": (1, 1)}))
    with pytest.raises(InputError, match=r"no problem is left by difficulty: .*1 pass less often, 1 pass more") as bad:
        chosen(profile(run, "0.1..0.9"), problems("a", "b"))
    assert "wider range" in (bad.value.hint or "")
    assert bad.value.fields == ("difficulty",)


def test_a_run_without_rewards_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, [failed(0, "infrastructure", task_id="a", reward=None, trust=None)])
    with pytest.raises(InputError, match="has no completion with a reward"):
        chosen(profile(run), problems("a"))


@pytest.mark.parametrize("command", ["problems validate", "redteam"])
def test_a_run_that_measures_problems_is_refused(tmp_path: Path, command: str) -> None:
    run = write_run(tmp_path, rows({"a": (1, 2)}), command=command)
    with pytest.raises(InputError, match=f"is a run of `sandrl {command}`, which measures problems and no model"):
        profile(run)


def test_a_run_that_goes_on_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, rows({"a": (1, 2)}))
    with (
        RunWriter(run, job_id=JOB),
        pytest.raises(InputError, match="is still running, so its pass rates change"),
    ):
        profile(run)


def test_a_resumed_training_has_the_rates_that_it_was_begun_with(tmp_path: Path) -> None:
    measured, training = write_run(tmp_path, rows({"a": (1, 2), "b": (2, 2)})), tmp_path / "training"
    training.mkdir()
    found = profile(measured, "0.1..0.9")
    assert chosen(found, problems("a", "b", "c")) == ["a"]
    found.keep(training)
    for file in measured.iterdir():
        file.unlink()
    again = profile(measured, "0.1..0.9", resume=training)
    assert chosen(again, problems("a", "b", "c")) == ["a"]
    assert (again.rates, again.remark.partition(":")[2]) == (found.rates, found.remark.partition(":")[2])
    (training / FILE).write_text('{"rates": {"a": "often"}}')
    with pytest.raises(InputError, match="the pass rates that the run was begun with cannot be read") as bad:
        profile(measured, "0.1..0.9", resume=training)
    assert bad.value.fields == ("profile",)
