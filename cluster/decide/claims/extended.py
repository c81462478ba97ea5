"""What a pod asks for by extended resources that Kubernetes satisfies by a claim. Pure.

kube-scheduler makes that claim in its memory, and writes it together with its allocation when it binds the
pod: so it tolerates nothing that is kept, and no device can be kept for it. Source: Kubernetes 1.37
(pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from cluster import claim_names
from cluster.decide.claims.requested import Extended, is_of_driver
from cluster.objects.claims import (
    ClaimSpec,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    RequestedDevices,
    ResourceClaim,
)
from cluster.objects.demand import demand
from cluster.objects.pods import Pod, extended_needs

INSTEAD: Final = (
    "A pod that names a ResourceClaim or a ResourceClaimTemplate of the same DeviceClass"
    " (`spec.resourceClaims`) can use a booking of GPUs by claims."
)
"""What to write in place of such a resource."""
ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


def class_of(resource: str, classes: Iterable[DeviceClass]) -> DeviceClass | None:
    """The DeviceClass whose devices an extended resource gives; None for one that no class is for.

    Of several classes that name it the newest counts, as in kube-scheduler.
    """
    called = resource.removeprefix(claim_names.CLASS_RESOURCE_PREFIX)
    if called != resource:
        return next((one for one in classes if one.metadata.name == called), None)
    found = sorted(
        (one for one in classes if one.spec.extended_resource_name == resource),
        key=lambda one: one.metadata.name,
    )
    return max(found, key=lambda one: one.metadata.creation_timestamp or ALWAYS, default=None)


def is_by_claim(pod: Pod, classes: Mapping[str, DeviceClass]) -> bool:
    """Whether it asks by an extended resource for devices of any class, whichever driver's they are.

    A name with Kubernetes' own prefix is for nothing else, also while its class does not exist.
    """
    wanted = {need.resource for need in extended_needs(pod)}
    return any(
        one.startswith(claim_names.CLASS_RESOURCE_PREFIX) or class_of(one, classes.values()) for one in wanted
    )


def unbookable(resources: Sequence[str]) -> str:
    """Why no booking covers a pod that asks by these extended resources, a sentence without its end."""
    return (
        f"It asks by {' and '.join(resources)}, for which Kubernetes makes a claim only when it binds the"
        " pod, so no booking covers it and nothing can be kept for it"
    )


def extended_of(
    pod: Pod, classes: Mapping[str, DeviceClass], driver: str, made: ResourceClaim | None
) -> Extended | None:
    """What a pod asks for by extended resources, as a claim; None if that is no device of a driver.

    Args:
        pod: any pod.
        classes: name -> DeviceClass.
        driver: whose devices count.
        made: the claim that kube-scheduler has made for it; None before that.
    """
    status = pod.status.extended_resource_claim_status
    mapped = {one.resource_name for one in (status and status.request_mappings) or ()} if made else set()
    amounts = demand(extended_needs(pod))
    of_class = {
        resource: known
        for resource in sorted({*amounts, *mapped})
        if (known := class_of(resource, classes.values())) and is_of_driver(known.spec.selectors, driver)
    }
    if made:
        return Extended(tuple(of_class) or tuple(sorted(mapped)), made)
    requests = tuple(
        DeviceRequest(
            name=resource,
            exactly=ExactRequest(device_class_name=known.metadata.name, count=amounts[resource]),
        )
        for resource, known in of_class.items()
    )
    spec = ClaimSpec(devices=RequestedDevices(given=requests))
    return Extended(tuple(of_class), ResourceClaim(spec=spec)) if requests else None
