"""Events for owners of running pods on nodes where their booking does not cover them, with what to do."""

from typing import Final

from booking.reclaimer.context import ReclaimerContext
from booking.reclaimer.snapshot import Snapshot
from cluster import names
from cluster.objects.pods import Pod

_MESSAGE: Final = (
    "The booking {booking} does not cover this pod on node {node}: others are promised GPUs there. It stays"
    " until a booked pod needs its GPUs, and comes back with GPUs then unless it asks for something else."
    " Created again, it gets its GPUs on another node for certain."
)


class Unadopted:
    """Writes one Event for each such pod, once for as long as that lasts. Not thread-safe."""

    def __init__(self, context: ReclaimerContext) -> None:
        self._write_event = context.write_event
        self._reported: frozenset[tuple[str, str]] = frozenset()

    def reconcile(self, snapshot: Snapshot) -> None:
        """Write the Event on the pods that have none yet."""
        for uid, booking in sorted(snapshot.barred - self._reported):
            pod = snapshot.pods.get(uid)
            if pod is not None:
                self._write_event(pod, names.NOT_ADOPTED, message(pod, booking))
        self._reported = snapshot.barred


def message(pod: Pod, booking: str) -> str:
    """The Event's message, for the owner."""
    return _MESSAGE.format(booking=booking, node=pod.spec.node_name)
