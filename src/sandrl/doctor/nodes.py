"""The nodes of a Ray cluster: which of them can score, and how each of them isolates.

A cluster is joined only if the selected runtime is `ray`. All nodes check at the same time what their local runtime
needs (`sandrl.doctor.node`). The check passes if at least one node can score; the rows give the reasons for the others.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandrl import __version__
from sandrl.doctor.report import Check, State
from sandrl.errors import InfrastructureError, InterruptedRunError, SandrlError
from sandrl.fleet.cluster import Cluster, Node, answers_within, connect
from sandrl.installation import install_command, installed_version

if TYPE_CHECKING:
    from sandrl.doctor.node import NodeView

# How long the nodes may take to start a process and to try what they can; a busy one tries some things twice.
_LOOK_SECONDS = 90.0
_MODULE = "sandrl.doctor.node"
_NAME = "Ray cluster"


def unasked_cluster_check() -> Check:
    """What is known of Ray without a question to a cluster."""
    installed = installed_version("ray")
    if installed is None:
        return Check(_NAME, State.ABSENT, "ray is not installed", install_command("ray"))
    detail = f"not tested; ray {installed} is installed"
    return Check(_NAME, State.SKIPPED, detail, "sandrl doctor --runtime ray tests the nodes")


def cluster_checks(address: str | None) -> tuple[Check, list[Check]]:
    """Whether a cluster can score, and a check for each of its nodes."""
    try:
        cluster = connect(address)
        rows = node_checks(cluster)
    except InterruptedRunError:
        raise
    except SandrlError as error:
        return Check(_NAME, State.FAILED, error.message, error.hint), []
    return _cluster_check(cluster.address, rows), rows


def node_checks(cluster: Cluster) -> list[Check]:
    """A check for each node of a cluster.

    Raises:
        ServiceError: If the cluster does not answer.
    """
    hosts = [(node, cluster.hold(node, _MODULE)) for node in cluster.nodes()]
    asked = [(node, host.ask("look")) for node, host in hosts]
    return [_node_check(node, view) for node, view in answers_within(_LOOK_SECONDS, asked)]


def _node_check(node: Node, view: NodeView | InfrastructureError) -> Check:
    processors = f"{node.cpus:g} processor" + ("" if node.cpus == 1 else "s")
    if isinstance(view, InfrastructureError):
        reason = view.message.removeprefix(f"node {node.name}: ")
        return Check(node.name, State.FAILED, f"{reason}; {processors}", view.hint)
    if view.failed is not None:
        return Check(node.name, State.FAILED, f"{view.failed.name}: {view.failed.detail}", view.failed.hint)
    cells = "with cells" if view.cells_refusal == "" else f"without cells ({view.cells_refusal})"
    parts = (f"Python {view.python}", f"sandrl {__version__}", f"{view.launcher} {cells}", processors)
    here = platform.python_version()
    remark = "" if view.python == here else f"; Python {view.python}, not {here} as here"
    return Check(node.name, State.OK, ", ".join(parts) + remark)


def _cluster_check(address: str, rows: Sequence[Check]) -> Check:
    able = [row for row in rows if row.state is State.OK]
    if able:
        return Check(_NAME, State.OK, f"{len(able)} of {len(rows)} nodes at {address} can score")
    if not rows:
        hint = "add a node with processors, or give nodes the resource sandrl"
        return Check(_NAME, State.FAILED, f"no node at {address} has processors to score with", hint)
    reasons = "; ".join(f"{row.name}: {row.detail}" for row in rows)
    return Check(_NAME, State.FAILED, f"no node at {address} can score: {reasons}", rows[0].hint)
