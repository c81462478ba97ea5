"""The devices that the kubelet recorded in a pod's status, ``allocatedResourcesStatus`` (KEP-4680)."""

from typing import Final

import msgspec

from cluster.kube.resources import PODS, Resource
from cluster.objects.meta import Meta, Partial


class RecordedDevice(Partial, frozen=True):
    """One device of a container."""

    resource_id: str = msgspec.field(name="resourceID", default="")


class RecordedResource(Partial, frozen=True):
    """One resource, and the devices of it that the container was given."""

    name: str = ""
    resources: tuple[RecordedDevice, ...] = ()


class RecordedContainer(Partial, frozen=True):
    """One entry of ``status.containerStatuses``."""

    name: str = ""
    allocated_resources_status: tuple[RecordedResource, ...] = ()


class RecordedStatus(Partial, frozen=True):
    """``status`` of the pod."""

    container_statuses: tuple[RecordedContainer, ...] = ()


class RecordedPod(Partial, frozen=True):
    """A Pod, of which only the recorded devices matter."""

    metadata: Meta = Meta()
    status: RecordedStatus = RecordedStatus()


RECORDED_PODS: Final = Resource(
    group=PODS.group,
    version=PODS.version,
    plural=PODS.plural,
    kind=PODS.kind,
    namespaced=PODS.namespaced,
    type=RecordedPod,
)
