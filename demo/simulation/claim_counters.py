"""The shared counters of ResourceSlices as kube-scheduler counts them: what is left of them for devices."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cluster.objects.claims import ResourceSlice
from cluster.objects.quantity import parse_amount

Json = dict[str, Any]


class Counters:
    """The counters of the slices of one node."""

    def __init__(self, slices: Iterable[ResourceSlice], taken: Iterable[str]) -> None:
        """Args: taken: names of devices that claims have."""
        found = tuple(slices)
        self._left = _amounts((one["name"], one) for each in found for one in each.spec.shared_counters)
        taken = set(taken)
        for device in (one for each in found for one in each.spec.devices if one["name"] in taken):
            self._left.subtract(_consumed(device))

    def take(self, device: Json) -> bool:
        """Consume what a device does; returns whether as much was left. Without the set there is nothing."""
        wanted = _consumed(device)
        fits = all(self._left[counter] >= amount for counter, amount in wanted.items())
        if fits:
            self._left.subtract(wanted)
        return fits


def _consumed(device: Json) -> Counter[Any]:
    return _amounts((one["counterSet"], one) for one in device.get("consumesCounters") or ())


def _amounts(sets: Iterable[tuple[str, Json]]) -> Counter[Any]:
    """(set, counter) -> amount."""
    return Counter(
        {
            (of, name): parse_amount(str(one["value"]))
            for of, found in sets
            for name, one in found["counters"].items()
        }
    )
