"""`sandrl sandboxes` and `sandrl doctor` on a real Ray cluster, whose nodes have a local runtime each.

Two nodes have the sandrl of this test, the third has another one. Ray runs in processes of its own, and this one is no
driver: every command is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sandrl
from sandrl.runtime import daemon
from tests.support.lost_job import Lost, lose_job, sleeping_job
from tests.support.ray_cluster import ray_cluster

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is not installed")

SOURCE = Path(sandrl.__file__).parents[1]


@dataclass(frozen=True)
class Nodes:
    address: str
    states: tuple[Path, ...]

    def sandrl(self, *words: str) -> subprocess.CompletedProcess[str]:
        named = 2 if words[0] == "sandboxes" else 1
        argv = [sys.executable, "-m", "sandrl", *words[:named], "--runtime", f"ray:{self.address}", *words[named:]]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "SANDRL_STATE_DIR": str(self.states[0].parent / "own")}
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=120, check=False
        )

    def listed(self, *words: str) -> dict[str, dict[str, Any]]:
        done = self.sandrl("sandboxes", "ls", "--json", *words)
        assert done.returncode == 0, done.stderr
        return {each["id"]: each for each in json.loads(done.stdout)["sandboxes"]}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("fleet")
    shutil.copytree(SOURCE / "sandrl", folder / "other" / "sandrl", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "other" / "sandrl" / "jsonl.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    with ray_cluster(folder, nodes=2) as cluster:
        cluster.add_node(PYTHONPATH=str(folder / "other"))
        yield Nodes(cluster.address, tuple(node.state_dir for node in cluster.nodes))


@pytest.fixture
def lost(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Lost:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(nodes.states[0]))
    return lose_job(2, "mine")


@pytest.fixture
def living(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[frozenset[str]]:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(nodes.states[1]))
    with sleeping_job(2, "mine") as job:
        yield frozenset(each["id"] for each in nodes.listed("--tag", job.id).values())


def test_sandboxes_of_all_nodes_are_listed_and_only_the_orphans_are_stopped(
    nodes: Nodes, lost: Lost, living: frozenset[str]
) -> None:
    found = nodes.listed("--tag", "mine")
    assert found.keys() == lost.ids | living
    assert {(each["owner"], each["orphan"]) for name, each in found.items() if name in lost.ids} == {("gone", True)}
    assert {(each["owner"], each["orphan"]) for name, each in found.items() if name in living} == {("alive", False)}
    runners = [{found[name]["runner"] for name in names} for names in (lost.ids, living)]
    assert [len(names) for names in runners] == [1, 1]
    assert runners[0] != runners[1]
    assert nodes.listed("--orphans").keys() == lost.ids
    assert json.loads(nodes.sandrl("sandboxes", "count", "--json").stdout)["running"] == 4

    one, other = sorted(lost.ids)
    done = nodes.sandrl("sandboxes", "cleanup", one, "--yes")
    assert (done.returncode, done.stdout) == (3, "stopped 1, already ended 0, failed 0\n")
    done = nodes.sandrl("sandboxes", "cleanup", "--all", "--yes", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 3, "the node with another sandrl may have some"
    assert (report["stopped"], sorted(report["spared"]), report["failed"]) == ([other], sorted(living), [])
    [unreached] = report["unreached"]
    assert "it has other code of the same version" in unreached["reason"]
    assert f"warning: some sandboxes cannot be listed: node {unreached['node']}: " in done.stderr
    assert "hint: sandrl sandboxes cleanup --all --runtime ray:" in done.stderr
    assert nodes.listed().keys() == living


@pytest.mark.slow
def test_one_sandbox_is_found_on_its_node_and_entered_there_only(nodes: Nodes, living: frozenset[str]) -> None:
    name = min(living)
    shown = nodes.sandrl("sandboxes", "show", name)
    assert shown.returncode == 0, shown.stderr
    lines = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if " " in line.strip())
    assert lines["owner"].startswith(f"alive (process {os.getpid()} on ")
    for words in (["exec", name, "true"], ["logs", name]):
        refused = nodes.sandrl("sandboxes", *words)
        assert refused.returncode == 2
        assert f"is on node {lines['runner']}, and can only be used from there" in refused.stderr
    missing = nodes.sandrl("sandboxes", "show", "nope")
    assert missing.returncode == 3, "it may be on the node that is not asked"
    assert "nodes that could not be queried: " in missing.stderr


def test_asking_starts_no_runtime_on_any_node(nodes: Nodes) -> None:
    for state in nodes.states[:2]:
        daemon.stop(state)
    assert nodes.listed() == {}
    assert [daemon.find(state) for state in nodes.states] == [None, None, None]


@pytest.mark.slow
def test_the_report_of_the_doctor_has_a_row_for_each_node(nodes: Nodes) -> None:
    began = time.monotonic()
    done = nodes.sandrl("doctor", "--json")
    assert done.returncode == 0, f"{done.stdout}{done.stderr} after {time.monotonic() - began:.0f} s"
    rows = json.loads(done.stdout)["nodes"]
    assert sorted(row["state"] for row in rows) == ["failed", "ok", "ok"]
    for row in rows:
        expected = f"sandrl {sandrl.__version__}, native" if row["state"] == "ok" else "it has other code"
        assert expected in row["detail"]
        assert "2 processors" in row["detail"]
