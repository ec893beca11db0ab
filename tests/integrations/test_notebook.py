"""`sandrl.score` in a real Jupyter kernel: progress, tables, an interrupted cell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import DOCS, page_of

pytestmark = [
    pytest.mark.needs("ipykernel", "nbclient", "pandas", "polars"),
    pytest.mark.timeout(300),
    # Of the packages of Jupyter.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SETUP = r"""
import pandas, polars, sandrl
problems = [{"task_id": "<add>", "prompt": "Write add(a, b).", "tests": ["assert add(1, 2) == 3"]}]
good = {"task_id": "<add>", "code": "def add(a, b):\n    return a + b"}
bad = {"task_id": "<add>", "code": "def add(a, b):\n    raise ValueError('<script>alert(1)</script>')"}
slow = {"task_id": "<add>", "code": "import time\ntime.sleep(300)"}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path), startup_timeout=120)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


class Kernel:
    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
        self.client = client

    def run(self, code: str, *, interrupt_at: str | None = None) -> list[dict[str, Any]]:
        cell = self.client.execute(code)
        published: list[dict[str, Any]] = []
        while True:
            message = self.client.get_iopub_msg(timeout=200)
            if message["parent_header"].get("msg_id") != cell:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return published
            published.append({"type": message["msg_type"], **message["content"]})
            if interrupt_at is not None and interrupt_at in json.dumps(message["content"]):
                self.manager.interrupt_kernel()
                interrupt_at = None


def texts(published: list[dict[str, Any]], kind: str, mime: str = "text/plain") -> list[str]:
    return [each["data"][mime] for each in published if each["type"] == kind]


def test_a_notebook_shows_progress_and_takes_the_results_as_tables(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [
        SETUP,
        "report = sandrl.score([good, bad], problems)\nreport",
        "pandas.DataFrame(report.rows())[['task_id', 'reward', 'status']]",
        "passed = pandas.DataFrame(report)['status'] == 'passed'\n"
        "print(polars.DataFrame(report.rows())['reward'].to_list(), [*passed])",
        "import asyncio\nasyncio.get_running_loop()\nlater = await asyncio.to_thread(sandrl.score, [good], problems)\n"
        "later[0].reward",
        "sandrl.score([good], problems, progress=False)[0].status.value",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    _, scored, frame, frames, later, quiet = [cell["outputs"] for cell in notebook["cells"]]
    # One output, which was replaced while the cell ran; and the report.
    [progress, report] = scored
    assert progress["data"]["text/plain"] == "2/2 scored, 1 passed (50%)"
    assert '<progress value="1.0000" max="1" aria-label="scored"></progress>' in progress["data"]["text/html"]
    assert "<td>&lt;add&gt;</td>" in report["data"]["text/html"]
    assert "<script>" not in report["data"]["text/html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report["data"]["text/html"]
    assert "failed" in frame[0]["data"]["text/html"]
    assert frames[0]["text"] == "[1.0, 0.0] [True, False]\n"
    assert [output["data"]["text/plain"] for output in later] == ["1/1 scored, 1 passed (100%)", "1.0"]
    assert [output["data"]["text/plain"] for output in quiet] == ["'passed'"]


def test_an_interrupted_cell_leaves_no_sandbox_and_the_kernel_goes_on(kernel: Kernel) -> None:
    options = "options=sandrl.rewards.ScoreOptions(limits=sandrl.rewards.Limits(timeout_seconds=200.0))"
    kernel.run(SETUP)
    published = kernel.run(f"sandrl.score([good, slow], problems, {options})", interrupt_at="1/2 scored")
    assert [each["ename"] for each in published if each["type"] == "error"] == ["KeyboardInterrupt"]
    assert texts(published, "update_display_data")[-1] == "1/2 scored, 1 passed (100%), interrupted"
    count = subprocess.run(
        [sys.executable, "-m", "sandrl", "sandboxes", "count", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(count.stdout)["total"] == 0
    again = kernel.run("sandrl.score([good], problems)[0].reward")
    assert texts(again, "execute_result") == ["1.0"]


def test_a_plain_script_shows_nothing_unless_it_is_asked_for(tmp_path: Path) -> None:
    script = f"{SETUP.replace('pandas, polars, ', '')}\nsandrl.score([good, bad], problems"
    silent, asked = (
        subprocess.run([sys.executable, "-c", script + end], cwd=tmp_path, capture_output=True, text=True, check=True)
        for end in (")", ", progress=True)")
    )
    assert (silent.stdout, silent.stderr) == ("", "")
    assert asked.stdout == ""
    assert asked.stderr.splitlines()[-1] == "sandrl: 2/2 scored, 1 passed (50%)"


def test_the_example_of_the_gallery_with_a_table_runs() -> None:
    page = page_of(DOCS / "guides" / "gallery.md")
    [block] = [each for each in page.blocks if "import pandas" in each.text]
    subprocess.run([sys.executable, "-c", block.text], check=True)


def test_the_other_examples_of_the_gallery_run_with_the_page() -> None:
    page = page_of(DOCS / "guides" / "gallery.md")
    left_out = [each for each in page.blocks if each.is_code and not each.is_run_here]
    assert len(left_out) == 1
    assert len([each for each in page.blocks if each.is_run_here and each.language == "python"]) >= 10
