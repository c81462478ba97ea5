"""Pods that use more memory of a GPU than their share, and that may be evicted for it. Pure.

An agent reports its own pods, once it has measured them. A report that is old, or about a pod of another
node, is worth nothing: then nobody is evicted (law L6). Nor is a booked pod, or one that is never evicted
(law L2).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from booking.eviction.snapshot import EvictionSnapshot
from cluster.objects.device_usage import NodeUsage, OverUser, UseError, decode_use
from cluster.objects.share_request import asks_for_shares

OLD_AFTER: Final = timedelta(seconds=45)
"""Agents report every ten seconds."""


def over_users(reports: Mapping[str, str], instant: EvictionSnapshot) -> dict[str, OverUser]:
    """Uid -> what the pod uses, where it uses most too much.

    Args:
        reports: node -> its agent's report (``cluster.objects.device_usage``).
        instant: the cluster.
    """
    found: dict[str, OverUser] = {}
    for node, text in sorted(reports.items()):
        report = _readable(text)
        if report is None or abs(instant.now - report.at) > OLD_AFTER:
            continue
        for one in report.over_users:
            if one.uid not in found and _may_go(one.uid, node, instant):
                found[one.uid] = one
    return found


def _may_go(uid: str, node: str, instant: EvictionSnapshot) -> bool:
    pod, view = instant.pods.get(uid), instant.node_snapshots.views.get(node)
    if pod is None or view is None or pod.spec.node_name != node or not asks_for_shares(pod):
        return False
    if instant.node_snapshots[node][1] == "unresponsive":
        return False
    holding = next((one for one in view.holdings if one.uid == uid), None)
    return instant.policy.protection(pod, holding, instant) is None


def _readable(text: str) -> NodeUsage | None:
    try:
        return decode_use(text)
    except UseError:
        return None
