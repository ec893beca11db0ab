"""What `sandrl doctor` says of the nodes of a Ray cluster, and when it asks them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import pytest
from tests.support.fake_cluster import FakeCluster, FakeHost

from sandrl.doctor import nodes
from sandrl.doctor.node import NodeView
from sandrl.doctor.nodes import cluster_checks, unasked_cluster_check
from sandrl.doctor.report import Check, State
from sandrl.errors import InterruptedRunError, MissingExtraError
from sandrl.fleet.cluster import Cluster, Node, NodeFacts

GOOD = NodeView("native", "", None)


class View(FakeHost):
    """A node that has looked, or could not."""

    def __init__(self, view: NodeView | Exception) -> None:
        self.view = view

    def look(self) -> NodeView:
        if isinstance(self.view, Exception):
            raise self.view
        return self.view


class ExaminedCluster(FakeCluster):
    def __init__(self, *facts: NodeFacts, **views: NodeView | Exception) -> None:
        super().__init__({name: View(view) for name, view in views.items()})
        self.facts = facts

    def nodes(self) -> list[Node]:
        return [each.node for each in self.facts]

    def examine(self, nodes: Sequence[Node]) -> list[NodeFacts]:
        return list(self.facts)


def facts(name: str, problem: str = "", *, remark: str = "", has_answered: bool = True, cpus: float = 8.0) -> NodeFacts:
    return NodeFacts(Node(f"id-{name}", name, "10.0.0.1", cpus), "3.11.7", "0.1.0", problem, remark, has_answered)


def checks_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[Check, list[Check]]:
    monkeypatch.setattr(nodes, "connect", lambda address: cluster)
    return cluster_checks(cluster.address)


def test_one_node_that_can_score_is_enough_and_every_other_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ExaminedCluster(
        facts("good", remark="Python 3.11.7, not 3.11.9 as here"),
        facts("plain", cpus=1.0),
        facts("old", "it has sandrl 0.0.9, and this machine has sandrl 0.1.0"),
        facts("silent", "it did not answer within 60 s", has_answered=False),
        facts("open"),
        facts("lost"),
        good=GOOD,
        plain=NodeView("bubblewrap", "Operation not permitted", None),
        open=NodeView("native", None, Check("no network", State.FAILED, "outside reachable", "unset A")),
        lost=RuntimeError("The worker died."),
    )
    cluster_check, rows = checks_of(cluster, monkeypatch)
    assert (cluster_check.state, cluster_check.detail) == (State.OK, "2 of 6 nodes at 127.0.0.2:6379 can score")
    assert [(row.name, row.state, row.detail) for row in rows] == [
        (
            "good",
            State.OK,
            "Python 3.11.7, sandrl 0.1.0, native with cells, 8 processors; Python 3.11.7, not 3.11.9 as here",
        ),
        (
            "plain",
            State.OK,
            "Python 3.11.7, sandrl 0.1.0, bubblewrap without cells (Operation not permitted), 1 processor",
        ),
        ("old", State.FAILED, "it has sandrl 0.0.9, and this machine has sandrl 0.1.0; 8 processors"),
        ("silent", State.FAILED, "it did not answer within 60 s; 8 processors"),
        ("open", State.FAILED, "no network: outside reachable"),
        ("lost", State.FAILED, "node lost did not answer: The worker died."),
    ]
    assert [row.hint is None for row in rows] == [True, True, False, True, False, True]


def test_a_cluster_of_which_no_node_can_score_is_a_failure_with_all_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ExaminedCluster(facts("one", "it has no sandrl"), facts("two", "it did not answer", has_answered=False))
    found, rows = checks_of(cluster, monkeypatch)
    assert found.state is State.FAILED
    assert found.detail.startswith("no node at 127.0.0.2:6379 can score: one: it has no sandrl; ")
    assert found.hint == rows[0].hint
    assert checks_of(ExaminedCluster(), monkeypatch)[0].state is State.FAILED


def test_a_cluster_that_cannot_be_joined_is_a_failure_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str | None) -> Cluster:
        raise MissingExtraError("the package 'ray' is not installed", hint="pip install 'sandrl[ray]'")

    monkeypatch.setattr(nodes, "connect", refuse)
    found, rows = cluster_checks(None)
    assert (found.state, found.hint, rows) == (State.FAILED, "pip install 'sandrl[ray]'", [])


def test_ctrl_c_while_nodes_look_is_no_fault_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ExaminedCluster(facts("one"), one=InterruptedRunError("interrupted"))
    with pytest.raises(InterruptedRunError):
        checks_of(cluster, monkeypatch)


def test_without_a_question_the_report_says_what_is_installed_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.60.0")
    assert unasked_cluster_check().state is State.SKIPPED

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert unasked_cluster_check().state is State.ABSENT
