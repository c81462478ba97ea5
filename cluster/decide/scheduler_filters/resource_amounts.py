"""What pods request and nodes have, in whole units: thousandths of a core, bytes, pieces.

Source: kube-scheduler 1.37, NodeResourcesFit; KEP-753 (sidecars), KEP-2837 (resources of a whole pod).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from cluster import names
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import QuantityError, parse_amount

Amounts = tuple[tuple[str, int], ...]
"""(resource, amount), sorted; resources with an amount of zero are left out."""

CPU: Final = "cpu"
PODS: Final = "pods"
_NANO: Final = 10**9
_OF_WHOLE_PODS: Final = (CPU, "memory", "hugepages-")
_SHARED: Final = 4096
"""Number of distinct texts and requests to cache: pods of one kind request the same."""


def requests(pod: Pod) -> Amounts:
    """What a node must have free for the pod; without GPUs, which are counted by device."""
    total = _sum(pod.spec.containers or ())
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for one in pod.spec.init_containers or ():
        if one.is_sidecar:
            _add(total, one)
            _add(sidecars, one)
            _raise(peak, sidecars)
        else:
            _raise(peak, _sum((one,), sidecars))
    _raise(total, peak)
    requests = (pod.spec.resources.requests if pod.spec.resources else None) or {}
    for name, text in requests.items():
        if name.startswith(_OF_WHOLE_PODS):
            total[name] = nano(str(text))
    for name, text in (pod.spec.overhead or {}).items():
        total[name] = total.get(name, 0) + nano(str(text))
    return _shared(tuple(sorted(total.items())))


@lru_cache(maxsize=_SHARED)
def _shared(total: Amounts) -> Amounts:
    kept = ((name, units(name, amount)) for name, amount in total if not _is_counted_by_device(name))
    return tuple((name, amount) for name, amount in kept if amount > 0)


def _is_counted_by_device(name: str) -> bool:
    return names.is_gpu_resource(name) or names.is_gpu_amount(name)


def units(name: str, amount: int) -> int:
    """Billionths of a resource converted to the units in which it is counted, rounded up."""
    unit = _NANO // 1000 if name == CPU else _NANO
    return -(-amount // unit)


@lru_cache(maxsize=_SHARED)
def capacity(name: str, text: str | int) -> int:
    """An amount in a node's ``allocatable``, in the units in which the resource is counted."""
    return units(name, nano(str(text)))


@lru_cache(maxsize=_SHARED)
def nano(text: str) -> int:
    """A quantity in billionths; 0 if it cannot be read, which the API server refuses."""
    try:
        return int(parse_amount(text) * _NANO)
    except QuantityError:
        return 0


def _sum(containers: Iterable[Container], start: Mapping[str, int] | None = None) -> dict[str, int]:
    total = dict(start or {})
    for one in containers:
        _add(total, one)
    return total


def _add(total: dict[str, int], container: Container) -> None:
    requests = (container.resources.requests if container.resources else None) or {}
    for name, text in requests.items():
        total[name] = total.get(name, 0) + nano(str(text))


def _raise(total: dict[str, int], least: Mapping[str, int]) -> None:
    """Raise each amount in ``total`` to at least that in ``least``."""
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
