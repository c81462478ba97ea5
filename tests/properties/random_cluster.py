"""A random cluster for the reclaimer: nodes, users, a scheduler, kubelets, failures; everything by steps.

Built on ``placement_check``: the real reclaimer over the API server in memory. The scheduler is played by
the code that really decides (``predicates``, ``placement``).
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from booking.controller.reclaimer.evictor import EvictionCause, always, nothing
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.informers import LIVING
from cluster.decide.node_fit import node_rejection
from cluster.decide.placement import choose
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.fake.merging import merged
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Selection
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.assignment import encode_assignment
from cluster.objects.inventory import Device, encode_inventory
from cluster.objects.pods import Pod, is_live, is_terminating
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster, FakeEvictor
from tests.fakes.objects import PodBuilder

MIRROR_STALE_AFTER: Final = 60.0
"""Seconds after which what the mirror said may not be true any more (law L6)."""
NOTICE: Final = 4
"""Seconds of notice: long enough for a hold to be dropped between notifying its victims and evicting them."""
RESTART: Final = 20
"""Seconds of each of its GPUs that starting again costs a victim."""
TERMS: Final = EvictionSettings(notice_seconds=NOTICE, restart_cost_seconds=RESTART)
TAINT: Final = {"key": "maintenance", "effect": "NoSchedule"}


class CheckedEvictor(FakeEvictor):
    """Checks, whenever a pod is evicted, whether it may be (law L2)."""

    def __init__(self, cluster: "RandomCluster") -> None:
        super().__init__(cluster.kube)
        self._cluster = cluster

    def evict(
        self,
        pod: Pod,
        why: EvictionCause,
        *,
        is_valid: Callable[[], bool] = always,
        about_to_check: Callable[[], None] = nothing,
    ) -> None:
        cluster = self._cluster
        assert cluster.leads, f"{pod.key} was {why.reason} by one that does not lead"
        assert cluster.unready_reason is None, f"{pod.key} was {why.reason} by one that knows too little"
        # A decision is judged by what its maker could see (ADR 17): events may be on their way.
        seen, true = (each.cover(cluster.clock.now()) for each in (cluster.cache, cluster.truth()))
        assert pod.metadata.uid not in seen.keys() & true.keys(), f"{pod.key} is booked"
        age = cluster.clock.monotonic() - cluster.mirrored_at
        assert why.reason != "ended" or age < MIRROR_STALE_AFTER, (
            f"{pod.key} was ended by what may not be true"
        )
        super().evict(pod, why, is_valid=is_valid, about_to_check=about_to_check)


class RandomCluster(FakeCluster):
    """The cluster, and short words for what happens in it."""

    def __init__(self) -> None:
        super().__init__(terms=TERMS)
        self.evictor = CheckedEvictor(self)
        self.restart()
        self.devices: dict[str, tuple[Device, ...]] = {}

    def mirror(self, *, well: bool) -> None:
        """Whether the Booking objects are said to be true from now on."""
        self._mirrored = well

    def renew_lease(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        super().renew_lease(name, annotations)
        if name == names.MIRROR_LEASE:
            self.mirrored_at = self.clock.monotonic()

    @property
    def responsive_nodes(self) -> frozenset[str]:
        """Nodes whose agents renew."""
        return frozenset(self._nodes)

    def truth(self) -> ClusterCache:
        """What the API server holds, read now."""
        mine, self.cache = self.cache, ClusterCache(self.clock)
        try:
            super().sync()
            return self.cache
        finally:
            self.cache = mine

    def instant(self) -> ReclaimerSnapshot:
        """What the API server holds, as a decision sees it."""
        return take(self.truth(), self.clock, TERMS)

    @property
    def version(self) -> str:
        """Of the newest write."""
        return self.kube.list(BOOKINGS).resource_version

    # --- pods ------------------------------------------------------------------------------------------
    def enter(self, builder: PodBuilder) -> None:
        """Somebody creates a pod."""
        created = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        self.kube.put(PODS, merged(builder.raw, {"metadata": {"creationTimestamp": created}}))

    def schedule(self) -> None:
        """The scheduler binds the pods that fit, booked ones first."""
        truth = self.truth()
        cover = truth.cover(self.clock.now())
        waiting = [p for p in truth.pods.values() if not p.spec.node_name and is_live(p)]
        for pod in sorted(waiting, key=lambda p: (p.metadata.uid not in cover, p.metadata.uid)):
            self._place(pod)

    def _place(self, pod: Pod) -> None:
        truth = self.truth()
        request = gpu_request_of(pod, truth.cover(self.clock.now()).get(pod.metadata.uid))
        for view, agent in truth.snapshot(sorted(truth.nodes)):
            if (
                node_rejection(pod, truth.nodes[view.name]) is None
                and rejection(request, view, agent) is None
            ):
                meta = pod.metadata
                given = {names.ASSIGNED: encode_assignment(choose(request, view))}
                identity = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
                body = {"metadata": {**identity, "annotations": given}, "target": {"name": view.name}}
                self.kube.create_subresource(PODS, "binding", body, name=meta.name, namespace=meta.namespace)
                return

    def run_kubelets(self) -> None:
        """Bound pods start, terminating ones end."""
        started = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for pod in self.kube.list(PODS, Selection(field_selector=LIVING)).items:
            meta = pod.metadata
            if is_terminating(pod):
                self.kube.finish(PODS, meta.name, namespace=meta.namespace)
            elif pod.spec.node_name and not pod.status.start_time:
                self.change(meta.name, {"status": {"phase": "Running", "startTime": started}})

    def change(self, name: str, more: dict[str, Any]) -> None:
        """Write something on a pod by hand."""
        self.kube.put(PODS, merged(self.kube.raw(PODS, name, namespace="default"), more))

    def delete(self, name: str) -> None:
        """Its user deletes a pod, if it is there."""
        try:
            self.kube.delete(PODS, name, namespace="default")
        except (Conflict, NotFound):
            return

    def living(self) -> list[Pod]:
        """Pods that are neither gone nor over."""
        return list(self.kube.list(PODS, Selection(field_selector=LIVING)).items)

    # --- nodes -----------------------------------------------------------------------------------------
    def settle_node(self, name: str, devices: tuple[Device, ...]) -> None:
        """A node with these devices, its agent well."""
        self.devices[name] = devices
        self.add_node(name, *devices)

    def publish(self, name: str, devices: tuple[Device, ...]) -> None:
        """The agent reports something else about its devices."""
        self.devices[name] = devices
        self.change_node(name, {"metadata": {"annotations": {names.INVENTORY: encode_inventory(devices)}}})

    def change_node(self, name: str, more: dict[str, Any]) -> None:
        """Somebody writes on a node."""
        self.kube.put(NODES, merged(self.kube.raw(NODES, name), more))

    def close_node(self, name: str, how: str) -> None:
        """It is cordoned or tainted, or neither."""
        spec = {"unschedulable": how == "cordoned" or None, "taints": [TAINT] if how == "tainted" else None}
        self.change_node(name, {"spec": spec})

    def pass_time(self, seconds: float) -> None:
        """Time goes by; who is well renews."""
        self.clock.advance(seconds)
        self.renew()

    def release(self, name: str) -> None:
        """A booking is over with this moment."""
        try:
            self.end_booking(name, at=self.clock.now() + timedelta(microseconds=1))
        except KeyError:
            return

    def forget_bookings_over(self) -> None:
        """The mirror removes what was over for long."""
        for booking in self.kube.list(BOOKINGS).items:
            if booking.spec.end + timedelta(minutes=10) < self.clock.now():
                self.kube.delete(BOOKINGS, booking.name)
