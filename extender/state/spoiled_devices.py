"""Devices that were given to two claims, and that kube-scheduler knows to give to nobody any more.

The controller writes a DeviceTaintRule for each. Only then may filter refuse the pod that lost:
kube-scheduler takes the device out of its claim, counts it as free, and would give it to the next pod.
"""

from cluster.cache.store import Store
from cluster.objects.claims import KNOWN_AFTER, Place, TaintRule
from cluster.process.clock import Clock


class SpoiledDevices:
    """Since when rules stand, as far as this process has seen. Guarded by the cache's lock."""

    def __init__(self, rules: Store[TaintRule], clock: Clock, driver: str) -> None:
        """Args: rules: all DeviceTaintRules; driver: the name of our driver of claims."""
        self._clock, self._driver = clock, driver
        self._since: dict[Place, float] = {}
        rules.observe(self._change)

    def on(self, node: str) -> frozenset[str]:
        """Names of such devices of a node."""
        known = self._clock.monotonic() - KNOWN_AFTER
        return frozenset(
            device for (there, device), at in list(self._since.items()) if there == node and at <= known
        )

    def _change(self, _key: str, before: TaintRule | None, now: TaintRule | None) -> None:
        was, place = (rule.spoils(self._driver) if rule else None for rule in (before, now))
        if was and was != place:
            self._since.pop(was, None)
        if place:
            self._since.setdefault(place, self._clock.monotonic())
