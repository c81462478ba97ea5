"""The devices that a kubelet says it gave to a pod, in the pod's status. Pure, and for people alone.

``status.containerStatuses[].allocatedResourcesStatus`` holds ``{"name": "nvidia.com/gpu", "resources":
[{"resourceID": "GPU-...", "health": "Healthy"}]}``. Kubelets and API servers have it from 1.36 on, and from
1.31 behind the gate ResourceHealthStatus; where it is missing nothing is told.
"""

from collections.abc import Iterable, Mapping

from cluster import names
from cluster.objects.pods import Pod
from cluster.objects.slots import physical

UNHEALTHY = "Unhealthy"


def given_devices(pod: Pod) -> dict[str, bool]:
    """UUID -> whether its device plugin thinks it healthy, of all containers; empty if nothing is told."""
    status = pod.status
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    return {
        physical(one.resource_id): one.health != UNHEALTHY
        for each in statuses
        for resource in each.allocated_resources_status or ()
        if names.is_gpu_resource(resource.name.removesuffix(names.SHARED_SUFFIX))
        for one in resource.resources or ()
    }


def as_numbered(numbers: Iterable[str], given: Iterable[str]) -> Mapping[str, str]:
    """Numbered GPU -> the UUID of a pod that is shown under it: the kubelet knows no numbers."""
    return dict(zip(sorted(numbers), sorted(given), strict=False))
