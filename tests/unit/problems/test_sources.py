"""What the word for a set means: named sets, sets of the hub at a commit, local copies with splits, and the hub."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError, MissingExtraError
from sandrl.installation import install_command
from sandrl.jsonl import Row
from sandrl.problems import load_problems
from sandrl.problems.formats import parse_problem
from sandrl.problems.hub import HubDataset, hub_answers, numbered
from sandrl.problems.published import PUBLISHED
from sandrl.problems.sources import MBPP_SPLITS as SPLITS
from sandrl.problems.sources import NAMED_SETS, find_source, named_set, one_split


@pytest.mark.parametrize(
    ("name", "dataset"), [(name, dataset) for name, (_, dataset) in PUBLISHED.items()], ids=list(PUBLISHED)
)
def test_a_set_is_pinned_to_files_of_a_commit_and_its_name_and_repository_mean_the_same(
    name: str, dataset: HubDataset
) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", dataset.revision)
    assert dataset.files
    for patterns in dataset.files.values():
        assert patterns
        assert all(pattern.endswith((".parquet", ".jsonl")) for pattern in patterns)
    named = named_set(name)
    assert named is not None
    assert named is named_set(dataset.repository)
    for split in dataset.files:
        assert find_source(f"{name}:{split}").name == f"{dataset.repository.rpartition('/')[2]}:{split}"
    with pytest.raises(InputError, match=f"{name} has no split 'nothing'") as caught:
        find_source(f"{name}:nothing")
    assert caught.value.hint == "use one of its splits: " + ", ".join(dataset.files)


def test_names_differ() -> None:
    names = [name for each in NAMED_SETS for name in (each.name, each.repository) if name]
    assert len(set(names)) == len(names)


def test_a_release_of_live_code_bench_has_those_before_it() -> None:
    _, dataset = PUBLISHED["livecodebench"]
    assert dataset.files["release_v1"] == dataset.files["v1"] == ("test.jsonl",)
    assert dataset.files["release_v6"] == tuple(dataset.files[f"v{number}"][0] for number in range(1, 7))


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


class _Refusing(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def refusing_address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_rows_of_a_table_lose_their_nulls_and_gain_their_numbers() -> None:
    own = {
        "task_id": "a",
        "prompt": "p",
        "tests": None,
        "cases": [{"stdin": None, "stdout": "1"}],
        "timeout_seconds": 3,
    }
    [row] = numbered([own])
    assert row == Row(1, {"task_id": "a", "prompt": "p", "cases": [{"stdout": "1"}], "timeout_seconds": 3})
    assert parse_problem(row, "p.parquet").problem.timeout_seconds == 3.0


def test_a_bad_row_of_a_table_is_named_by_its_number() -> None:
    rows = list(numbered([{"task_id": "a", "prompt": "p", "tests": ["assert f()"]}, {"task_id": "b", "prompt": None}]))
    with pytest.raises(
        InputError, match=r"^p.parquet:2: no known format has the fields `task_id`; the nearest is sandrl's own"
    ):
        parse_problem(rows[1], "p.parquet")


def test_the_only_split_needs_no_name_and_several_do() -> None:
    first, second = [Row(1, {"n": 1})], [Row(1, {"n": 2})]
    assert one_split({"test": first}, None, "a/b") == first
    assert one_split({"train": first, "test": second}, "test", "a/b") == second
    for wanted, reason in ((None, "has several splits; name one"), ("dev", "has no split 'dev'")):
        with pytest.raises(InputError, match=f"^a/b: {reason}$") as caught:
            one_split({"train": first, "test": second}, wanted, "a/b")
        assert caught.value.hint == "use a/b:train, a/b:test"


def test_an_address_that_refuses_answers_all_the_same(refusing_address: str) -> None:
    assert hub_answers(refusing_address)


def test_silence_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert not hub_answers(address, timeout_seconds=0.2)
    assert not hub_answers(address)


@pytest.mark.parametrize("address", ["http://no-such-host.invalid", "nonsense", "gopher://localhost"])
def test_an_address_that_is_none_is_no_answer(address: str) -> None:
    assert not hub_answers(address)


@pytest.mark.skipif(find_spec("datasets") is not None, reason="`datasets` is installed here")
@pytest.mark.parametrize(
    "source", ["mbpp", "mbpp:test", "google-research-datasets/mbpp", "humaneval", "owner/name:dev"]
)
def test_a_dataset_without_the_extra_names_the_extra_and_the_other_way(source: str) -> None:
    with pytest.raises(MissingExtraError, match="needs `datasets`: the package 'datasets' is not installed") as caught:
        load_problems(source)
    assert caught.value.hint == f"give a local .jsonl file, or: {install_command('hub')}"


@pytest.mark.skipif(find_spec("datasets") is not None, reason="`datasets` is installed here")
def test_a_parquet_file_without_the_extra_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"p\.parquet needs `datasets`"):
        load_problems(path)
