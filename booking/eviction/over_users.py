"""Pods that use more memory of a GPU than their share, and that may be evicted for it. Pure.

An agent reports its own pods, once it has measured them. A report that is old, or about a pod of another
node, is worth nothing: then nobody is evicted (law L6). Nor is a booked pod, or one that is never evicted
(law L2). Pods that have a share together, by one claim, leave together: if one of them may not, none does.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from booking.eviction.snapshot import EvictionSnapshot
from cluster.decide.ledger import NodeView
from cluster.objects.device_usage import NodeUsage, OverUser, UseError, decode_use
from cluster.objects.pods import is_live

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
        view = instant.node_snapshots.views.get(node)
        if view is None or instant.node_snapshots[node][1] == "unresponsive":
            continue
        named = {(one.uid, one.device) for one in report.over_users}
        for one in report.over_users:
            if one.uid not in found and all(
                (uid, one.device) in named and _may_go(uid, view, instant)
                for uid in {one.uid, *others(one, view, instant)}
            ):
                found[one.uid] = one
    return found


def others(user: OverUser, view: NodeView, instant: EvictionSnapshot) -> frozenset[str]:
    """Uids of the pods that have the share together with an over-user, of those that do not leave already.

    They have a claim in common that has it, directly or by others.

    Args:
        user: the over-user.
        view: its node.
        instant: the cluster.
    """
    name = next((one.claimed_as for one in view.devices if one.uuid == user.device), None)
    if user.pods == 1 or name is None:
        return frozenset()
    claims = {one.uid: {part.claim for part in one.claimed if part.device == name} for one in view.holdings}
    found, known = {user.uid}, claims.get(user.uid, set())
    while more := {uid for uid in claims.keys() - found if claims[uid] & known}:
        found |= more
        known = known.union(*(claims[uid] for uid in more))
    return frozenset(
        uid for uid in found - {user.uid} if (pod := instant.pods.get(uid)) is None or is_live(pod)
    )


def _may_go(uid: str, view: NodeView, instant: EvictionSnapshot) -> bool:
    pod = instant.pods.get(uid)
    holding = next((one for one in view.holdings if one.uid == uid), None)
    if pod is None or holding is None or pod.spec.node_name != view.name or not holding.has_shares:
        return False
    return instant.policy.protection(pod, holding, instant) is None


def _readable(text: str) -> NodeUsage | None:
    try:
        return decode_use(text)
    except UseError:
        return None
