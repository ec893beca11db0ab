"""Datasets of the hub, through the hub's own client and `datasets`, from a server that speaks the hub's protocol."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from sandrl.jsonl import Row
from sandrl.problems import load_problems
from sandrl.problems.formats import parse_problem
from sandrl.problems.hub import HubDataset
from sandrl.problems.published import MBPP_DATASET, PUBLISHED
from sandrl.problems.sources import MBPP_SPLITS
from tests.support.format_rows import ROWS

pytest.importorskip("datasets", reason="`datasets` is not installed; it comes with sandrl[hub]")

README = "---\nconfigs:\n- config_name: full\n  data_files:\n" + "".join(
    f"  - split: {split}\n    path: full/{split}-*\n" for split in MBPP_SPLITS
)


def mbpp_files() -> dict[str, bytes]:
    """A small MBPP in the layout of the real one: two tasks of each split."""
    import pyarrow
    from pyarrow import parquet

    strings = pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema(
        {
            "task_id": pyarrow.int32(), "text": pyarrow.string(), "code": pyarrow.string(), "test_list": strings,
            "test_setup_code": pyarrow.string(), "challenge_test_list": strings,
        }
    )  # fmt: skip
    files = {"README.md": f"{README}---\n".encode()}
    for split, task_ids in MBPP_SPLITS.items():
        rows = [
            {
                "task_id": task_id, "text": f"Return {task_id}.", "code": f"def answer():\n    return {task_id}",
                "test_list": [f"assert answer() == {task_id}"], "test_setup_code": "", "challenge_test_list": [],
            }
            for task_id in (task_ids[0], task_ids[-1])
        ]  # fmt: skip
        stream = BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), stream)
        files[f"full/{split}-00000-of-00001.parquet"] = stream.getvalue()
    return files


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as its client asks for: one dataset at one revision."""

    dataset: HubDataset
    files: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def _answer(self, *, with_body: bool) -> None:
        status, headers, body = self._find()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _find(self) -> tuple[int, dict[str, str], bytes]:
        path = self.path.partition("?")[0]
        revision = self.dataset.revision
        about = f"/api/datasets/{self.dataset.repository}"
        if path == f"{about}/revision/{revision}":
            files = [{"rfilename": name} for name in self.files]
            return _json({"id": self.dataset.repository, "sha": revision, "siblings": files})
        if path == f"{about}/tree/{revision}":
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.files.items()
            ]
            return _json(tree)
        name = path.removeprefix(f"/datasets/{self.dataset.repository}/resolve/{revision}/")
        if name in self.files:
            data = self.files[name]
            return 200, {"X-Repo-Commit": revision, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}, data
        code = "EntryNotFound" if self.dataset.repository in path else "RepoNotFound"
        return 404, {"X-Error-Code": code, "X-Error-Message": "not here"}, b""


def _json(document: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


@pytest.fixture
def hub_address() -> Iterator[str]:
    with served(MBPP_DATASET, mbpp_files()) as address:
        yield address


@contextmanager
def served(dataset: HubDataset, files: dict[str, bytes]) -> Iterator[str]:
    """A hub that has one dataset."""
    Hub.dataset, Hub.files = dataset, files
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "huggingface"


def listed(source: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`sandrl problems ls`; a process of its own, because the hub's client reads its settings once."""
    words = (sys.executable, "-m", "sandrl", "problems", "ls", source, "--json")
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", **environment}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, check=False)


def task_ids(done: subprocess.CompletedProcess[str]) -> list[int]:
    assert done.returncode == 0, done.stderr
    return [int(problem["task_id"]) for problem in json.loads(done.stdout)["problems"]]


def test_mbpp_comes_from_the_hub_in_the_order_of_its_task_ids(hub_address: str, home: Path) -> None:
    done = listed("mbpp", home, HF_ENDPOINT=hub_address)
    assert task_ids(done) == [1, 10, 11, 510, 511, 600, 601, 974]
    assert done.stderr == ""


def test_a_split_of_mbpp_has_the_task_ids_of_that_split(hub_address: str, home: Path) -> None:
    assert task_ids(listed("mbpp:validation", home, HF_ENDPOINT=hub_address)) == [511, 600]


def test_a_set_whose_repository_has_a_script_is_read_from_its_data_files_alone(home: Path) -> None:
    dataset = PUBLISHED["livecodebench"][1]

    def row(number: int) -> bytes:
        test = json.dumps([{"input": "1", "output": "1", "testtype": "stdin"}])
        found = {"question_id": str(number), "question_content": "Print.", "starter_code": "", "metadata": "{}"}
        return json.dumps({**found, "public_test_cases": test, "private_test_cases": "[]"}).encode() + b"\n"

    files = {"test.jsonl": row(1) + row(2), "test2.jsonl": row(3), "test3.jsonl": b"broken\n"}
    files |= {"code_generation_lite.py": b"raise SystemExit(1)", "images/cover.jsonl": b"not asked for"}
    with served(dataset, files) as address:
        assert task_ids(listed("livecodebench:release_v2", home, HF_ENDPOINT=address)) == [1, 2, 3]
        # By the name of the repository, too, and from the copy.
        assert task_ids(listed(f"{dataset.repository}:v2", home, HF_HUB_OFFLINE="1")) == [3]
        done = listed("livecodebench:v3", home, HF_ENDPOINT=address)
        assert (done.returncode, "test3.jsonl:1: broken JSON" in done.stderr) == (2, True)
        done = listed("livecodebench:v4", home, HF_ENDPOINT=address)
        assert (done.returncode, "has no file test4.jsonl at 0fe84c39" in done.stderr) == (2, True)
        done = listed("livecodebench", home, HF_ENDPOINT=address)
        assert (done.returncode, "has several splits; name one" in done.stderr) == (2, True)
    fetched = {path.name for path in home.rglob("snapshots/*/**/*")}
    assert not fetched & {"code_generation_lite.py", "cover.jsonl"}


def test_what_was_fetched_once_serves_without_the_hub(hub_address: str, home: Path) -> None:
    assert task_ids(listed("mbpp:test", home, HF_ENDPOINT=hub_address)) == [11, 510]
    assert task_ids(listed("mbpp:train", home, HF_ENDPOINT="http://127.0.0.1:9")) == [601, 974]
    assert task_ids(listed("mbpp:train", home, HF_HUB_OFFLINE="1")) == [601, 974]


@pytest.mark.parametrize("source", ["mbpp", "humaneval", "owner/name:test"])
def test_without_the_hub_and_a_copy_both_ways_out_are_named(source: str, home: Path) -> None:
    done = listed(source, home, HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 3
    error, hint = done.stderr.splitlines()
    assert error.startswith("sandrl: error: http://127.0.0.1:9 does not answer, and ")
    assert "(--problems FILE)" in hint
    assert "HF_HOME" in hint


def test_with_the_client_told_to_stay_offline_the_error_says_so(home: Path) -> None:
    done = listed("mbpp", home, HF_HUB_OFFLINE="1")
    assert done.returncode == 3
    assert "HF_HUB_OFFLINE is set, and google-research-datasets/mbpp is not in " in done.stderr


def test_a_dataset_that_the_hub_does_not_have_is_bad_input(hub_address: str, home: Path) -> None:
    done = listed("owner/name", home, HF_ENDPOINT=hub_address)
    assert done.returncode == 2
    assert (
        done.stderr == "sandrl: error: the hub has no dataset 'owner/name', or these credentials give no access to it\n"
    )


def test_a_parquet_file_is_read(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "mbpp.parquet"
    path.write_bytes(mbpp_files()["full/test-00000-of-00001.parquet"])
    assert task_ids(listed(str(path), home)) == [11, 510]
    assert task_ids(listed(f"{path}:test", home)) == [11, 510]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name} {number}" for number, (name, _) in enumerate(ROWS)])
def test_a_row_of_every_format_is_the_same_problem_from_parquet(tmp_path: Path, name: str, row: dict[str, Any]) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "row.parquet"
    # A table cannot have an object without fields. Its second row has nulls alone.
    row = {"task_id": 5, **{field: value for field, value in row.items() if value != {}}}
    parquet.write_table(pyarrow.Table.from_pylist([row, dict.fromkeys(row)]), path)
    loaded = load_problems(path, skip_bad_rows=True)
    assert next(iter(loaded.formats)).name == name
    assert list(loaded.problems.values()) == [parse_problem(Row(1, dict(row)), "row.jsonl").problem]


def test_a_file_that_is_no_parquet_says_so_in_one_line(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1")
    done = listed(str(path), home)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"sandrl: error: {path}: cannot be read as parquet: ")
