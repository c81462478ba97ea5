"""Holds: devices that are kept for a waiting pod.

A hold counts only while its pod lives and is not bound, and only if it can be read.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from cluster.objects.hold import Hold, HoldError, hold_of
from cluster.objects.pods import Pod, is_live

OnHold = dict[str, str]
"""UUID -> uid of the pod for which the device is kept."""


def standing_hold(pod: Pod) -> Hold | None:
    """The hold on a living pod that waits; None if there is none that counts."""
    if pod.spec.node_name or not is_live(pod):
        return None
    try:
        return hold_of(pod)
    except HoldError:
        return None


def devices_on_hold(holds: Mapping[str, Hold]) -> OnHold:
    """For which pod each device of one node is kept.

    If two holds name one device, that of a booked pod counts, which takes it from a pod whose turn it is; of
    two others (which should not happen) the older one, then the smaller uid.

    Args:
        holds: pod uid -> its hold, all on the same node.
    """
    found: OnHold = {}
    for uid in sorted(holds, key=lambda uid: (holds[uid].need != "booking", _written(holds[uid]), uid)):
        for device in holds[uid].devices:
            found.setdefault(device, uid)
    return found


def _written(hold: Hold) -> datetime:
    if hold.at is None:
        return datetime.max.replace(tzinfo=UTC)
    return hold.at if hold.at.tzinfo else hold.at.replace(tzinfo=UTC)
