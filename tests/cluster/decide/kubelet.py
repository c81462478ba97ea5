"""A kubelet's device manager in a few lines: what it would do with a pod whose devices were assigned.

Written from its behaviour (1.37.1), on purpose without our own code: sets instead of order.
"""

from cluster.objects.assignment import Assignment
from cluster.objects.pods import Pod, container_needs


def check(pod: Pod, assignment: Assignment, resource_of: dict[str, str]) -> None:
    """Fail when the kubelet could not have given the containers these devices.

    Args:
        pod: the pod.
        assignment: what the extender has assigned.
        resource_of: device -> resource under which the plugin advertises it.
    """
    owned: set[str] = set()
    reusable: dict[str, set[str]] = {}
    for need in container_needs(pod):
        got = {uuid for uuid in assignment[need.name] if resource_of[uuid] == need.resource}
        left = reusable.setdefault(need.resource, set())
        assert len(got) == need.count, f"{need.name} gets as many devices as it asks for"
        assert len(got & left) == min(need.count, len(left)), f"{need.name} takes what is left first"
        assert not (got - left) & owned, f"{need.name} takes nothing that another container keeps"
        owned |= got
        if need.kind == "init":
            left |= got
        else:
            left -= got
