"""What people are told of a namespace's quota on GPUs. Pure.

A quota counts pods when they are created, before any scheduler sees them: where pods without a booking have
used it up, a booked pod never exists, and no GPU can be taken back for it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from booking import wording
from cluster import names
from cluster.decide.gpu_quotas import gpu_quotas
from cluster.objects.resource_quotas import ResourceQuota

REMEDY: Final = (
    "An administrator can limit the quota to pods without a booking"
    f" (scopeSelector, PriorityClass {names.OPPORTUNISTIC_CLASS}): then it never refuses a booked pod."
)

_UNITS: Final = {names.GPU_RESOURCE: "GPU", names.SHARED_RESOURCE: "shared GPU"}
"""Resource -> what people call one of it; others are called by their names."""


def warnings(
    quotas: Iterable[ResourceQuota],
    *,
    namespace: str,
    count: int,
    own: int,
    resource: str = names.GPU_RESOURCE,
) -> Iterator[str]:
    """Warnings about a booking whose pods a quota may refuse.

    Args:
        quotas: of the booking's namespace.
        namespace: the only one whose pods the booking covers.
        count: GPUs of the booking.
        own: GPUs that the user's pods in the namespace request now: the booking may cover these.
        resource: under which pods request what is booked.
    """
    unit = _UNITS.get(resource, f"{resource} device")
    for quota in gpu_quotas(quotas, names.BOOKED_CLASS):
        if quota.resource != resource:
            continue
        others = max(0, quota.used - own)
        limit = (
            f"The ResourceQuota {quota.name} lets pods of the namespace {namespace} request"
            f" {wording.counted(quota.most, unit)}"
        )
        if count > quota.most:
            yield (
                f"{limit} in all, fewer than the {count} of this booking: pods that request more are refused"
                f" when they are created. {REMEDY}"
            )
        elif count > quota.most - others:
            yield (
                f"{limit}, and other pods use {others} of them now: while they do, pods of this booking can"
                f" request {max(0, quota.most - others)} of its {wording.counted(count, unit)}, and further"
                f" ones are refused when they are created. {REMEDY}"
            )


def used_up(quotas: Iterable[ResourceQuota], namespace: str) -> str:
    """The message that no pod with a GPU can be created in the namespace now; empty if one can."""
    found = [quota for quota in gpu_quotas(quotas, names.BOOKED_CLASS) if not quota.left]
    if not found:
        return ""
    full = sorted({quota.name for quota in found})
    lacking = sorted({_UNITS.get(quota.resource, quota.resource) for quota in found})
    noun = "ResourceQuota" if len(full) == 1 else "ResourceQuotas"
    verb = "has" if len(full) == 1 else "have"
    return (
        f"The {noun} {wording.listed(full)} of the namespace {namespace} {verb} no"
        f" {' and no '.join(lacking)} left, so a pod that requests one is refused when it is created."
        f" {REMEDY}"
    )
