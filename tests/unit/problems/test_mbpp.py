from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandrl.errors import InputError
from sandrl.problems import load_problems
from sandrl.problems.sources import MBPP_SPLITS as SPLITS

MBPP = Path(os.environ.get("SANDRL_TEST_MBPP") or Path(__file__).parents[3].parent / "shared" / "data" / "mbpp.jsonl")
needs_mbpp = pytest.mark.skipif(not MBPP.exists(), reason="no copy of MBPP here; SANDRL_TEST_MBPP names one")


def written(path: Path, *task_ids: object) -> Path:
    rows = [{"task_id": task_id, "text": "Do it.", "test_list": ["assert f(1)"]} for task_id in task_ids]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_task_id_is_in_one_split() -> None:
    assert sorted(number for numbers in SPLITS.values() for number in numbers) == list(range(1, 975))


def test_a_local_file_has_the_splits_too(tmp_path: Path) -> None:
    path = written(tmp_path / "mbpp.jsonl", 10, "11", 510, 511, 600, 601, 974, 975)
    found = {split: list(load_problems(f"{path}:{split}").problems) for split in SPLITS}
    assert found == {"prompt": ["10"], "test": ["11", "510"], "validation": ["511", "600"], "train": ["601", "974"]}


def test_a_split_without_a_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mbpp.jsonl:test: no row belongs to the split 'test'$"):
        load_problems(f"{written(tmp_path / 'mbpp.jsonl', 1, 2)}:test")


def test_a_file_that_is_not_mbpp_has_no_splits(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"task_id": "11", "prompt": "p", "tests": ["assert f()"]}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"is not a row of MBPP, so it cannot belong to the split 'test'$"):
        load_problems(f"{path}:test")


def test_a_file_whose_name_has_a_colon_is_that_file(tmp_path: Path) -> None:
    path = written(tmp_path / "mbpp:test", 1)
    assert list(load_problems(str(path)).problems) == ["1"]


def test_the_entry_point_is_the_name_that_the_tests_call_and_the_solution_defines(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"code": "def helper(a): pass\ndef area(a): pass", "test_list": ["assert set(area(2)) == {4}"]},
        {"code": "class Pair: pass\ndef chain(pairs): pass", "test_list": ["assert (chain ([Pair(1)])) == 1"]},
        {"code": "volume = lambda a: a", "test_list": ["assert volume(2) == 8"]},
        {"test_list": ["assert volume(2) == 8"]},
    ]
    path = tmp_path / "mbpp.jsonl"
    lines = [json.dumps({"task_id": number, "text": ""} | row) for number, row in enumerate(rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [each.entry_point for each in load_problems(path).problems.values()] == ["area", "chain", None, None]


@needs_mbpp
def test_the_whole_set_loads_with_a_reference_and_an_entry_point_for_every_task() -> None:
    problems = load_problems(MBPP).problems
    assert len(problems) == 974
    assert all(problem.reference and problem.entry_point for problem in problems.values())


@needs_mbpp
def test_the_splits_of_the_whole_set_have_the_sizes_of_the_paper() -> None:
    sizes = {split: len(load_problems(f"{MBPP}:{split}").problems) for split in SPLITS}
    assert sizes == {"train": 374, "test": 500, "validation": 90, "prompt": 10}
