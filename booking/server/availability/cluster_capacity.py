"""The capacity of a cluster at one instant: which devices are usable, and where bookings' pods run. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from booking.eviction.maia_grants import granted_until
from booking.eviction.settings import EvictionSettings
from booking.server.capacity.capacity import Capacity, Grant
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, bookable_devices, node_supply
from cluster.decide.ledger import NodeView
from cluster.objects.inventory import Device, Sharing

PAUSE: Final = timedelta(minutes=15)
"""How long nothing new is guaranteed on a node whose agent is unresponsive: about what a machine needs
to reboot."""


def supply(instant: SupplySnapshot, terms: EvictionSettings) -> Capacity:
    """The capacity of the cluster."""
    devices: dict[str, dict[str, int]] = {}
    grants: dict[str, list[Grant]] = {}
    pauses: dict[str, list[Grant]] = {}
    pins: dict[str, dict[str, int]] = {}
    resources: dict[str, Counter[str]] = {}
    for name, view in sorted(instant.views.items()):
        one = node_supply(view, instant)
        for model, count in one.devices.items():
            devices.setdefault(model, {})[name] = count
        for model, resource in one.resources.items():
            resources.setdefault(model, Counter())[resource] += 1
        for booking, count in one.pins.items():
            pins.setdefault(booking, {})[name] = count
        for model, grant in _granted(view, one.models, instant, terms):
            grants.setdefault(model, []).append(grant)
        for model, pause in _paused(view, one, instant):
            pauses.setdefault(model, []).append(pause)
    return Capacity(
        devices=devices,
        grants=_fixed(grants),
        pins=pins,
        resources={model: _most_frequent(found) for model, found in resources.items()},
        memories=_offered(instant.views.values(), lambda share: share.memory),
        slots=_offered(instant.views.values(), lambda share: share.slots),
        unmeasured=frozenset(
            model for view in instant.views.values() for model, device in _whole(view) if not device.memory
        ),
        pauses=_fixed(pauses),
    )


def _offered(views: Iterable[NodeView], amount: Callable[[Sharing], int]) -> dict[str, int]:
    """Model -> what each device offers to shares; a model with a device that offers none is left out.

    A lane may get any device of its model. One that another plugin gives out is shared while a reservation
    pod has it, and cannot be promised.
    """
    offered: dict[str, set[int]] = {}
    for view in views:
        for model, device in _whole(view):
            share = device.share if device.memory and not device.numbered else None
            offered.setdefault(model, set()).add(amount(share) if share and share.slots else 0)
    return {model: least for model, some in offered.items() if (least := min(some))}


def _whole(view: NodeView) -> Iterator[tuple[str, Device]]:
    """(model, device) of each healthy GPU of a node that a booking could have as a whole."""
    for model, device in () if view.fault else bookable_devices(view.devices):
        if device.parent is None and device.is_healthy:
            yield model, device


def _most_frequent(counts: Counter[str]) -> str:
    return min(counts, key=lambda one: (-counts[one], one))


def _granted(
    view: NodeView, models: Mapping[str, str], instant: SupplySnapshot, terms: EvictionSettings
) -> Iterator[tuple[str, Grant]]:
    for holding in view.holdings if terms.maia else ():
        pod = instant.pods.get(holding.uid)
        until = granted_until(pod, terms) if pod and holding.uid not in instant.cover else None
        if until is None or until <= instant.now:
            continue
        for uuid in holding.devices:
            if model := models.get(uuid):
                yield model, Grant(node=view.name, count=1, until=until)


def _paused(view: NodeView, one: NodeSupply, instant: SupplySnapshot) -> Iterator[tuple[str, Grant]]:
    """Devices that no booked pod holds, while their node's agent is unresponsive."""
    if view.name not in instant.quiet:
        return
    booked = {uuid for holding in view.holdings if holding.uid in instant.cover for uuid in holding.devices}
    used = Counter(model for uuid, model in one.models.items() if uuid in booked)
    for model, count in one.devices.items():
        if count > used[model]:
            yield model, Grant(node=view.name, count=count - used[model], until=instant.now + PAUSE)


def _fixed(found: Mapping[str, list[Grant]]) -> dict[str, tuple[Grant, ...]]:
    return {model: tuple(some) for model, some in found.items()}
