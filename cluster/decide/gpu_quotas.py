"""Which ResourceQuotas of a namespace limit the GPUs of pods of a priority class, and what is left. Pure.

A scope that depends on more of a pod than its class counts as one that does not apply: nobody is warned in
vain.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.objects.quantity import QuantityError, parse_count
from cluster.objects.resource_quotas import ResourceQuota, ScopeRequirement

_REQUESTS: Final = names.GPU_QUOTA.removesuffix(names.GPU_RESOURCE)
"""What a quota puts before the name of an extended resource."""
_PRIORITY_CLASS: Final = "PriorityClass"
_USUAL: Final = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes of pods without a deadline, and of pods that request CPUs or memory."""


@dataclass(frozen=True, slots=True)
class GpuQuota:
    """A quota on GPUs, or on MIG devices of one profile."""

    name: str
    most: int
    """GPUs that its pods may request together."""
    used: int
    resource: str = names.GPU_RESOURCE

    @property
    def left(self) -> int:
        """GPUs that further pods may request."""
        return max(0, self.most - self.used)


def gpu_quotas(quotas: Iterable[ResourceQuota], priority_class: str) -> Iterator[GpuQuota]:
    """The quotas that limit the GPUs of pods of this priority class."""
    for quota in quotas:
        if not _applies(quota, priority_class):
            continue
        for key, most in sorted((quota.status.hard or {}).items()):
            resource = key.removeprefix(_REQUESTS)
            if resource == key or not names.is_gpu_resource(resource):
                continue
            try:
                used = parse_count((quota.status.used or {}).get(key, "0"))
                yield GpuQuota(quota.metadata.name, parse_count(most), used, resource)
            except QuantityError:
                continue


def _applies(quota: ResourceQuota, priority_class: str) -> bool:
    selector = quota.spec.scope_selector
    wanted = (selector.match_expressions or ()) if selector else ()
    scopes = (ScopeRequirement(scope_name=scope, operator="Exists") for scope in quota.spec.scopes or ())
    return all(_matches(each, priority_class) for each in (*scopes, *wanted))


def _matches(requirement: ScopeRequirement, priority_class: str) -> bool:
    if requirement.scope_name != _PRIORITY_CLASS:
        return requirement.scope_name in _USUAL and requirement.operator == "Exists"
    is_named = priority_class in (requirement.values or ())
    return {"In": is_named, "NotIn": not is_named, "Exists": True}.get(requirement.operator, False)
