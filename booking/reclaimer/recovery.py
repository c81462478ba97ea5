"""After an outage of the API server, nodes and their agents are given time to be heard again.

When the API server was away for a minute all signs of life are old: agents' Leases, and the kubelets' own,
for whose silence Kubernetes calls nodes not ready a moment after the API server is back. Whose is renewed
first is chance: a plan made in that moment would take GPUs from a node only because it was the quicker one,
and a hold would be dropped for a node that is about to be heard (law L3). Pure.
"""

from typing import Final

from booking.reclaimer.snapshot import Snapshot
from cluster.objects.nodes import Node

RECOVERS_WITHIN: Final = 30.0
"""Seconds in which whoever lives has been heard: a request may have to time out first."""
_SILENT: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Keys of the taints with which Kubernetes marks nodes that it does not hear."""


def is_recovering(snapshot: Snapshot) -> bool:
    """Whether somebody who is silent may only not have been heard yet."""
    since = snapshot.since_watch_stale
    if since is None or since >= RECOVERS_WITHIN:
        return False
    agents = (agent for _, agent in snapshot.node_snapshots.values())
    return "silent" in agents or any(not _is_heard(node) for node in snapshot.nodes.values())


def _is_heard(node: Node) -> bool:
    """Whether Kubernetes hears the node's kubelet; a node that says nothing about it is believed."""
    ready = next((c.status for c in node.status.conditions or () if c.type == "Ready"), "True")
    return ready == "True" and not any(taint.key in _SILENT for taint in node.spec.taints or ())
