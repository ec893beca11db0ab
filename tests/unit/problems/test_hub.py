from __future__ import annotations

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
from sandrl.problems.hub import hub_answers, numbered
from sandrl.problems.sources import one_split


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
