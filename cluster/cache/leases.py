"""Leases in the cache: signs of life of the node agents, and who holds the other Leases."""

from collections.abc import Sequence
from typing import ClassVar, Final

from cluster import names
from cluster.cache.store import Guard, Store
from cluster.decide.ledger.liveness import Liveness
from cluster.decide.renewals import Renewals
from cluster.kube.resources import LEASES
from cluster.objects.device_usage import OVER_USED
from cluster.objects.nodes import Lease
from cluster.process.clock import Clock


class _Leases(Store[Lease]):
    """Signs of life of one kind. They change all the time: watchers are not notified."""

    of_kubelet: ClassVar[bool]

    def __init__(self, guard: Guard, liveness: Liveness, clock: Clock) -> None:
        super().__init__(guard, LEASES, notifies=False)
        self._liveness = liveness
        self._clock = clock
        self.observe(self._count)

    def replace(self, items: Sequence[Lease], version: str = "", /) -> None:
        """All of them, as of this version: changes before this list may have been missed."""
        with self._guard.lock:
            self._liveness.expect_list(monotonic=self._clock.monotonic(), of_kubelet=self.of_kubelet)
            super().replace(items, version)

    def key(self, lease: Lease) -> str:
        """Its name: all are of one namespace."""
        return lease.metadata.name

    def _count(self, name: str, _before: Lease | None, lease: Lease | None) -> None:
        if lease is None:
            self._liveness.forget_lease(name, of_kubelet=self.of_kubelet)
        else:
            monotonic, now = self._clock.monotonic(), self._clock.now()
            self._liveness.apply_lease(lease, monotonic=monotonic, now=now)


class Leases(_Leases):
    """Name -> Lease of the product's namespace."""

    of_kubelet = False

    def __init__(self, guard: Guard, liveness: Liveness, clock: Clock) -> None:
        super().__init__(guard, liveness, clock)
        self.renewals: Final = Renewals()
        """Renewals of all of them."""
        self.uses: Final[dict[str, str]] = {}
        """Node -> how its GPUs are used, by its agent's Lease (``cluster.objects.device_usage``)."""
        self.over_used: Final[dict[str, str]] = {}
        """Those of ``uses`` that name a pod which uses more of a GPU than its share."""

    def _count(self, name: str, before: Lease | None, lease: Lease | None) -> None:
        text = lease.metadata.annotation(names.USE) if lease else None
        node = names.node_of_lease(name)
        if node and text:
            self.uses[node] = text
        elif node:
            self.uses.pop(node, None)
        if node and text and OVER_USED in text:
            self.over_used[node] = text
        elif node:
            self.over_used.pop(node, None)
        super()._count(name, before, lease)
        if lease is None:
            self.renewals.forget_lease(name)
        else:
            monotonic, now = self._clock.monotonic(), self._clock.now()
            self.renewals.apply_lease(lease, monotonic=monotonic, now=now)


class KubeletLeases(_Leases):
    """Node -> the Lease that its kubelet renews: a sign of life where no agent of ours runs (law L6)."""

    of_kubelet = True
