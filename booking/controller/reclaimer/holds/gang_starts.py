"""When the pods of a gang start: not before all of them have their devices. Pure."""

from collections.abc import Callable

from booking.controller.reclaimer.holds.hold_status import hold_status
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster.objects.gangs import Gang
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import is_queued


def to_start(gang: Gang, snapshot: ReclaimerSnapshot, has_waited: Callable[[str], bool]) -> list[Pod]:
    """The pods of a gang whose gates are removed now: none unless all of it have a node or free devices.

    Args:
        gang: one some pods of which have holds.
        snapshot: this instant.
        has_waited: whether the devices of a pod, by its uid, have been its own for long enough.
    """
    them = snapshot.gangs.get(gang, ())
    if len(them) < gang.size or not all(_is_ready(pod, snapshot, has_waited) for pod in them):
        return []
    return [pod for pod in them if is_queued(pod)]


def _is_ready(pod: Pod, snapshot: ReclaimerSnapshot, has_waited: Callable[[str], bool]) -> bool:
    if pod.spec.node_name:
        return True
    hold = snapshot.holds.get(pod.metadata.uid)
    return hold is not None and has_waited(pod.metadata.uid) and hold_status(pod, hold, snapshot).complete
