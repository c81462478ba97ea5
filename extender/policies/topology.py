"""Topology: prefer devices that are joined by NVLink and on one NUMA node, and do not break up linked sets.

``placement`` determines which devices the pod would get. Promise: fewer pairs of them without a link, fewer
links between them and devices that stay free, fewer pairs across NUMA nodes, all else equal, is never worse.
The highest score means devices that are all linked, on one NUMA node, with no linked device left free. Pods
with shares are placed as by binpack.

Finding out which devices belong together takes a fraction of a millisecond, and there are many nodes; but
most have the same shape. So nodes of one shape with the same devices free are scored once.
"""

from functools import lru_cache
from itertools import combinations, product
from typing import Final

from cluster.decide.available import available, largest_set, matching, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.node_shape import NodeShape
from cluster.decide.ledger.view import ByModel, view_of
from cluster.decide.placement import choose
from cluster.decide.request import GpuRequest
from cluster.objects.assignment import devices_of
from cluster.objects.device_selector import DeviceSelector
from cluster.objects.inventory import Device, nvlinks
from cluster.objects.pods import ContainerNeed
from extender.policies import Reserved
from extender.policies.binpack import binpack
from extender.wire import MAX_SCORE

APART: Final = 5
"""Points deducted if no two of the devices are linked."""
TORN: Final = 3
"""Points deducted if all devices that stay free are linked with all of the devices."""
FAR: Final = 2
"""Points deducted if no two of the devices are on one NUMA node."""
CASES: Final = 10_000
"""Scores that are cached: a few kinds of machines, each with many ways to be half full."""

Ordinals = tuple[int, ...]
Case = tuple[tuple[str, int, Ordinals, Ordinals], ...]
"""For each resource: its name, the number that the pod needs, the free devices that it accepts, and all free
ones: links to all of them count."""


def topology(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """10 minus the deductions for the devices that the pod would get; 0 if it does not fit."""
    if shares_on(request, view):
        return binpack(request, view, reserved)  # links mean nothing to pods that share
    if not request.demand:
        return 0
    case: list[tuple[str, int, Ordinals, Ordinals]] = []
    for resource, needed in request.demand.items():
        free = available(request, view, resource)
        fits = _ordinals(matching(free, request.selector), view)
        if largest_set(free, request) < needed:
            return 0
        case.append((resource, needed, fits, _ordinals(free, view)))
    return _score(view.shape, tuple(case))


def _ordinals(free: ByModel, view: NodeView) -> Ordinals:
    ordinals = view.ordinals
    return tuple([ordinals[device.uuid] for found in free.values() for device in found])


@lru_cache(CASES)
def _score(shape: NodeShape, case: Case) -> int:
    """The score of every node of this shape with the same devices free."""
    free = [shape.devices[ordinal] for *_, ordinals in case for ordinal in ordinals]
    fits = [shape.devices[ordinal] for _, _, ordinals, _ in case for ordinal in ordinals]
    uuids = _chosen(case, free, fits)
    taken = [device for device in free if device.uuid in uuids]
    left = [device for device in free if device.uuid not in uuids]
    pairs = list(combinations(taken, 2))
    wrong = (
        _part(APART, sum(not nvlinks(a, b) for a, b in pairs), len(pairs))
        + _part(TORN, sum(nvlinks(a, b) > 0 for a, b in product(taken, left)), len(taken) * len(left))
        + _part(FAR, sum(not _near(a, b) for a, b in pairs), len(pairs))
    )
    return MAX_SCORE - wrong


def _chosen(case: Case, free: list[Device], fits: list[Device]) -> frozenset[str]:
    """The devices a pod would get on a node that has only these free ones."""
    request = GpuRequest(
        needs=tuple(
            ContainerNeed(name=resource, kind="app", resource=resource, count=needed)
            for resource, needed, _, _ in case
        ),
        demand={resource: needed for resource, needed, _, _ in case},
        selector=DeviceSelector(uuids=frozenset(device.uuid for device in fits)),
    )
    return devices_of(choose(request, view_of("", devices=tuple(free), fault=None, holdings=(), on_hold={})))


def _part(points: int, found: int, possible: int) -> int:
    """A share of the points, rounded up: any fault costs at least one."""
    return -(-points * found // possible) if possible else 0


def _near(one: Device, other: Device) -> bool:
    return one.numa is not None and one.numa == other.numa
