"""`sandrl view` over real HTTP, over real runs, and as files."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.view import make_run, measure

from sandrl.errors import InputError, UsageError
from sandrl.runs import (
    EvaluationRow,
    MetricsRow,
    OpinionPart,
    OpinionRow,
    ProblemRow,
    RunOutcome,
    RunReader,
    RunWriter,
    ToolCallRow,
)
from sandrl.runs.report import report_document, report_trajectories
from sandrl.runs.rows import BranchRow, CheckRow, MessageRow
from sandrl.viewer.export import write_export
from sandrl.viewer.library import Library, run_key
from sandrl.viewer.server import Viewer, serving
from tests.support.sample_runs import JOB, failed, trajectory, write_run
from tests.support.viewed_runs import write_cards

DIGEST = "d" * 32


pytestmark = pytest.mark.usefixtures("own_index")


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def training(runs_dir: Path) -> Path:
    """Three steps of two problems with four samples each: one always passes, of the other one more in each step."""
    rows = []
    for step in range(3):
        for sample in range(4):
            rows.append(trajectory(sample, step=step, task_id="always"))
            fields = {"step": step, "task_id": "Hard/1", "problem": DIGEST}
            passes = sample < step
            rows.append(
                trajectory(4 + sample, **fields)
                if passes
                else failed(4 + sample, "timeout" if sample == 3 else "failed", **fields)
            )
    extra: dict[int, dict[str, float | None]] = {step: {"step_seconds": 4.0} for step in range(3)}
    return write_run(runs_dir, rows, command="grpo", name="training", extra=extra)


@pytest.fixture
def viewer(runs_dir: Path, tmp_path: Path) -> Iterator[Viewer]:
    runs_dir.mkdir(exist_ok=True)
    with serving(Library(runs_dir, None, tmp_path / "cache"), 0) as viewer:
        yield viewer


@pytest.fixture
def client(viewer: Viewer) -> Iterator[httpx.Client]:
    """A browser that came by the link."""
    with httpx.Client(base_url=viewer.address, follow_redirects=True, timeout=30) as client:
        assert client.get(viewer.link).status_code == 200
        yield client


def asked(client: httpx.Client, path: str, **parameters: str | int) -> Any:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def only_key(client: httpx.Client) -> str:
    [run] = asked(client, "api/runs")["runs"]
    return str(run["key"])


# Who may ask.


def test_the_link_gives_a_cookie_for_the_token_and_leads_away_from_it(viewer: Viewer) -> None:
    with httpx.Client(base_url=viewer.address) as client:
        first = client.get(viewer.link)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        token = viewer.link.partition("token=")[2]
        assert token not in cookie
        page = client.get("/")
        assert page.status_code == 200
        assert token not in page.text


def test_the_link_leads_to_no_other_site(viewer: Viewer) -> None:
    token = viewer.link.partition("token=")[2]
    with httpx.Client() as client:
        answer = client.get(f"{viewer.address}/example.org/?token={token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/example.org/")


@pytest.mark.parametrize(
    "field",
    ['"reward":1e308', '"time":"9999-12-31T23:59:59.999999Z"', '"messages":5', '"checks":[3]', '"index":9' + "9" * 30],
)
def test_a_row_with_impossible_values_leaves_the_rest_of_its_run_to_be_seen(
    client: httpx.Client, training: Path, field: str
) -> None:
    file = training / "trajectories.jsonl"
    first = file.read_text().splitlines()[0]
    file.write_text(
        file.read_text()
        + re.sub(r'"' + field.split('"')[1] + r'":[^,\[]*(\[.*?\])?,', field + ",", first, count=1)
        + "\n"
    )
    key = only_key(client)
    for path, asked_for in (("", {}), ("/rows", {"search": "def f0"}), ("/rows", {"order": "reward"}), ("/groups", {})):
        asked(client, f"api/runs/{key}{path}", **asked_for)


@pytest.mark.parametrize("path", ["", "api/runs", "api/events", "api/compare", "nothing", "?token=wrong", "?token="])
def test_without_the_link_everything_is_refused(viewer: Viewer, path: str) -> None:
    answer = httpx.get(viewer.address + path)
    assert answer.status_code == 403
    assert "link" in answer.text


def test_another_name_of_this_machine_is_refused_even_with_the_cookie(client: httpx.Client, viewer: Viewer) -> None:
    for host in ("example.org", "127.0.0.1.example.org", "localhost.example.org:80", "", "[::1"):
        assert client.get("/api/runs", headers={"Host": host}).status_code in (400, 403), host
    # Through a tunnel the port is another one.
    assert client.get("/api/runs", headers={"Host": "localhost:9999"}).status_code == 200
    assert httpx.get(viewer.link, headers={"Host": "example.org"}).status_code == 403


def test_nothing_but_reading_is_allowed(client: httpx.Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = client.request(method, "/api/runs")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), method
    answer = client.head("/api/runs")
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_page_may_run_its_own_scripts_and_data_is_never_stored(client: httpx.Client, training: Path) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["content-encoding"] == "gzip"
    assert 'data-source="http"' in page.text
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    data = client.get("/api/runs")
    assert data.headers["cache-control"] == "no-store"
    assert data.headers["x-content-type-options"] == "nosniff"


# What is answered.


def test_the_list_has_every_run_with_its_course(client: httpx.Client, training: Path, runs_dir: Path) -> None:
    write_run(runs_dir, [trajectory(0), failed(1)], name="killed", outcome=None)
    write_run(runs_dir, [trajectory(0)], name="broken")
    (runs_dir / "broken" / "config.json").write_text("{")
    runs = {run["run_id"]: run for run in asked(client, "api/runs")["runs"]}
    assert runs.keys() == {"training", "killed", "broken"}
    of_training = runs["training"]
    assert (of_training["state"], of_training["command"]) == ("finished", "grpo")
    assert (of_training["completions"], of_training["steps"]) == (24, 3)
    assert of_training["curve"] == [0.5, 0.625, 0.75]
    assert (of_training["reward"], of_training["pass_rate"]) == (0.75, 0.75)
    assert of_training["job_ids"] == [JOB]
    of_killed = runs["killed"]
    assert (of_killed["state"], of_killed["completions"], of_killed["reward"]) == ("killed", 2, 0.5)
    assert runs["broken"]["state"] == "damaged"
    assert "config.json" in runs["broken"]["error"]


def test_a_run_s_document_is_that_of_the_report(client: httpx.Client, training: Path) -> None:
    with RunWriter(training, job_id=JOB) as writer:
        metrics = {"held_out/pass@1": 0.5, "held_out/pass@1_low": 0.2, "held_out/pass@1_high": 0.8}
        writer.append(EvaluationRow(job_id=JOB, step=3, problems=9, metrics=metrics))
    document = asked(client, f"api/runs/{only_key(client)}")
    key, index = document.pop("key"), document.pop("index")
    report = report_document(RunReader(training))
    report.pop("index")
    for each in (document, report):
        each["run"].pop("made_at")
    assert document == report
    assert key.startswith("training.")
    assert (index["rows"], index["is_complete"]) == (24, True)
    assert document["evaluations"][0]["pass_at"] == {"1": {"estimate": 0.5, "low": 0.2, "high": 0.8, "problems": 9}}
    assert document["pass_at"]["1"]["problems"] == 2
    assert document["throughput"]["values"] == [2.0, 2.0, 2.0]
    assert document["disagreements"] == []


def test_a_run_without_metrics_is_counted_from_its_completions(client: httpx.Client, runs_dir: Path) -> None:
    first = [trajectory(0, step=0), failed(1, step=0)]
    second = [failed(2, "infrastructure", reward=None, step=1), trajectory(3, step=1)]
    write_run(runs_dir, [*first, *second], name="killed", outcome=None)
    document = asked(client, f"api/runs/{only_key(client)}")
    report = report_document(RunReader(runs_dir / "killed"))
    shared = (
        *(
            "reward/mean",
            "reward/total",
            "pass_rate",
            "completions",
            "scored",
            "unscorable",
            "status/failed",
            "executions",
        ),
    )
    assert {name: document["metrics"][name] for name in shared} == {name: report["metrics"][name] for name in shared}
    assert document["statuses"] == report["statuses"] == {"passed": 2, "failed": 1, "infrastructure": 1}


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ({}, 24),
        ({"status": "timeout"}, 3),
        ({"status": "timeout,failed"}, 9),
        ({"status": "no_such"}, 0),
        ({"step": 1}, 8),
        ({"step": 9}, 0),
        ({"task": "hard"}, 12),
        ({"task": "%"}, 0),
        ({"held_out": 1}, 0),
        ({"held_out": 0, "step": 2, "status": "passed"}, 6),
        ({"search": "HARD/1 why"}, 9),
        ({"search": "why 7", "step": 2}, 1),
        ({"search": "def F5(X)"}, 3),
        ({"search": "duration_seconds"}, 0),
        ({"search": "  "}, 24),
    ],
)
def test_rows_are_chosen_by_every_condition(
    client: httpx.Client, training: Path, question: dict[str, Any], count: int
) -> None:
    answer = asked(client, f"api/runs/{only_key(client)}/rows", **question)
    assert answer["total"] == len(answer["rows"]) == count
    assert sum(answer["facets"]["status"].values()) >= count


def test_facets_count_what_the_other_conditions_leave(client: httpx.Client, training: Path) -> None:
    answer = asked(client, f"api/runs/{only_key(client)}/rows", status="timeout", task="hard")
    assert answer["facets"]["status"] == {"passed": 3, "failed": 6, "timeout": 3}


def test_rows_come_in_every_order_page_by_page(client: httpx.Client, runs_dir: Path) -> None:
    rewards = [0.5, None, 1.0, 0.25, 0.5]
    rows = [
        trajectory(n, reward=reward, status="infrastructure" if reward is None else "passed", duration_seconds=5.0 - n)
        for n, reward in enumerate(rewards)
    ]
    write_run(runs_dir, rows, outcome=None)
    key = only_key(client)

    def order(**question: str | int) -> list[int]:
        pages = [asked(client, f"api/runs/{key}/rows", offset=at, limit=2, **question)["rows"] for at in (0, 2, 4)]
        return [row["index"] for page in pages for row in page]

    assert order() == [0, 1, 2, 3, 4]
    assert order(desc=1) == [4, 3, 2, 1, 0]
    assert order(order="duration") == [4, 3, 2, 1, 0]
    assert order(order="reward") == [3, 0, 4, 2, 1]
    assert order(order="reward", desc=1) == [2, 0, 4, 3, 1]


def test_texts_of_every_kind_are_found_and_nothing_else(client: httpx.Client, runs_dir: Path) -> None:
    messages = (
        MessageRow(role="user", content='Übung "eins"'),
        MessageRow(role="assistant", tool_calls=(ToolCallRow(name="run_tests", arguments="{}"),)),
    )
    check = CheckRow(status="failed", detail="7 is not 8", got="<7>", expected="<8>", name="test_it")
    rows = [
        failed(
            0,
            stdout="printed\there",
            stderr="back\\slash",
            messages=messages,
            checks=(check,),
            failures=("lost",),
            branches=(BranchRow(messages=(MessageRow(role="user", content="Aside"),)),),
        ),
        trajectory(1, completion="nothing of it"),
    ]
    write_run(runs_dir, rows, outcome=None)
    key = only_key(client)
    for word in (
        "ÜBUNG",
        '"eins"',
        "Run_Tests {}",
        "7 is not",
        "<8>",
        "TEST_IT",
        "lost",
        "aside",
        "PRINTED",
        "back\\slash",
    ):
        assert [row["index"] for row in asked(client, f"api/runs/{key}/rows", search=word)["rows"]] == [0], word
    for word in ("job_id", "schema", "s-0", "null", "printed nothing"):
        assert asked(client, f"api/runs/{key}/rows", search=word)["total"] == 0, word


def test_a_search_goes_on_with_the_rows_that_come(client: httpx.Client, runs_dir: Path) -> None:
    path = write_run(runs_dir, [trajectory(0, stdout="needle")], outcome=None)
    key = only_key(client)
    first = asked(client, f"api/runs/{key}/rows", search="needle")
    with RunWriter(path, job_id=JOB) as writer:
        writer.append(trajectory(1, stdout="hay"))
        writer.append(trajectory(2, stdout="needle"))
    second = asked(client, f"api/runs/{key}/rows", search="needle")
    found = [(answer["total"], answer["searched"], answer["is_complete"]) for answer in (first, second)]
    assert found == [(1, 1, True), (2, 3, True)]


def test_groups_show_samples_over_steps_and_which_of_them_flip(client: httpx.Client, training: Path) -> None:
    key = only_key(client)
    answer = asked(client, f"api/runs/{key}/groups")
    assert (answer["total"], answer["steps"]) == (2, [0, 1, 2])
    always, hard = answer["groups"]
    assert (always["task_id"], always["flips"], always["problem"]) == ("always", 0, None)
    # One more sample passes in each step.
    assert (hard["task_id"], hard["flips"], hard["problem"]) == ("Hard/1", 2, DIGEST)
    assert [cell["step"] for cell in hard["cells"]] == [0, 1, 2]
    assert hard["cells"][1]["samples"] == [
        ["1.4", "passed", 1.0],
        ["1.5", "failed", 0.0],
        ["1.6", "failed", 0.0],
        ["1.7", "timeout", 0.0],
    ]
    flipped = asked(client, f"api/runs/{key}/groups", flipped=1)
    assert [group["task_id"] for group in flipped["groups"]] == ["Hard/1"]
    assert asked(client, f"api/runs/{key}/groups", task="HARD", offset=1)["groups"] == []


def test_a_trajectory_is_that_of_the_report_with_its_problem_and_its_neighbours(
    client: httpx.Client, training: Path
) -> None:
    with RunWriter(training, job_id=JOB) as writer:
        writer.append(ProblemRow(job_id=JOB, digest=DIGEST, task_id="Hard/1", prompt="Do it."))
        row = failed(7, "timeout", step=0, task_id="Hard/1")
        shared = row.model_dump(include={"index", "id", "task_id", "sandbox_id", "status", "detail", "step"})
        writer.append(OpinionRow(job_id=JOB, **shared, opinion=OpinionPart(status="passed")))
    key = only_key(client)
    expected = {row["key"]: row for row in report_trajectories(RunReader(training))}
    keys = list(expected)
    assert len(keys) == 24
    for at, name in enumerate(keys):
        found = asked(client, f"api/runs/{key}/rows/{name}")
        assert found.pop("previous") == (keys[at - 1] if at else None)
        assert found.pop("next") == (keys[at + 1] if at + 1 < len(keys) else None)
        problem = found.pop("problem")
        digest = expected[name].pop("problem", None)
        assert (problem and (problem["digest"], problem["prompt"])) == (digest and (DIGEST, "Do it."))
        assert found == expected[name]
    assert expected["0.7"]["second_opinion"]["status"] == "passed"
    assert [row["key"] for row in asked(client, f"api/runs/{key}/rows", disagrees=1)["rows"]] == ["0.7"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/runs/none", 404),
        ("api/runs/none/rows", 404),
        ("api/runs/{key}/rows/9.9", 404),
        ("api/runs/{key}/rows/..%2Fconfig.json", 404),
        ("api/runs/..%2f..%2fetc", 404),
        ("api/nothing", 404),
        ("api/runs/{key}/rows?offset=-1", 400),
        ("api/runs/{key}/rows?limit=x", 400),
        ("api/runs/{key}/rows?step=" + "9" * 99, 400),
        ("api/compare", 400),
        ("api/compare?runs={key},none", 404),
    ],
)
def test_what_is_not_there_is_said_in_one_line(client: httpx.Client, training: Path, path: str, status: int) -> None:
    answer = client.get(path.replace("{key}", only_key(client)))
    assert answer.status_code == status
    assert answer.json()["error"]


def test_two_runs_with_one_id_are_two_runs(tmp_path: Path, runs_dir: Path) -> None:
    write_run(runs_dir, [trajectory(0)], name="same")
    write_run(tmp_path / "elsewhere", [trajectory(0), failed(1)], name="same")
    with (
        serving(Library(runs_dir, tmp_path / "state", tmp_path / "cache"), 0) as viewer,
        httpx.Client(base_url=viewer.address, follow_redirects=True) as client,
    ):
        client.get(viewer.link)
        runs = asked(client, "api/runs")["runs"]
        assert [run["run_id"] for run in runs] == ["same", "same"]
        assert {asked(client, f"api/runs/{run['key']}/rows")["total"] for run in runs} == {1, 2}
        assert client.get("api/runs/same").status_code == 404
        keys = ",".join(run["key"] for run in runs)
        assert asked(client, "api/compare", runs=keys, only="all")["total"] == 1


def test_a_comparison_puts_the_latest_completions_of_a_problem_side_by_side(
    client: httpx.Client, runs_dir: Path
) -> None:
    one = write_run(
        runs_dir,
        [trajectory(0, step=0, task_id="a"), trajectory(0, step=1, task_id="a"), failed(1, step=1, task_id="a"),
         trajectory(2, step=0, task_id="b", problem=DIGEST), trajectory(3, step=0, task_id="c")],
        name="one",
    )  # fmt: skip
    other = write_run(
        runs_dir,
        [trajectory(0, task_id="a"), trajectory(1, task_id="b", problem="e" * 32)],
        name="other",
    )
    keys = f"{run_key(one)},{run_key(other)}"
    answer = asked(client, "api/compare", runs=keys)
    assert [run["run_id"] for run in answer["runs"]] == ["one", "other"]
    assert (answer["total"], answer["differ"]) == (2, 2)
    assert answer["problems"] == [
        {
            "task_id": "a",
            "same_problem": True,
            "cells": [
                {"n": 2, "scored": 2, "passed": 1, "reward": 0.5, "key": "1.1", "status": "failed"},
                {"n": 1, "scored": 1, "passed": 1, "reward": 1.0, "key": "-.0", "status": "passed"},
            ],
        },
        {
            "task_id": "c",
            "same_problem": True,
            "cells": [{"n": 1, "scored": 1, "passed": 1, "reward": 1.0, "key": "0.3", "status": "passed"}, None],
        },
    ]
    everything = asked(client, "api/compare", runs=keys, only="all")
    same = [(each["task_id"], each["same_problem"]) for each in everything["problems"]]
    assert same == [("a", True), ("b", False), ("c", True)]
    assert everything["curves"]["reward/mean"][0]["steps"] == [0, 1]
    assert asked(client, "api/compare", runs=keys, only="all", search="B")["total"] == 1


def test_a_damaged_run_shows_what_can_be_read(client: httpx.Client, training: Path) -> None:
    with (training / "trajectories.jsonl").open("ab") as file:
        file.write(b'{"broken": 1}\n\xff\n{"half": ')
    (training / "metrics.jsonl").write_bytes(b"nonsense\n" + (training / "metrics.jsonl").read_bytes())
    key = only_key(client)
    document = asked(client, f"api/runs/{key}")
    assert (document["index"]["rows"], document["index"]["is_complete"]) == (24, True)
    assert len(document["notes"]) == 2
    assert asked(client, f"api/runs/{key}/rows")["total"] == 24


# Live.


class _Events:
    """Listens to a stream of events in a thread of its own.

    Args:
        client: Has the cookie.
    """

    def __init__(self, client: httpx.Client) -> None:
        self.is_open = threading.Event()
        self.changed: list[str] = []
        self.came = threading.Condition()
        self.ended = threading.Event()
        self._client = client
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        assert self.is_open.wait(10)

    def _listen(self) -> None:
        try:
            with self._client.stream("GET", "api/events", timeout=30) as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                for line in stream.iter_lines():
                    self.is_open.set()
                    if line.startswith("data: "):
                        with self.came:
                            self.changed += json.loads(line.removeprefix("data: "))["runs"]
                            self.came.notify_all()
        finally:
            self.ended.set()

    def wait_for(self, key: str) -> None:
        """Waits until it is said that a run has changed."""
        with self.came:
            assert self.came.wait_for(lambda: key in self.changed, 20), self.changed
            self.changed.clear()

    def join(self) -> None:
        """Waits for the end of the stream."""
        self._thread.join(20)
        assert self.ended.is_set()


def test_what_a_job_writes_is_said_and_answered_at_once(viewer: Viewer, client: httpx.Client, runs_dir: Path) -> None:
    events = _Events(client)
    with RunWriter.create(runs_dir, command="grpo", job_id=JOB, name="live") as writer:
        key = run_key(writer.path)
        events.wait_for(key)
        assert asked(client, "api/runs")["runs"][0]["state"] == "running"
        for step in range(2):
            writer.append(trajectory(step, step=step))
            writer.append(MetricsRow(job_id=JOB, step=step, metrics={"reward/mean": 1.0, "completions": 1.0}))
            events.wait_for(key)
            assert asked(client, f"api/runs/{key}/rows")["total"] == step + 1
            assert asked(client, f"api/runs/{key}")["metrics"]["reward/mean"]["steps"] == list(range(step + 1))
        writer.finish(RunOutcome.FINISHED)
    events.wait_for(key)
    assert asked(client, "api/runs")["runs"][0]["state"] == "finished"
    viewer.close()
    # A stream that is open does not keep the server.
    events.join()


def test_a_job_that_is_killed_changes_its_run(viewer: Viewer, client: httpx.Client, runs_dir: Path) -> None:
    events = _Events(client)
    writer = RunWriter.create(runs_dir, command="reward", job_id=JOB, name="lost")
    key = run_key(writer.path)
    events.wait_for(key)
    # It goes without a word: nothing is written, the lock is gone.
    writer.close()
    events.wait_for(key)
    assert asked(client, "api/runs")["runs"][0]["state"] == "killed"
    viewer.close()
    events.join()


# Cards.


def test_cards_are_short_in_their_list_and_each_has_its_runs(client: httpx.Client, runs_dir: Path) -> None:
    run = write_cards(runs_dir)
    key = only_key(client)
    answer = asked(client, f"api/runs/{key}/cards")
    assert (answer["run"]["command"], answer["run"]["problems"]) == ("redteam", "tasks of ours")
    assert (answer["set"]["problems"], answer["set"]["cheated"], answer["set"]["unknown"]["mutants"]) == (6, 2, 4)
    assert answer["set"] == asked(client, f"api/runs/{key}")["cards"]
    briefs = {each["digest"]: each for each in answer["cards"]}
    cards = {each.digest: each for each in RunReader(run).cards().rows}
    assert list(briefs) == list(cards)
    for digest, card in cards.items():
        whole = asked(client, f"api/runs/{key}/cards/{digest}")
        assert (whole["quality"], whole["weakest"], whole["parts"]) == (card.quality, card.weakest, card.parts)
        assert len(whole["mutants"] or ()) == len(card.mutants or ())
        short = {name: value for name, value in briefs[digest].items() if name != "cheats"}
        assert short.items() <= {name: value for name, value in whole.items() if name != "cheats"}.items()
        assert "mutants" not in briefs[digest]
    runs = asked(client, f"api/runs/{key}/cards/{'b' * 64}")["runs"]
    assert runs[:2] == [["oracle.0", "-.0", "passed", 1.0], ["oracle.1", "-.1", "passed", 1.0]]
    assert runs[-1] == ["mutant.3", f"-.{len(runs) - 1}", "infrastructure", None]
    assert asked(client, f"api/runs/{key}/cards/{'a' * 64}")["runs"] == []
    assert client.get(f"api/runs/{key}/cards/none").status_code == 404


def test_a_run_that_measures_problems_passes_nothing_in_the_list(client: httpx.Client, runs_dir: Path) -> None:
    write_cards(runs_dir)
    [run] = asked(client, "api/runs")["runs"]
    assert (run["pass_at_1"], run["pass_rate"], run["reward"], run["completions"]) == (None, None, None, 12)


def test_a_run_without_cards_has_none_and_impossible_values_are_unknown(client: httpx.Client, runs_dir: Path) -> None:
    run = write_run(runs_dir, [trajectory(0)])
    key = only_key(client)
    assert asked(client, f"api/runs/{key}/cards")["set"] is None
    assert asked(client, f"api/runs/{key}/cards")["cards"] == []
    cheat = {"name": "c", "group": "g", "reward": "NaN"}
    card = {"task_id": "a", "kind": "task", "digest": "1", "seconds": {"agent": "Infinity"}, "cheats_tried": 1}
    (run / "cards.jsonl").write_text(json.dumps({**card, "cheats": [cheat]}) + '\n{"task_id": 7}\n{"task', "utf-8")
    found = asked(client, f"api/runs/{key}/cards/1")
    assert (found["seconds"], found["cheats"][0]["reward"], found["quality"]) == ({"agent": None}, None, 0.0)
    assert [each["task_id"] for each in asked(client, f"api/runs/{key}/cards")["cards"]] == ["a"]
    notes = asked(client, f"api/runs/{key}")["notes"]
    assert "incomplete" in notes[0]
    assert "cards.jsonl" in notes[1]


def test_an_export_has_the_cards(client: httpx.Client, runs_dir: Path, tmp_path: Path) -> None:
    key = run_key(write_cards(runs_dir))
    with Library(runs_dir, None, tmp_path / "cache") as library:
        write_export(library, tmp_path / "site")
    for card in unpacked(tmp_path / "site" / "data" / f"{key}-cards.js")["all_cards"]:
        served = asked(client, f"api/runs/{key}/cards/{card['digest']}")
        assert card == {name: value for name, value in served.items() if name not in ("run", "runs")}


# Files.


def unpacked(file: Path) -> Any:
    """The document in a piece of an export."""
    found = re.fullmatch(r'sandrlData\("([^"]+)", "([A-Za-z0-9+/=]+)"\);\n', file.read_text("ascii"))
    assert found is not None
    assert file.name == f"{found[1]}.js"
    return json.loads(gzip.decompress(base64.b64decode(found[2])))


def test_an_export_has_the_documents_of_the_server(
    client: httpx.Client, training: Path, runs_dir: Path, tmp_path: Path
) -> None:
    with RunWriter(training, job_id=JOB) as writer:
        writer.append(ProblemRow(job_id=JOB, digest=DIGEST, task_id="Hard/1", prompt="Do it."))
    many = write_run(runs_dir, [trajectory(n, stdout="</script>") for n in range(450)], name="many", outcome=None)
    with Library(runs_dir, None, tmp_path / "cache") as library:
        export = write_export(library, tmp_path / "site")
    data = tmp_path / "site" / "data"
    assert (export.index, export.runs, export.left_out) == (tmp_path / "site" / "index.html", 2, ())
    assert 'data-source="files"' in export.index.read_text()
    assert unpacked(data / "runs.js")["runs"] == asked(client, "api/runs")["runs"]
    for run in (training, many):
        key = run_key(run)
        document, served = unpacked(data / f"{key}.js"), asked(client, f"api/runs/{key}")
        assert document | {"run": None} == served | {"run": None}
        rows = unpacked(data / f"{key}-rows.js")
        listed = [asked(client, f"api/runs/{key}/rows", offset=at, limit=200)["rows"] for at in (0, 200, 400)]
        assert rows["rows"] == [row for page in listed for row in page]
        whole = [
            row
            for at in range(-(-len(rows["rows"]) // rows["chunk"]))
            for row in unpacked(data / f"{key}-t{at}.js")["trajectories"]
        ]
        assert whole == list(report_trajectories(RunReader(run)))
    assert list(unpacked(data / f"{run_key(training)}-t0.js")["problems"]) == [DIGEST]
    assert len(list(data.iterdir())) == 2 + 2 * 2 + 1 + 3


def test_an_earlier_export_is_replaced_and_nothing_else(training: Path, runs_dir: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with Library(runs_dir, None, tmp_path / "cache") as library:
        write_export(library, site)
        (site / "data" / "stale.js").touch()
        write_export(library, site, only=run_key(training))
        assert not (site / "data" / "stale.js").exists()
        other = tmp_path / "other"
        other.mkdir()
        (other / "thesis.tex").touch()
        with pytest.raises(UsageError, match="other files"):
            write_export(library, other)
        with pytest.raises(UsageError, match="not a directory"):
            write_export(library, other / "thesis.tex")
        (site / "notes.txt").write_text("mine", encoding="utf-8")
        with pytest.raises(UsageError, match="other files"):
            write_export(library, site)
        assert (site / "notes.txt").is_file()
        assert [file.name for file in other.iterdir()] == ["thesis.tex"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cache", "other", "runs", "site", "state"]


def test_an_export_leaves_out_what_cannot_be_read(training: Path, runs_dir: Path, tmp_path: Path) -> None:
    broken = write_run(runs_dir, [trajectory(0)], name="broken")
    (broken / "config.json").write_text("{")
    with Library(runs_dir, None, tmp_path / "cache") as library:
        export = write_export(library, tmp_path / "site")
    assert export.left_out == ("broken",)
    assert {run["state"] for run in unpacked(tmp_path / "site" / "data" / "runs.js")["runs"]} == {"damaged", "finished"}


def test_a_run_is_found_by_every_name_it_has(training: Path, runs_dir: Path, tmp_path: Path) -> None:
    with Library(runs_dir, None, tmp_path / "cache") as library:
        names = ("training", "latest", JOB, str(training))
        assert {library.key_of(name) for name in names} == {run_key(training)}
        with pytest.raises(InputError):
            library.key_of("nothing")
        elsewhere = write_run(tmp_path / "elsewhere", [trajectory(0)])
        with pytest.raises(InputError, match="is not one of the runs that are shown"):
            library.key_of(str(elsewhere))


# The command.


def started(*words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sandrl", "view", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "BROWSER": "false"},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped_also_with_a_page_open(
    training: Path, runs_dir: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = started(runs_dir, "--port", "0", "--run", "training", cwd=tmp_path)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.fullmatch(r"Showing runs on (http://127\.0\.0\.1:\d+/\?token=[\w-]+)(#/run/training\.\w+)\n", said)
        assert found is not None, said
        with httpx.Client(base_url=found[1].partition("?")[0], follow_redirects=True) as client:
            assert client.get(found[1]).status_code == 200
            assert only_key(client) == found[2].removeprefix("#/run/")
            events = _Events(client)
            process.send_signal(number)
            out, errors = process.communicate(timeout=20)
            events.join()
        assert (process.returncode, out) == (0, ""), errors
        assert errors == "Press Ctrl-C to stop.\n"
        token = found[1].partition("token=")[2]
        kept = [file for file in tmp_path.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]
        assert kept == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: this directory does not exist"),
        (["file"], "file: is a file"),
        (["runs", "--run", "nothing"], "there is no run 'nothing'"),
        (["runs", "--port", "99999"], "less than or equal to 65535"),
        (["runs", "--export", "site", "--port", "0"], "it cannot be used with --port"),
        (["runs", "--export", "file"], "--export"),
        (["empty", "--export", "site"], "there are no runs to export"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(training: Path, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    process = started(*words, cwd=tmp_path)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert message in errors
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_said_and_without_a_wish_another_is_used(
    viewer: Viewer, training: Path, runs_dir: Path, tmp_path: Path
) -> None:
    port = viewer.address.rstrip("/").rpartition(":")[2]
    process = started(runs_dir, "--port", port, cwd=tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"cannot listen on port {port}: Address already in use" in errors
    assert "--port" in errors
    libraries = [Library(runs_dir, None, tmp_path / "cache") for _ in range(2)]
    with serving(libraries[0]) as first, serving(libraries[1]) as second:
        assert first.address != second.address


def test_an_empty_directory_is_served_and_an_export_is_printed(training: Path, runs_dir: Path, tmp_path: Path) -> None:
    process = started(runs_dir, "--export", "site", cwd=tmp_path)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, f"{tmp_path / 'site' / 'index.html'}\n", "")
    (tmp_path / "empty").mkdir()
    process = started(tmp_path / "empty", "--port", "0", cwd=tmp_path)
    assert process.stdout is not None
    assert "Showing runs on" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.startswith("There are no runs yet")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1800)
def test_a_million_completions_are_shown_in_bounded_memory(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", 1_000_000)
    found = measure(tmp_path, 1_000_000)
    assert found["mebibytes"] < 300
