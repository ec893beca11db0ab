"""A Ray cluster with real raylets, in a process that does what is written to it: `python -m tests.support.ray_nodes`.

It answers each line with one line: `add CPUS ENVIRONMENT` (as JSON) with the node's number, `port NUMBER` with the port
of its raylet, `remove NUMBER` (its raylet is killed) and `end` with `ok`. The first line that it writes is the address.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# Ray takes 127.0.0.1 for the address of this machine in its network, at which nothing of this cluster listens.
LOOPBACK = "127.0.0.2"


def main() -> None:
    from ray.cluster_utils import Cluster

    # What Ray prints is no answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    own: dict[str, Any] = {"include_dashboard": False, "node_ip_address": LOOPBACK}
    cluster = Cluster(initialize_head=True, head_node_args={**own, "num_cpus": 0})
    nodes: list[Any] = []
    print(cluster.address, file=answers)
    try:
        for line in sys.stdin:
            word, *arguments = line.split(maxsplit=2)
            if word == "add":
                cpus, environment = arguments
                nodes.append(cluster.add_node(**own, num_cpus=int(cpus), env_vars=json.loads(environment)))
                print(len(nodes) - 1, file=answers)
            elif word == "port":
                print(nodes[int(arguments[0])].node_manager_port, file=answers)
            elif word == "remove":
                cluster.remove_node(nodes[int(arguments[0])], allow_graceful=False)
                print("ok", file=answers)
            else:
                break
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]
        print("ok", file=answers)


if __name__ == "__main__":
    main()
