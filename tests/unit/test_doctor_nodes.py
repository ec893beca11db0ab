"""What `sandrl doctor` says of the nodes of a Ray cluster, and when it asks them."""

from __future__ import annotations

import platform
from importlib import metadata

import pytest
from tests.support.fake_cluster import FakeCluster, FakeHost

from sandrl import __version__
from sandrl.doctor import nodes
from sandrl.doctor.node import NodeView
from sandrl.doctor.nodes import cluster_checks, unasked_cluster_check
from sandrl.doctor.report import Check, State
from sandrl.errors import InfrastructureError, InterruptedRunError, MissingExtraError
from sandrl.fleet.cluster import Cluster


class View(FakeHost):
    """A node that has looked, or could not."""

    def __init__(self, view: NodeView | Exception) -> None:
        self.view = view

    def look(self) -> NodeView:
        if isinstance(self.view, Exception):
            raise self.view
        return self.view


def cluster_of(**views: NodeView | Exception) -> FakeCluster:
    return FakeCluster({name: View(view) for name, view in views.items()})


def checks_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[Check, list[Check]]:
    monkeypatch.setattr(nodes, "connect", lambda address: cluster)
    return cluster_checks(cluster.address)


def test_one_node_that_can_score_is_enough_and_every_other_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    here = platform.python_version()
    cluster = cluster_of(
        good=NodeView("3.11.0", "native", "", None),
        plain=NodeView(here, "bubblewrap", "Operation not permitted", None),
        old=InfrastructureError("it has sandrl 0.0.9, and this machine has sandrl 0.1.0", hint="install"),
        open=NodeView(here, "native", None, Check("no network", State.FAILED, "outside reachable", "unset A")),
        lost=RuntimeError("The worker died."),
    )
    cluster_check, rows = checks_of(cluster, monkeypatch)
    assert (cluster_check.state, cluster_check.detail) == (State.OK, "2 of 5 nodes at 127.0.0.2:6379 can score")
    at_end = f"sandrl {__version__}"
    assert [(row.name, row.state, row.detail) for row in rows] == [
        (
            "good",
            State.OK,
            f"Python 3.11.0, {at_end}, native with cells, 2 processors; Python 3.11.0, not {here} as here",
        ),
        (
            "plain",
            State.OK,
            f"Python {here}, {at_end}, bubblewrap without cells (Operation not permitted), 2 processors",
        ),
        ("old", State.FAILED, "it has sandrl 0.0.9, and this machine has sandrl 0.1.0; 2 processors"),
        ("open", State.FAILED, "no network: outside reachable"),
        ("lost", State.FAILED, "node lost did not answer: The worker died.; 2 processors"),
    ]
    assert [row.hint is None for row in rows] == [True, True, False, False, True]


def test_a_cluster_of_which_no_node_can_score_is_a_failure_with_all_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = checks_of(cluster_of(one=InfrastructureError("it has no sandrl"), two=RuntimeError()), monkeypatch)
    assert found.state is State.FAILED
    assert found.detail.startswith("no node at 127.0.0.2:6379 can score: one: it has no sandrl; ")
    assert found.hint == rows[0].hint
    assert checks_of(cluster_of(), monkeypatch)[0].state is State.FAILED


def test_a_cluster_that_cannot_be_joined_is_a_failure_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str | None) -> Cluster:
        raise MissingExtraError("the package 'ray' is not installed", hint="pip install 'sandrl[ray]'")

    monkeypatch.setattr(nodes, "connect", refuse)
    found, rows = cluster_checks(None)
    assert (found.state, found.hint, rows) == (State.FAILED, "pip install 'sandrl[ray]'", [])


def test_ctrl_c_while_nodes_look_is_no_fault_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(one=InterruptedRunError("interrupted"))
    with pytest.raises(InterruptedRunError):
        checks_of(cluster, monkeypatch)


def test_without_a_question_the_report_says_what_is_installed_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.60.0")
    assert unasked_cluster_check().state is State.SKIPPED

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert unasked_cluster_check().state is State.ABSENT
