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

_PRIORITY_CLASS: Final = "PriorityClass"
_USUAL: Final = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes of pods without a deadline, and of pods that request CPUs or memory."""


@dataclass(frozen=True, slots=True)
class GpuQuota:
    """A quota on GPUs."""

    name: str
    most: int
    """GPUs that its pods may request together."""
    used: int

    @property
    def left(self) -> int:
        """GPUs that further pods may request."""
        return max(0, self.most - self.used)


def gpu_quotas(quotas: Iterable[ResourceQuota], priority_class: str) -> Iterator[GpuQuota]:
    """The quotas that limit the GPUs of pods of this priority class."""
    for quota in quotas:
        most = (quota.status.hard or {}).get(names.GPU_QUOTA)
        if most is None or not _applies(quota, priority_class):
            continue
        try:
            used = parse_count((quota.status.used or {}).get(names.GPU_QUOTA, "0"))
            yield GpuQuota(quota.metadata.name, parse_count(most), used)
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
