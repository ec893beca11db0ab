"""Completions judged on a cluster: the same verdicts as here, and nothing lost or left whatever ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.runs.held import held_by
from sandrl.runs.identity import disagreements
from tests.support.fleet_runs import PROBLEM, RIGHT, FleetRun, no_sandbox_left, slow, start_run, wait_until
from tests.support.ray_cluster import RayCluster, ray_cluster
from tests.support.scripted_model import MODEL, Answer, Question, Says, ScriptedModel
from tests.support.service import running_service
from tests.unit.problems.test_sources import MBPP, needs_mbpp

# What a result of a run says that must not depend on where it was judged.
JUDGED = ("id", "task_id", "reward", "status", "trust", "passed", "total", "detail", "isolation", "cached", "checks")
COUNTED = ("completions", "scored", "executed", "executions", "retries", "reruns", "cache_hits", "aviato/executions")


DRAIN = """
import sys, ray
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2

ray.init(sys.argv[1], log_to_driver=False)
[node] = [each["NodeID"] for each in ray.nodes() if each["Alive"] and str(each["NodeManagerPort"]) == sys.argv[2]]
print(GcsClient(sys.argv[1]).drain_node(node, autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION, "it goes", 0))
"""


def references() -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in MBPP.read_text().splitlines()]
    return [{"task_id": str(row["task_id"]), "code": row["code"]} for row in rows]


def of_all_kinds() -> list[dict[str, Any]]:
    """Completions that end in all ways, some of them twice."""
    codes = [
        RIGHT,
        "def f(x):\n    return x\n",
        "def f(x:\n",
        "def f(x):\n    while True: pass\n",
        "import os\nos._exit(0)\n",
        "def f(x):\n    return [0] * 10**10\n",
        "def g(x):\n    return x\n",
        "def f(x):\n    print('x' * 100)\n    return 2 if x == 1 else 0\n",
        "import sys\nsys.exit(3)\n",
    ]
    rows = [{"task_id": "inc", "id": str(number), "code": code} for number, code in enumerate([*codes, *codes[:3]])]
    return [*rows, {"task_id": "inc", "id": "text", "completion": "I do not know."}]


def metrics_of(run: FleetRun) -> Mapping[str, float]:
    [row] = run.rows("metrics")
    found: Mapping[str, float] = row["metrics"]
    return found


@needs_mbpp
@pytest.mark.parametrize("count", [200, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_the_references_of_mbpp_pass_on_three_nodes(cluster: RayCluster, tmp_path: Path, count: int | None) -> None:
    rows = references()[:count]
    run = start_run(cluster, tmp_path / "run", rows, problems=MBPP)
    results = run.finish()["results"]
    assert [each["task_id"] for each in results] == [each["task_id"] for each in rows]
    assert Counter(each["reward"] for each in results) == {1.0: len(rows)}
    assert run.process.returncode == 0
    found = metrics_of(run)
    assert found["executions"] == found["aviato/executions"] == len(rows)
    ledger = run.rows("sandboxes")
    nodes = {tag for row in ledger for tag in row["tags"] if tag.startswith("node-")}
    assert len(nodes) == 3
    events = Counter(row["event"] for row in ledger)
    assert events["intent"] == events["created"] == events["stopped"] >= 3
    assert len({row["owner"]["pid"] for row in ledger if row["owner"]}) == 3
    assert disagreements(RunReader(run.path), is_complete=True) == ()
    no_sandbox_left(cluster.nodes)


def test_verdicts_and_counts_are_those_of_a_run_here(cluster: RayCluster, tmp_path: Path) -> None:
    rows = of_all_kinds()
    runs = [
        start_run(cluster, tmp_path / name, rows, "--timeout", "2", "--concurrency", "2", runtime=runtime)
        for name, runtime in (("there", ""), ("here", "local"))
    ]
    there, here = (run.finish() for run in runs)
    assert [run.process.returncode for run in runs] == [0, 0]
    for result, wanted in zip(there["results"], here["results"], strict=True):
        assert {name: result.get(name) for name in JUDGED} == {name: wanted.get(name) for name in JUDGED}
    assert {each["status"] for each in there["results"]} >= {"passed", "failed", "timeout", "syntax_error", "no_code"}
    counted = [{name: metrics_of(run)[name] for name in COUNTED} for run in runs]
    assert counted[0] == counted[1]
    assert [disagreements(RunReader(run.path), is_complete=True) for run in runs] == [(), ()]


@pytest.mark.parametrize("with_runtime", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["machine", "raylet"])
def test_a_node_killed_in_mid_run_costs_no_completion_its_reward(
    own_cluster: RayCluster, tmp_path: Path, with_runtime: bool
) -> None:
    run = start_run(own_cluster, tmp_path / "run", slow(0.2, 300), "--concurrency", "3")
    run.wait_for_nodes(own_cluster.nodes)
    run.wait_for_rows(10)
    own_cluster.kill(own_cluster.nodes[0], with_runtime=with_runtime)
    results = run.finish()["results"]
    assert Counter(each["reward"] for each in results) == {1.0: 300}, run.told
    assert sorted(row["id"] for row in run.rows()) == sorted(str(number) for number in range(300))
    assert "is lost" in run.told
    assert "Traceback" not in run.told
    assert disagreements(RunReader(run.path), is_complete=True) == ()
    no_sandbox_left([node for node in own_cluster.nodes if node.is_alive or not with_runtime])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_mbpp
def test_nodes_killed_at_ten_random_moments_cost_no_reward(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    chance = random.Random(0)
    with ray_cluster(tmp_path / "nodes", nodes=3) as cluster:
        for number in range(10):
            run = start_run(cluster, tmp_path / str(number), references(), problems=MBPP)
            run.wait_for_rows(chance.randrange(1, 900))
            cluster.kill(chance.choice([node for node in cluster.nodes if node.is_alive]))
            cluster.add_node()
            results = run.finish()["results"]
            assert Counter(each["reward"] for each in results) == {1.0: len(references())}, run.told
            no_sandbox_left(node for node in cluster.nodes if node.is_alive)


def test_a_killed_part_of_a_job_leaves_nothing_and_is_begun_anew(cluster: RayCluster, tmp_path: Path) -> None:
    run = start_run(cluster, tmp_path / "run", slow(0.2, 300), "--concurrency", "2")
    run.wait_for_nodes(cluster.nodes)
    [part] = cluster.nodes[0].parts()
    os.kill(part, signal.SIGKILL)
    results = run.finish()["results"]
    assert Counter(each["reward"] for each in results) == {1.0: 300}, run.told
    assert "is lost" in run.told
    no_sandbox_left(cluster.nodes)


@pytest.mark.slow
def test_a_node_that_is_drained_finishes_what_it_has(own_cluster: RayCluster, tmp_path: Path) -> None:
    run = start_run(own_cluster, tmp_path / "run", slow(0.2, 200), "--concurrency", "2")
    run.wait_for_rows(8)
    drain(own_cluster, 0)
    wait_until(lambda: "is being drained" in run.told)
    no_sandbox_left([own_cluster.nodes[0]], 40)
    assert run.process.poll() is None
    assert Counter(each["reward"] for each in run.finish()["results"]) == {1.0: 200}
    assert "lost" not in run.told
    assert not any(row["retries"] for row in run.rows())
    no_sandbox_left(own_cluster.nodes)


def drain(cluster: RayCluster, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRAIN, cluster.address, str(cluster.port_of(number))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("(True"), done.stdout + done.stderr


def test_a_node_that_joins_gets_work(own_cluster: RayCluster, tmp_path: Path) -> None:
    # More than are judged before the node has joined, however slow the machine: the rest is not waited for.
    run = start_run(own_cluster, tmp_path / "run", slow(0.25, 2000), "--concurrency", "1")
    run.wait_for_rows(4)
    added = own_cluster.add_node()
    wait_until(lambda: len({row["sandbox_id"] for row in run.rows()}) == 3 or run.process.poll() is not None, 240)
    assert {row["sandbox_id"] for row in run.rows()} & {each["id"] for each in added.sandboxes()}
    run.interrupt()
    results = run.finish()["results"]
    assert run.process.returncode == 130
    assert Counter(each["reward"] for each in results) == {1.0: len(results)}
    assert len({row["sandbox_id"] for row in run.rows()}) == 3
    no_sandbox_left(own_cluster.nodes)


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_keeps_what_is_scored_and_leaves_nothing(cluster: RayCluster, tmp_path: Path, times: int) -> None:
    run = start_run(cluster, tmp_path / "run", slow(0.2, 400), "--concurrency", "2")
    run.wait_for_rows(10)
    run.interrupt()
    if times == 2:
        wait_until(lambda: "Ctrl-C again" in run.told)
        run.interrupt()
    results = run.finish(40)["results"]
    assert run.process.returncode == 130
    assert 10 <= len(results) < 400
    assert Counter(each["reward"] for each in results) == {1.0: len(results)}
    assert {row["id"] for row in run.rows()} == {each["id"] for each in results}
    no_sandbox_left(cluster.nodes)


def test_a_killed_driver_leaves_no_sandbox_on_any_node(cluster: RayCluster, tmp_path: Path) -> None:
    run = start_run(cluster, tmp_path / "run", slow(0.2, 400), "--concurrency", "2")
    run.wait_for_nodes(cluster.nodes)
    run.process.kill()
    run.process.communicate()
    no_sandbox_left(cluster.nodes)
    wait_until(lambda: not any(node.parts() for node in cluster.nodes))


@pytest.mark.parametrize("kind", ["--no-fresh-sandboxes", pytest.param("--fresh-sandboxes", marks=pytest.mark.slow)])
def test_a_budget_counts_the_sandboxes_of_all_nodes(cluster: RayCluster, tmp_path: Path, kind: str) -> None:
    words = (kind, "--concurrency", "2", "--budget", "25s")
    run = start_run(cluster, tmp_path / "run", slow(0.5, 400), *words)
    results = run.finish()["results"]
    assert run.process.returncode == 1
    assert 0 < len(results) < 400
    assert Counter(each["reward"] for each in results) == {1.0: len(results)}
    reader = RunReader(run.path)
    held = held_by(reader).seconds
    # Lines of nodes come a moment later, and each node ends what it has begun.
    assert 15 < held < 25 + 20
    [row] = run.rows("metrics")
    assert row["metrics"]["sandbox_seconds"] == pytest.approx(held, abs=0.01)
    no_sandbox_left(cluster.nodes)


def test_episodes_have_their_sandboxes_here_and_their_verdicts_there(cluster: RayCluster, tmp_path: Path) -> None:
    def solve(question: Question) -> Answer:
        code = "def f(x):\n    return x + 1\n"
        return Says("", [("submit_solution", {"code": code}) if question.turn else ("execute_code", {"code": "1"})])

    problems = tmp_path / "p.jsonl"
    problems.write_text("".join(json.dumps({**PROBLEM, "task_id": f"inc-{number}"}) + "\n" for number in range(6)))
    with ScriptedModel(solve) as server:
        words = ["art", "rollout", "--problems", str(problems), "--model", MODEL, "--base-url", server.base_url]
        words += ["--rollout", "tools", "--steps", "1", "--problems-per-step", "6", "--runtime", cluster.runtime]
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", *words, "--run-name", "episodes", "--json"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "SANDRL_RUNS_DIR": str(tmp_path / "runs"), "OPENAI_API_KEY": "none"},
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    reader = RunReader(tmp_path / "runs" / "episodes")
    assert [row.reward for row in reader.trajectories().rows] == [1.0] * 6
    places = Counter(any(tag.startswith("node-") for tag in row.tags) for row in reader.sandboxes().rows if row.tags)
    assert places[True] >= 1  # workers of nodes
    assert places[False] >= 6  # sandboxes of episodes
    assert disagreements(reader, is_complete=True) == ()
    no_sandbox_left(cluster.nodes)


def test_a_service_scores_and_runs_on_nodes(cluster: RayCluster, tmp_path: Path) -> None:
    with running_service(tmp_path, "--runtime", cluster.runtime) as service, service.client() as http:
        assert http.post("/run_code", json={"code": "print(6 * 7)", "language": "python"}).json()["run_result"][
            "stdout"
        ] == ("42\n")
        rows = [{"task_id": "inc", "code": f"{RIGHT}# {number}"} for number in range(30)]
        answer = http.post("/v1/score", json={"completions": rows, "problems": [PROBLEM]}).json()
        assert [each["reward"] for each in answer["results"]] == [1.0] * 30
        wait_until(lambda: bool(cluster.nodes[0].parts()))
        os.kill(cluster.nodes[0].parts()[0], signal.SIGKILL)
        answer = http.post("/v1/score", json={"completions": slow(0.1, 30), "problems": [PROBLEM]}).json()
        assert [each["reward"] for each in answer["results"]] == [1.0] * 30
        assert service.stop() == 0
    no_sandbox_left(cluster.nodes)
