"""A small cluster for the reclaimer's tests: API server in memory, clock, cache, and pods that leave."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Self

from prometheus_client import CollectorRegistry

from booking.controller.reclaimer.evictor import (
    Back,
    EvictionCause,
    Evictor,
    NoComebackError,
    ProtectedError,
    Reason,
    TooLateError,
    always,
    nothing,
)
from booking.controller.reclaimer.executor import Executor, in_turn
from booking.controller.reclaimer.metrics import ReclaimerMetrics
from booking.controller.reclaimer.reclaimer import NO_SHARES, Guards, Reclaimer
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.informers import LIVING
from cluster.fake.clock import FakeClock
from cluster.fake.merging import merged
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, NotFound, StatusError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.hold import Hold, encode_hold, hold_of
from cluster.objects.hold_verdicts import HoldVerdict, encode_verdicts
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, PodBuilder, a100, a_booking, a_lease, a_node, a_pod

Json = dict[str, Any]


class FakeEvictor:
    """Evicts pods by deleting them, and records the requests."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self.left: list[tuple[str, str]] = []
        """Name and reason of every pod that was evicted or ended."""
        self.prepared: list[tuple[str, Back]] = []
        """Name of every pod that was likely to go, and how it was to come back."""
        self.why: dict[str, EvictionCause] = {}
        """Name -> the cause of its last eviction or end."""
        self.withdrawn: list[str] = []
        self.cleared: list[str] = []
        self.wanted: frozenset[str] = frozenset()
        self.protected: set[str] = set()
        """Names of pods that a disruption budget protects."""
        self.budgets: tuple[DisruptionBudget, ...] = ()
        """The budgets that do."""
        self.failing: list[ApiError | NoComebackError] = []
        """What the next calls of ``leave`` raise."""
        self.forbidden: dict[str, StatusError] = {}
        """Name -> how every eviction of this pod is refused."""
        self.requests: list[str] = []
        """Names of the pods that were asked about."""
        self.stuck: ApiError | None = None
        """What every call of ``reconcile`` raises."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens between the decision and the eviction."""

    def prepare(self, pod: Pod, *, back: Back, reason: Reason = "evicted") -> None:
        assert reason in {"evicted", "share"}
        self.prepared.append((pod.metadata.name, back))

    def evict(
        self,
        pod: Pod,
        why: EvictionCause,
        *,
        is_valid: Callable[[], bool] = always,
        about_to_check: Callable[[], None] = nothing,
    ) -> None:
        about_to_check()
        self.meanwhile()
        if not is_valid():
            raise TooLateError(pod.key)
        evicted = why.reason in {"evicted", "share", "overuse"} and not why.overrides_budget
        if evicted:
            self._require_allowed(pod)
        if self.failing:
            raise self.failing.pop(0)
        if why.notice:
            self._carry(pod, why.notice)
        self.left.append((pod.metadata.name, why.reason))
        self.why[pod.metadata.name] = why
        self._kube.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)

    def ask(self, pod: Pod) -> None:
        self.requests.append(pod.metadata.name)
        self._require_allowed(pod)

    def _require_allowed(self, pod: Pod) -> None:
        if pod.metadata.name in self.forbidden:
            raise self.forbidden[pod.metadata.name]
        if pod.metadata.name in self.protected:
            raise ProtectedError(pod.key, self.budgets)

    def _carry(self, pod: Pod, notice: str) -> None:
        """The notice is written together with the preparations of the eviction."""
        change = {"metadata": {"uid": pod.metadata.uid, "annotations": {names.NOTICE: notice}}}
        self._kube.patch(PODS, pod.metadata.name, change, namespace=pod.metadata.namespace)

    def withdraw(self, uid: str) -> None:
        self.withdrawn.append(uid)

    def clear_disruption(self, pod: Pod) -> None:
        self.cleared.append(pod.metadata.name)

    def reconcile(self, wanted: frozenset[str]) -> None:
        if self.stuck:
            raise self.stuck
        self.wanted = wanted


class FakeCluster:
    """A cluster with one reclaimer, and short words for what tests do."""

    def __init__(self, *, terms: EvictionSettings | None = None, executor: Executor = in_turn) -> None:
        self.clock = FakeClock(EPOCH)
        self.kube = FakeKube(self.clock)
        self.evictor = FakeEvictor(self.kube)
        self.events: list[tuple[str, str, str]] = []
        """Name, reason and message of every Event."""
        self.executor = executor
        self.fair_shares: Callable[[], FairShares] = lambda: NO_SHARES
        self.processor: Callable[[], float] = lambda: 0.0
        self.leads = True
        self.unready_reason: str | None = None
        self.terms = terms or EvictionSettings()
        self._nodes: list[str] = []
        self._mirrored = True
        self.verdicts: dict[str, HoldVerdict] | None = {}
        """What the extender says of pods with a hold, by their uids; None: it does not renew its Lease."""
        self.restart()
        self.renew()

    # --- the process ---------------------------------------------------------------------------------
    def restart(self) -> None:
        """Another process takes over: nothing is left but the objects."""
        self.metrics = ReclaimerMetrics(CollectorRegistry())
        self.cache = ClusterCache(self.clock)
        self.reclaimer = Reclaimer(
            self.api(),
            self.clock,
            self.cache,
            guards=Guards(leads=lambda: self.leads, unready_reason=lambda: self.unready_reason),
            evictor=self.evictor_in_use(),
            write_event=lambda pod, reason, message: self.events.append((pod.metadata.name, reason, message)),
            terms=self.terms,
            metrics=self.metrics,
            executor=self.executor,
            fair_shares=self.fair_shares,
            processor=self.processor,
        )

    def api(self) -> Kube:
        """The API server as the process under test sees it."""
        return self.kube

    def evictor_in_use(self) -> Evictor:
        """How pods leave."""
        return self.evictor

    def sync(self) -> None:
        """Let the cache catch up with the API server."""
        pods = self.kube.list(PODS, Selection(field_selector=LIVING))
        nodes, leases, bookings = self.kube.list(NODES), self.kube.list(LEASES), self.kube.list(BOOKINGS)
        self.cache.of(NODES).replace(nodes.items, nodes.resource_version)
        self.cache.of(LEASES).replace(leases.items, leases.resource_version)
        self.cache.of(BOOKINGS).replace(bookings.items, bookings.resource_version)
        self.cache.of(PODS).replace(pods.items, pods.resource_version)

    def reconcile(self, times: int = 1) -> None:
        """Passes of the reclaimer, each with a cache that has caught up."""
        for _ in range(times):
            self.sync()
            self.reclaimer.reconcile()
        self.sync()

    def after(self, seconds: float) -> None:
        """Time passes while agents and mirror are well; then one pass."""
        self.clock.advance(seconds)
        self.renew()
        self.reconcile()

    def snapshot(self) -> ReclaimerSnapshot:
        """This instant."""
        self.sync()
        return take(self.cache, self.clock)

    # --- the cluster ---------------------------------------------------------------------------------
    def add_node(self, name: str = "n0", *devices: Device, **spec: object) -> None:
        """A node, its agent alive; by default with four A100s."""
        found = devices or tuple(a100(index, name) for index in range(4))
        node = a_node(name, *found)
        meta: Json = {"name": name, "uid": f"uid-{name}", "annotations": node.metadata.annotations}
        self.kube.put(NODES, {"metadata": meta, "spec": spec})
        if name not in self._nodes:
            self._nodes.append(name)
        self.renew()

    def lose_agent(self, node: str) -> None:
        """Its agent becomes unresponsive."""
        self._nodes.remove(node)

    def stop_agent(self, node: str) -> None:
        """Its agent announces that it stops."""
        self.lose_agent(node)
        raw = self.kube.raw(LEASES, names.node_lease(node), namespace=names.NAMESPACE)
        self.kube.put(LEASES, merged(raw, {"metadata": {"annotations": {names.STOPPING: "now"}}}))

    def start_agent(self, node: str) -> None:
        """It is there again."""
        self._nodes.append(node)
        self.renew()

    def stop_mirror(self) -> None:
        """The mirror no longer confirms the Booking objects."""
        self._mirrored = False

    def resume_mirror(self) -> None:
        """It confirms them again."""
        self._mirrored = True
        self.renew()

    def renew(self) -> None:
        """Agents and mirror renew their Leases."""
        for node in self._nodes:
            lease = a_lease(node)
            self.renew_lease(lease.metadata.name)
        if self._mirrored:
            self.renew_lease(names.MIRROR_LEASE)
        if self.verdicts is not None:
            text = encode_verdicts(self.verdicts)
            self.renew_lease(names.VERDICT_LEASE, {names.HOLD_VERDICTS: text} if text else {})

    def renew_lease(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        """The holder of this Lease is alive."""
        meta = {"name": name, "namespace": names.NAMESPACE, "annotations": annotations or {}}
        renewed = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.kube.put(LEASES, {"metadata": meta, "spec": {"renewTime": renewed}})

    def book(self, name: str = "b-1", **more: Any) -> Booking:
        """A Booking object: alice, 1 x A100 for two days from now on, unless given otherwise."""
        booking = a_booking(name, **more)
        keys = ("user", "model", "resource", "count", "start", "end", "namespace", "topology", "memory")
        spec = {key: value for key in keys if (value := getattr(booking.spec, key)) is not None}
        spec["places"] = [
            {"node": place.node, "count": place.count, "lanes": place.lanes} for place in booking.spec.places
        ]
        return self.kube.put(BOOKINGS, {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec})

    def end_booking(self, name: str = "b-1", at: datetime | None = None) -> None:
        """Its end moves to now, as when it is released."""
        raw = self.kube.raw(BOOKINGS, name)
        raw["spec"]["end"] = at or self.clock.now()
        self.kube.put(BOOKINGS, raw)

    def create(self, builder: PodBuilder, more: Json | None = None) -> Pod:
        """A pod on the API server, created a minute ago."""
        raw = merged(builder.raw, {"metadata": {"creationTimestamp": "2026-11-23T08:59:00Z"}})
        return self.kube.put(PODS, merged(raw, more or {}))

    def opportunist(self, name: str, *indices: int, node: str = "n0", minutes: float = 10) -> Pod:
        """A pod of bob's that has held these devices of a node for some time."""
        devices = tuple(f"GPU-{node}-{index}" for index in indices)
        builder = a_pod(name).of("bob").asks(len(indices)).on(node, {"main": devices})
        at = EPOCH.timestamp() - 60 * minutes
        started = datetime.fromtimestamp(at, EPOCH.tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
        return self.create(builder, {"status": {"phase": "Running", "startTime": started}})

    def fill(self, node: str = "n0") -> None:
        """Four of bob's pods with one device each: ``b0`` the oldest, ``b3`` the newest."""
        for index in range(4):
            self.opportunist(f"b{index}", index, node=node, minutes=40 - 10 * index)

    def contended(self) -> Self:
        """Alice's booked pod ``a`` waits; bob's four have all A100s of ``n0``. Returns this cluster."""
        self.add_node()
        self.fill()
        self.book()
        self.waiting("a")
        return self

    def waiting(
        self,
        name: str = "a",
        gpus: int = 1,
        *,
        user: str = "alice",
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """A pod that asks for GPUs, with these annotations, and is not bound."""
        pod = a_pod(name).of(user).asks(gpus)
        for key, value in (annotations or {}).items():
            pod = pod.with_annotation(key, value)
        return self.create(pod)

    def hold(self, name: str, hold: Hold) -> None:
        """Write a hold by hand."""
        self.annotate(name, names.HOLD, encode_hold(hold))

    def annotate(self, name: str, key: str, value: str | None) -> None:
        """Write an annotation by hand."""
        raw = self.kube.raw(PODS, name, namespace="default")
        self.kube.put(PODS, merged(raw, {"metadata": {"annotations": {key: value}}}))

    def request_cpu(self, name: str, cpu: str) -> None:
        """Every container of the pod requests so much."""
        raw = self.kube.raw(PODS, name, namespace="default")
        requests = {"resources": {"requests": {"cpu": cpu}}}
        containers = [merged(container, requests) for container in raw["spec"]["containers"]]
        self.kube.put(PODS, merged(raw, {"spec": {"containers": containers}}))

    def set_cpu(self, node: str, cpu: str) -> None:
        """The node has so much, and room for nine pods. Counts with ``keep_scheduling_objects`` only."""
        allocatable = {"status": {"allocatable": {"cpu": cpu, "pods": "9"}}}
        self.kube.put(NODES, merged(self.kube.raw(NODES, node), allocatable))

    def bind(self, name: str, *indices: int, node: str = "n0") -> None:
        """The extender binds it."""
        devices = tuple(f"GPU-{node}-{index}" for index in indices)
        given = a_pod(name).on(node, {"main": devices}).annotations
        more = {"metadata": {"annotations": given}, "spec": {"nodeName": node}}
        self.kube.put(PODS, merged(self.kube.raw(PODS, name, namespace="default"), more))

    def gone(self, name: str) -> None:
        """The kubelet reports that the pod has ended: the object is deleted."""
        self.kube.delete(PODS, name, namespace="default", grace_seconds=0)

    # --- what can be seen ----------------------------------------------------------------------------
    def pod(self, name: str) -> Pod:
        """As stored."""
        return self.kube.get(PODS, name, namespace="default")

    def exists(self, name: str) -> bool:
        """Whether it is stored."""
        try:
            self.pod(name)
        except NotFound:
            return False
        return True

    def held(self, name: str = "a") -> Hold | None:
        """The hold on a pod."""
        return hold_of(self.pod(name))

    def kept(self, name: str = "a") -> Hold:
        """The hold that must be on a pod."""
        found = self.held(name)
        assert found is not None, f"There is no hold on {name}."
        return found

    def annotation(self, name: str, key: str) -> str | None:
        """As stored."""
        return self.pod(name).metadata.annotation(key)

    def evicted(self) -> list[str]:
        """Names of the pods that were evicted, in order."""
        return [name for name, reason in self.evictor.left if reason == "evicted"]

    def ended(self) -> list[str]:
        """Names of the pods that were ended, in order."""
        return [name for name, reason in self.evictor.left if reason == "ended"]

    def reasons(self, name: str) -> list[str]:
        """Reasons of the Events on a pod, in order."""
        return [reason for pod, reason, _ in self.events if pod == name]
