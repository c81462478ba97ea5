"""Pods that have other devices than they were assigned: what the Node's drift annotation says, pure.

Used by ``publish``. Where the kubelet has given other devices than the extender chose, what is written on the
pod is wrong, and cannot be corrected there: the Node's annotation wins over it (law L1).
"""

from collections.abc import Iterable

from cluster.objects.assignment import Assignment, readable_assignment_of
from cluster.objects.pods import Pod, is_terminal
from deviceplugin.allocation.pod_devices import PodDevices


def drift(pods: Iterable[Pod], holdings: PodDevices) -> dict[str, Assignment]:
    """Pod uid -> what the pod really has, for living pods where that differs from the assignment.

    A container that has not been served yet is taken to get what was assigned to it.
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
        # Containers are served one resource after the other: what has not come yet is taken to come.
        if len(served.get(container, ())) < len(uuids):
            served[container] = tuple(sorted({*served.get(container, ()), *uuids}))
    return dict(sorted(served.items()))


def _differs(assigned: Assignment, real: Assignment) -> bool:
    return {name: set(uuids) for name, uuids in assigned.items()} != {
        name: set(uuids) for name, uuids in real.items()
    }
