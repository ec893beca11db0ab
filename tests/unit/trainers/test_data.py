"""Which problems a training takes: mixtures, profiles, near duplicates and contamination."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.difficulty import Range
from sandrl.errors import InputError
from sandrl.problems.mixture import sources_of
from sandrl.problems.profile import Profile
from sandrl.problems.splits import Splits, load_splits
from sandrl.trainers.config import resolve, splits_of

FILLER = "the quick brown fox jumps over a lazy dog while seven wise owls look on from the old oak tree"


def write(path: Path, begin: str, count: int, prompt: str = "Print {n}.") -> str:
    rows = [
        {"task_id": f"{begin}{n}", "prompt": prompt.format(n=n), "tests": [f"assert f() == '{begin}{n}'"]}
        for n in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def splits(source: str, **options: Any) -> Splits:
    return load_splits(source, **{"num_problems": None, "eval_problems": 0, "seed": 0, **options})


def test_a_mixture_holds_out_problems_of_each_source(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", "a", 50, "Add {n}."), write(tmp_path / "b.jsonl", "b", 20, "Multiply by {n}.")
    sets = splits(f"{a}=2,{b}=1", eval_problems=128)
    assert [(part.source, part.weight, len(part.names)) for part in sets.parts] == [(a, 2.0, 40), (b, 1.0, 16)]
    assert (len(sets.train), len(sets.evaluation), sets.is_held_out) == (56, 14, True)
    alone = splits(b, eval_problems=128)
    assert set(alone.evaluation) <= set(sets.evaluation)


def test_problems_of_a_mixture_are_chosen_by_weight(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", "a", 50), write(tmp_path / "b.jsonl", "b", 50, "Print {n}!")
    sets = splits(f"{a}=3,{b}=1", num_problems=20)
    assert [len(part.names) for part in sets.parts] == [15, 5]
    assert {name for part in sets.parts for name in part.names} == set(sets.train)
    other = splits(f"{a}=3,{b}=1", num_problems=20, seed=1)
    assert set(other.train) != set(sets.train)


def test_a_named_set_and_a_file_mix(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine=odd,name.jsonl", "m", 12)
    assert sources_of(mine) == {mine: 1.0}
    plain = write(tmp_path / "plain.jsonl", "m", 12)
    sets = splits(f"tiny=1, {plain}=0.5", eval_problems=8)
    assert [part.source for part in sets.parts] == ["tiny", plain]
    assert len(sets.evaluation) == 8


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ("tiny,toy", "'tiny' is not SOURCE=WEIGHT"),
        ("tiny=1,toy", "'toy' is not SOURCE=WEIGHT"),
        ("tiny=0,toy=1", "'tiny=0' is not SOURCE=WEIGHT"),
        ("tiny=-1,toy=1", "'tiny=-1' is not SOURCE=WEIGHT"),
        ("tiny=nan", "'tiny=nan' is not SOURCE=WEIGHT"),
        ("tiny=inf,toy=1", "'tiny=inf' is not SOURCE=WEIGHT"),
        ("tiny=1,", "'' is not SOURCE=WEIGHT"),
        ("=1", "'=1' is not SOURCE=WEIGHT"),
        ("tiny=1,tiny=2", "names 'tiny' twice"),
    ],
)
def test_a_mixture_without_proper_weights_is_refused(problems: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as bad:
        splits(problems)
    assert bad.value.fields == ("problems",)
    assert "mbpp=2,mine.jsonl=1" in (bad.value.hint or "")


def test_a_name_in_two_sources_is_refused(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", "p", 20), write(tmp_path / "b.jsonl", "p", 20, "Other {n}")
    for eval_problems in (0, 50):
        with pytest.raises(InputError, match=r"has a problem 'p\d+', and so has .*a\.jsonl") as bad:
            splits(f"{a}=1,{b}=1", eval_problems=eval_problems)
        assert bad.value.path == b


def test_near_duplicates_are_left_out_on_request(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", "a", 5, f"{FILLER} {{n}}")
    again = write(tmp_path / "b.jsonl", "b", 7, f"{FILLER}, {{n}}")
    source = f"{first}=1,{again}=1"
    assert len(splits(source).train) == 12
    sets = splits(source, deduplicate=True)
    assert [len(part.names) for part in sets.parts] == [5, 2]
    assert sets.remark == "5 training problems are near duplicates of earlier ones: left out"
    same = write(tmp_path / "c.jsonl", "c", 5, f"{FILLER}: {{n}}")
    with pytest.raises(InputError, match=r"no problem of this source is left to train on .*near duplicates") as bad:
        splits(f"{first}=1,{same}=1", deduplicate=True)
    assert bad.value.path == same


def test_contamination_is_told_and_left_out_on_request(tmp_path: Path) -> None:
    train = tmp_path / "train.jsonl"
    write(train, "p", 20)
    with train.open("a") as file:
        file.write("\n" + json.dumps({"task_id": "leak", "prompt": f"Hint: {FILLER}.", "tests": ["assert g()"]}))
    held_out = tmp_path / "eval.jsonl"
    held_out.write_text(json.dumps({"task_id": "e", "prompt": f"Answer: {FILLER} twice.", "tests": ["assert h()"]}))
    told = splits(str(train), eval_problems=5, eval_set=str(held_out))
    assert "leak" in told.train
    assert [(each.task_id, each.other) for each in told.matches] == [("e", "leak")]
    assert told.remark == (
        "1 of 1 evaluation problems are contaminated by training problems: e has 91% of its words in common with leak"
    )
    clean = splits(str(train), eval_problems=5, eval_set=str(held_out), decontaminate=True)
    assert set(clean.train) == set(told.train) - {"leak"}
    assert list(clean.evaluation) == ["e"]
    assert clean.remark == "1 training problem contaminates 1 of 1 evaluation problems: left out"


def test_a_profile_filters_the_training_problems_and_not_the_evaluation(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", "a", 50)
    plain = splits(source, eval_problems=50)
    rates = {name: at / 40 for at, name in enumerate(plain.train)}
    sets = splits(source, eval_problems=50, profile=Profile("run", Range(0.25, 0.5), dict(rates)))
    assert list(sets.train) == [name for name, rate in rates.items() if 0.25 <= rate <= 0.5]
    assert list(sets.evaluation) == list(plain.evaluation)
    with pytest.raises(InputError, match=r"has 11 problems to train on, fewer than the 12 .*profile run: 11 of 40"):
        splits(source, eval_problems=50, num_problems=12, profile=Profile("run", Range(0.25, 0.5), dict(rates)))


def test_a_run_of_less_than_a_pass_says_that_its_own_profile_has_no_effect(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", "a", 50)
    given: dict[str, Any] = {
        "problems": source,
        "profile": "this",
        "curriculum": "easy-first",
        "batch_size": 8,
        "samples": 2,
    }
    short = resolve({**given, "steps": 10, "eval_problems": 0})
    assert splits_of(short).remark == (
        "profile this has no effect: the run takes 40 problems, and the first pass has 50"
    )
    assert splits_of(resolve({**given, "steps": 13, "eval_problems": 0})).remark is None
    assert splits_of(resolve({**given, "steps": 10, "eval_problems": 0, "dynamic_sampling": 1})).remark is None
