"""Which devices of a node a pod gets, and which container gets which.

Deterministic: equal pods on equal nodes get equal answers. Devices of one model are preferred; among models
the one with the fewest free devices (so that larger groups stay whole), then devices joined by NVLink, then
those on one NUMA node, then the lowest index. A single device is taken where it breaks up the fewest links.
A pod with a hold has no choice: it gets the devices of its hold. ``shares`` has the rule for shares of GPUs.

Which devices are closest depends on the shape of the node, and on which of them are free: it is found out
once for all nodes that are built alike.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from cluster import names
from cluster.decide.available import available, matching, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import Holding
from cluster.decide.ledger.node_shape import NodeShape
from cluster.decide.ledger.view import ByModel
from cluster.decide.request import GpuRequest
from cluster.decide.shares import Shared, place, rooms
from cluster.objects.assignment import Assignment, devices_of
from cluster.objects.inventory import Device, nvlinks_to
from cluster.objects.pods import ContainerNeed

Source = Callable[[str, int], Iterable[str]]
"""``(resource, amount)`` -> that many devices that the pod does not have yet."""
CASES: Final = 10_000
"""Choices that are cached: a few kinds of machines, each with many ways to be half full."""


class NoPlaceError(Exception):
    """The pod does not fit on the node; ``predicates.rejection`` says why."""


def choose(request: GpuRequest, view: NodeView) -> Assignment:
    """Choose devices for every container of the pod.

    Raises:
        NoPlaceError: there are fewer free devices than the pod needs.
    """
    if shares_on(request, view):
        return choose_shares(request, view).assignment
    chosen = {
        resource: iter(
            _pick(
                matching(available(request, view, resource), request.selector),
                needed,
                view,
                mixes=request.mixes,
            )
        )
        for resource, needed in request.demand.items()
    }
    return device_reuse(
        request.needs, lambda resource, amount: [next(chosen[resource]).uuid for _ in range(amount)]
    )


def choose_shares(request: GpuRequest, view: NodeView) -> Shared:
    """Choose GPUs for a pod with shares.

    Raises:
        NoPlaceError: too few GPUs have room.
    """
    if len(request.demand) == 1 and not view.unknown.get(names.SHARED_RESOURCE):
        found = place(request, rooms(request, view), spare=view.unknown.get(request.resource, 0))
        if found:
            return found
    raise NoPlaceError("Too few GPUs have room for the shares.")


def would_hold(request: GpuRequest, view: NodeView) -> tuple[Holding, ...]:
    """What the pod would hold with the devices that are chosen for it.

    Raises:
        NoPlaceError: as for ``choose``.
    """
    if shares_on(request, view):
        return choose_shares(request, view).holdings
    return tuple(map(Holding, sorted(devices_of(choose(request, view)))))


def device_reuse(needs: tuple[ContainerNeed, ...], source: Source) -> Assignment:
    """Devices per container; new ones are taken from the source only if none can be reused.

    It replays the kubelet, so that the extender assigns what the kubelet will allocate. Source: its device
    manager 1.37.1 (``Allocate``, ``devicesToAllocate``): containers are served in the order init containers,
    then app containers; each takes devices that earlier regular init containers have left before it takes
    new ones; the devices of a regular init container may be used again, those of a sidecar or an app
    container may not.

    Args:
        needs: in the order in which the kubelet serves containers (``container_needs``).
        source: where new devices come from.
    """
    assignment: dict[str, tuple[str, ...]] = {}
    reusable: dict[str, tuple[str, ...]] = {}
    for need in needs:
        left = reusable.get(need.resource, ())
        again = left[: need.count]
        missing = need.count - len(again)
        fresh = tuple(source(need.resource, missing)) if missing else ()
        got = again + fresh
        # A regular init container adds its new devices to those left over; others keep what they take.
        reusable[need.resource] = left + fresh if need.kind == "init" else left[need.count :]
        assignment[need.name] = assignment.get(need.name, ()) + got
    return assignment


def _pick(free: ByModel, needed: int, view: NodeView, *, mixes: bool) -> list[Device]:
    groups = list(free.values())
    large_enough = [devices for devices in groups if len(devices) >= needed]
    if large_enough:
        fewest = min(large_enough, key=lambda devices: (len(devices), devices[0].model))
        return _together(fewest, needed, view)
    if not mixes:
        most = max(map(len, groups), default=0)
        raise NoPlaceError(f"{most} of {needed} devices of one model are free.")
    mixed: list[Device] = []
    for devices in sorted(groups, key=lambda devices: (-len(devices), devices[0].model)):
        mixed += _together(devices, min(len(devices), needed - len(mixed)), view)
    if len(mixed) < needed:
        raise NoPlaceError(f"{len(mixed)} of {needed} devices are free.")
    return mixed


def _together(devices: tuple[Device, ...], needed: int, view: NodeView) -> list[Device]:
    """The ``needed`` most closely linked devices, by index; a single one is that with the fewest links."""
    if needed in (0, len(devices)):
        return list(devices[:needed])
    ordinals = view.ordinals
    free = tuple([ordinals[device.uuid] for device in devices])
    return [devices[position] for position in _closest(view.shape, free, needed)]


@lru_cache(CASES)
def _closest(shape: NodeShape, free: tuple[int, ...], needed: int) -> tuple[int, ...]:
    """The positions, among the free devices of a shape, of those that lie together best."""
    devices = tuple(shape.devices[ordinal] for ordinal in free)
    if needed == 1:
        best = [min(devices, key=lambda device: (nvlinks_to(device, devices), device.index, device.uuid))]
    else:
        best = max((_grown(seed, devices, needed) for seed in devices), key=_closeness)
    return tuple(
        devices.index(device) for device in sorted(best, key=lambda device: (device.index, device.uuid))
    )


def _grown(seed: Device, devices: tuple[Device, ...], needed: int) -> list[Device]:
    """A set that starts with one device and adds the nearest other one until it is large enough."""
    grown = [seed]
    while len(grown) < needed:
        others = [device for device in devices if device not in grown]
        grown.append(max(others, key=lambda device: _nearness(device, grown)))
    return grown


def _nearness(device: Device, grown: list[Device]) -> tuple[int, int, int]:
    same_numa = sum(device.numa is not None and device.numa == other.numa for other in grown)
    return (nvlinks_to(device, grown), same_numa, -device.index)


def _closeness(grown: list[Device]) -> tuple[int, int, int]:
    links, numa, _ = map(sum, zip(*(_nearness(device, grown) for device in grown), strict=True))
    return (links, numa, -sum(device.index for device in grown))
