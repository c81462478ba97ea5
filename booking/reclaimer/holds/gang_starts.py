"""When the pods of a gang start: not before all of them have their devices. Pure."""

from collections.abc import Callable

from booking.reclaimer.holds.hold_status import hold_status
from booking.reclaimer.snapshot import Snapshot
from cluster.objects.gangs import gang_of
from cluster.objects.pods import Pod, is_live


def are_others_ready(pod: Pod, snapshot: Snapshot, has_waited: Callable[[str], bool]) -> bool:
    """Whether all pods of the pod's gang have a node, or a hold whose devices are free.

    Args:
        pod: one of them, with such a hold; a pod that is of no gang is ready.
        snapshot: this instant.
        has_waited: whether the devices of a pod, by its uid, have been its own for long enough.
    """
    gang = gang_of(pod)
    if gang is None:
        return True
    them = [one for one in snapshot.pods.values() if is_live(one) and gang_of(one) == gang]
    return len(them) >= gang.size and all(
        one.spec.node_name
        or (
            (hold := snapshot.holds.get(one.metadata.uid))
            and has_waited(one.metadata.uid)
            and hold_status(one, hold, snapshot).complete
        )
        for one in them
    )
