"""A reclaimer whose watches report everything late, twice, pods in another order, or only by the next list.

The choice of victims is pure: a snapshot goes in, a plan comes out. It is given the cache behind
the snapshot, which gets its events here as from reflectors. Nodes and Bookings come in their order, older
states again and again; pods in any order, since what the reclaimer has read or written by itself is ahead of
the watch. Leases come at once: how late ones count is ``cluster.decide.observed_renewal``'s to say, which
has tests of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cluster.cache.informers import LIVING
from cluster.kube.interface import Selection
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from tests.properties.channel import Channel
from tests.properties.history import Machine, Pick, step
from tests.properties.random_cluster import RandomCluster
from tests.properties.watched_cache import views


class WatchedCluster(RandomCluster):
    """A cluster of which the reclaimer knows what its watches have reported."""

    channels: dict[str, Channel] | None = None

    def restart(self) -> None:
        super().restart()
        for channel in (self.channels or {}).values():
            channel.close()
        cache = self.cache
        self.channels = {
            "nodes": Channel(self.kube, NODES, cache.of(NODES)),
            "leases": Channel(self.kube, LEASES, cache.of(LEASES)),
            "bookings": Channel(self.kube, BOOKINGS, cache.of(BOOKINGS)),
            "pods": Channel(self.kube, PODS, cache.of(PODS), Selection(field_selector=LIVING)),
        }

    @property
    def late(self) -> dict[str, Channel]:
        """Those that are late."""
        return {kind: channel for kind, channel in (self.channels or {}).items() if kind != "leases"}

    def sync(self) -> None:
        """Everything is listed."""
        for channel in (self.channels or {}).values():
            channel.list()

    def renew_lease(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        super().renew_lease(name, annotations)
        self.deliver_leases()

    def stop_agent(self, node: str) -> None:
        super().stop_agent(node)
        self.deliver_leases()

    def deliver_leases(self) -> None:
        """All that was written on them is delivered."""
        leases = (self.channels or {}).get("leases")
        while leases and leases.sent:
            leases.deliver()


class ReclaimerWatches(Machine):
    """What a reclaimer's watches do; ``cluster`` is where."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = WatchedCluster()

    @step(6)
    def the_watch_delivers(self, pick: Pick) -> str:
        deliveries = (self._deliver(pick) for _ in range(pick.between(1, 4)))
        return "; ".join(deliveries)

    def _deliver(self, pick: Pick) -> str:
        pending = [kind for kind, channel in self.cluster.late.items() if channel.sent]
        if not pending:
            return "nothing is new"
        kind = pick.one(pending)
        channel = self.cluster.late[kind]
        return channel.deliver(pick.between(0, len(channel.sent) - 1) if kind == "pods" else 0)

    @step(2)
    def it_repeats_an_event(self, pick: Pick) -> str:
        channel = pick.one([*(self.cluster.channels or {}).values()])
        return channel.say(pick.one(channel.delivered)) if channel.delivered else "nothing was delivered"

    @step(2)
    def late_events_are_lost(self, pick: Pick) -> str:
        pending = [channel for channel in self.cluster.late.values() if channel.sent]
        return str(pick.one(pending).lose() if pending else 0)

    @step(3)
    def a_pass_when_all_was_delivered(self, pick: Pick) -> str:
        """In whatever order, and some of it twice: the cache is what a list would have made of it."""
        deliveries = []
        for channel in self.cluster.late.values():
            if channel.has_gap:
                channel.list()
        while any(channel.sent for channel in self.cluster.late.values()):
            deliveries.append(self._deliver(pick))
        again = [self.it_repeats_an_event(pick) for _ in range(pick.between(0, 6))]
        self._compare()
        return f"{len(deliveries)} events, {len(again)} again; {self._pass_after_events(pick)}"

    def _pass_after_events(self, pick: Pick) -> str:
        raise NotImplementedError

    def _compare(self) -> None:
        """What the reclaimer knows by its watches is what is there."""
        cluster = self.cluster
        known, true, now = cluster.cache, cluster.truth(), cluster.clock.now()
        nodes = sorted(true.nodes)
        assert views(known, nodes) == views(true, nodes)
        assert [agent for _, agent in known.snapshot(nodes)] == [agent for _, agent in true.snapshot(nodes)]
        kinds: tuple[Callable[[Any], Any], ...] = (
            lambda cache: cache.pods,
            lambda cache: cache.annotated,
            lambda cache: cache.nodes,
            lambda cache: cache.bookings,
            lambda cache: cache.cover(now),
        )
        for kind in kinds:
            assert kind(known) == kind(true)
