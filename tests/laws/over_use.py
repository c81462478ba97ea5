"""Pods that use more of a GPU than their share, as the agent of their node says on its Lease."""

import json
from typing import Any, Final

from cluster import names
from cluster.objects.pods import Pod
from tests.laws.shares import is_sharing
from tests.laws.state import State

_KEY: Final = "overUsers"


def uses_too_much(pod: Pod, state: State) -> bool:
    """Whether the last report names the pod, and more than its share; no other agent can say so."""
    observed = state.leases.get(names.node_lease(pod.spec.node_name or ""))
    text = observed.lease.metadata.annotation(names.USE) if observed else None
    reported: list[dict[str, Any]] = json.loads(text or "{}").get(_KEY, [])
    by_claims = any(one.memory for one in pod.claims.held) if pod.claims else False
    return (is_sharing(pod) or by_claims) and any(
        one["uid"] == pod.metadata.uid and one["used"] > one["limit"] for one in reported
    )
