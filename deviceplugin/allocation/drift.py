"""Pods that have other devices than assigned, for the Node's drift annotation. Pure.

Used by ``publish``. If the kubelet has allocated other devices than the extender chose, the pod's annotation
is wrong and cannot be corrected there: the Node's annotation wins over it (law L1).
"""

from collections.abc import Iterable

from cluster.objects.assignment import Assignment, readable_assignment_of
from cluster.objects.pods import Pod, is_terminal
from deviceplugin.allocation.pod_devices import PodDevices


def drift(pods: Iterable[Pod], holdings: PodDevices) -> dict[str, Assignment]:
    """Pod uid -> the devices that the pod really has, for live pods where they differ from the assignment.

    A container without devices yet is assumed to get those assigned to it.
    """
    return {
        pod.metadata.uid: real
        for pod in pods
        if not is_terminal(pod) and _differs(readable_assignment_of(pod), real := _real(pod, holdings))
    }


def _real(pod: Pod, holdings: PodDevices) -> Assignment:
    served = {
        container: tuple(sorted(devices))
        for (uid, container), devices in holdings.of_containers.items()
        if uid == pod.metadata.uid
    }
    assigned = readable_assignment_of(pod)
    for container, uuids in assigned.items():
        # The kubelet allocates one resource after the other: devices not allocated yet are assumed to follow.
        if len(served.get(container, ())) < len(uuids):
            served[container] = tuple(sorted({*served.get(container, ()), *uuids}))
    return dict(sorted(served.items()))


def _differs(assigned: Assignment, real: Assignment) -> bool:
    return {name: set(uuids) for name, uuids in assigned.items()} != {
        name: set(uuids) for name, uuids in real.items()
    }
