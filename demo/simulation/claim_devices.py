"""What claims need in the API server: the slice of a node, the class, and templates."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES
from cluster.objects.inventory import Device, Sharing

Json = dict[str, Any]

CLASS: Final = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
"""The expression of the DeviceClass for whole GPUs."""


def claimed(device: Device, *, shared: bool = False) -> Device:
    """A GPU as the agent publishes it where GPUs are given by claims, which can be booked."""
    return msgspec.structs.replace(
        device,
        model=f"{device.model}{names.CLAIMED_MODEL}",
        resource=names.CLAIM_RESOURCE,
        claimed_as=f"gpu-{device.index}",
        share=Sharing(slots=16, memory=device.memory) if shared else None,
    )


def publish(kube: Kube, node: str, devices: Iterable[Device], *, shared: bool = False) -> None:
    """Create the ResourceSlice of a node; ``shared``: several claims may have a device."""
    kube.create(RESOURCE_SLICES, slice_of(node, devices, shared=shared))


def slice_of(node: str, devices: Iterable[Device], *, shared: bool = False) -> Json:
    """The ResourceSlice of a node."""
    entries = [
        {
            "name": device.claimed_as,
            "attributes": {"type": {"string": "gpu"}, "uuid": {"string": device.uuid}},
            "capacity": {"memory": {"value": str(device.memory * 2**20)}},
            **({"allowMultipleAllocations": True} if shared else {}),
        }
        for device in devices
    ]
    spec = {"driver": names.DRA_DRIVER, "nodeName": node, "pool": {"name": node}, "devices": entries}
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def add_class(kube: Kube) -> None:
    """Create the DeviceClass, as the chart does."""
    spec = {"selectors": [cel(CLASS)]}
    kube.create(DEVICE_CLASSES, {"metadata": {"name": names.DRA_DRIVER}, "spec": spec})


def template(kube: Kube, name: str, namespace: str, *expressions: str, count: int = 1) -> None:
    """Create a template of a claim for GPUs that satisfy these expressions."""
    spec = {"spec": claim_spec(*expressions, count=count)}
    kube.create(CLAIM_TEMPLATES, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)


def claim_spec(*expressions: str, count: int = 1) -> Json:
    """``spec`` of a claim."""
    exactly = {
        "deviceClassName": names.DRA_DRIVER,
        "count": count,
        "selectors": [cel(one) for one in expressions],
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def cel(expression: str) -> Json:
    """A selector of a device."""
    return {"cel": {"expression": expression}}
