"""Opens GPUs of nodes with another device plugin for shares by reservation pods, and closes them again.

The leading controller takes one step for each reservation pod in a pass (``state_table``), and makes new ones
where waiting pods find no room on GPUs that are open (``needed``). It waits for nothing: what a step leads to
is seen in a later pass. The name of a reservation pod follows from the GPU, so there is never a second one.

What is kept in memory alone saves time and pods: nodes where a GPU was opened and no pod came are left alone
for a while.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictor import EvictionCause, ProtectedError, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.reservations.manifest import ReservationTerms, manifest, opened
from booking.controller.reclaimer.reservations.needed import Needed, needed
from booking.controller.reclaimer.reservations.state_table import (
    Reserved,
    given_gpu,
    reported_gpu,
    state_of,
    step,
)
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.decide.queueing import by_priority_and_age
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.decide.scheduler_filters import Checker, checker_for
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.interface import Selection
from cluster.kube.resources import PODS
from cluster.objects.assignment import devices_of, readable_assignment_of
from cluster.objects.pods import Pod, is_live, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.objects.reservation_pods import closing_since, reservation_name, reservation_of, visible_gpus
from cluster.objects.scheduling_gates import other_gates

log = structlog.get_logger(__name__)

IN_VAIN_AFTER: Final = 60.0
"""Seconds for which a reservation pod waits for its GPU, or an open GPU for a pod, before it is given up."""
BARRED_FOR: Final = 300.0
"""Seconds for which its node is left alone then."""
STRAY_GRACE: Final = 30
"""Seconds between SIGTERM and SIGKILL at most."""
STRAY: Final = (
    "The reservation pod of its GPU was removed, and the kubelet has given the GPU away: it must go, and"
    " comes back with another one."
)


class Reservations:
    """All reservation pods. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: ReservationTerms | None, namespace: str) -> None:
        """Args: terms: None where no GPU is opened; those that are open are closed then.

        ``namespace``: the product's own, where reservation pods are.
        """
        self._context = context
        self._terms = terms
        self._namespace = namespace
        self._recent_requests = RecentRequests(context.clock)
        self._unused_since: dict[str, float] = {}
        """Uid of a reservation pod whose GPU no pod has a share of -> since when."""
        self._barred: dict[str, float] = {}
        """Node -> until when it is left alone."""

    def strays(self, snapshot: ReclaimerSnapshot) -> tuple[Pod, ...]:
        """Pods that see another GPU than the one that the reservation pod of theirs has."""
        return tuple(
            pod
            for reservation in self._of(snapshot).values()
            if (gpu := given_gpu(reservation) or reservation.metadata.annotation(names.OPENED))
            for pod in _sharers(reservation, snapshot)
            if is_live(pod) and (seen := visible_gpus(pod)) and gpu not in seen
        )

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Take one step for each reservation pod, and make those that are missing."""
        known = self._of(snapshot)
        if self._terms is None and not known:
            return
        self._give_up(known, snapshot)
        wanted = self._needed(known, snapshot)
        for number, pod in known.items():
            self._step(number, pod, wanted, snapshot)
        for pod in self.strays(snapshot):
            self._try(f"stray {pod.metadata.uid}", pod.key, partial(self._evict, pod))
        if self._terms is not None:
            missing = {**_orphans(snapshot), **wanted.free}
            for number, node in sorted(missing.items()):
                if number not in known:
                    make = partial(self._make, number, node, self._terms)
                    self._try(f"make {number}", reservation_name(number), make)

    def _of(self, snapshot: ReclaimerSnapshot) -> Mapping[str, Pod]:
        """Numbered GPU -> its reservation pod."""
        return {
            reservation.number: pod
            for pod in snapshot.annotated.values()
            if pod.metadata.namespace == self._namespace and (reservation := reservation_of(pod))
        }

    def _needed(self, known: Mapping[str, Pod], snapshot: ReclaimerSnapshot) -> Needed:
        views = snapshot.node_snapshots
        if self._terms is None or not any(view.opens for view in views.views.values()):
            return Needed()
        checkers: dict[str, Checker] = {}

        def suits(pod: Pod, node: str) -> bool:
            booking, there = snapshot.cover.get(pod.metadata.uid), snapshot.nodes.get(node)
            if booking and not snapshot.places.allow(booking, node, gpu_request_of(pod).devices):
                return False
            checker = checkers.setdefault(pod.metadata.uid, checker_for(pod, snapshot.cluster_objects))
            return there is not None and checker.why_not(there) is None

        unplaced = frozenset(number for number, pod in known.items() if not pod.spec.node_name)
        return needed(_waiting(snapshot), views, suits=suits, unplaced=unplaced, barred=self._barred.keys())

    def _give_up(self, known: Mapping[str, Pod], snapshot: ReclaimerSnapshot) -> None:
        """Leave nodes alone where a reservation pod got no GPU, or no pod came for it."""
        now, nodes = self._context.clock.monotonic(), _nodes_of(snapshot) if known else {}
        self._barred = {node: until for node, until in self._barred.items() if now < until}
        unused = {
            pod.metadata.uid: (number, pod)
            for number, pod in known.items()
            if state_of(pod) in ("asked", "given", "open") and not _sharers(pod, snapshot)
        }
        self._unused_since = {uid: self._unused_since.get(uid, now) for uid in unused}
        for uid, since in self._unused_since.items():
            number, pod = unused[uid]
            if now - since >= IN_VAIN_AFTER and number in nodes:
                self._barred[nodes[number]] = now + BARRED_FOR
                log.warning("a GPU was opened for shares in vain", pod=pod.key, node=nodes[number])

    def _step(self, number: str, pod: Pod, wanted: Needed, snapshot: ReclaimerSnapshot) -> None:
        is_needed = number in wanted.reserved or number in wanted.free or bool(_sharers(pod, snapshot))
        since = closing_since(pod)
        closing_for = (snapshot.now - since).total_seconds() if since else 0.0
        key = f"{pod.metadata.uid} {pod.metadata.resource_version}"
        report = snapshot.uses.get(pod.spec.node_name or "")
        gpu = given_gpu(pod) or reported_gpu(pod, number, report)
        match step(Reserved(state_of(pod, gpu), is_needed, closing_for)):
            case "open":
                self._try(key, pod.key, partial(self._annotate, pod, opened(gpu or "")))
            case "close":
                self._try(key, pod.key, partial(self._annotate, pod, _closing(snapshot.now)))
            case "reopen":
                self._try(key, pod.key, partial(self._annotate, pod, {names.CLOSING: None}))
            case "delete":
                self._try(key, pod.key, partial(self._delete, number, pod))

    def _try(self, key: str, about: str, request: Any) -> None:
        if not self._recent_requests.is_due(key):
            return
        try:
            request()
        except (Conflict, NotFound):
            return  # it has changed: decided again once that is seen
        except ApiError as error:
            self._recent_requests.forget(key)
            self._context.failures.note("reservation pod", about, error)

    def _annotate(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        meta = pod.metadata
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": dict(annotations)}
        self._context.kube.patch(PODS, meta.name, {"metadata": guard}, namespace=meta.namespace)
        log.info("a reservation pod was changed", pod=pod.key, annotations=dict(annotations))

    def _delete(self, number: str, pod: Pod) -> None:
        """The second step: unless the API server knows a pod that has a share of its GPU after all."""
        meta, node = pod.metadata, pod.spec.node_name
        if node and any(number in _assigned(other) for other in self._on(node)):
            self._annotate(pod, {names.CLOSING: None})
            return
        self._context.kube.delete(
            PODS, meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
        )
        log.info("a reservation pod was deleted", pod=pod.key)

    def _on(self, node: str) -> Iterator[Pod]:
        """Living pods of a node without reservation pods, as the API server has them now."""
        found = self._context.kube.list(PODS, Selection(field_selector=f"spec.nodeName={node}"))
        return (pod for pod in found.items if not is_terminal(pod) and reservation_of(pod) is None)

    def _make(self, number: str, node: str, terms: ReservationTerms) -> None:
        body = manifest(number, node, self._namespace, terms)
        try:
            self._context.kube.create(PODS, body, namespace=self._namespace)
        except Conflict:
            self._remove_ended(reservation_name(number))
            return
        log.info("a GPU is to be opened for shares", gpu=number, node=node)

    def _remove_ended(self, name: str) -> None:
        """A pod that has ended, and that nobody sees in the cache, keeps the name."""
        there = self._context.kube.get(PODS, name, namespace=self._namespace)
        if is_terminal(there) and reservation_of(there):
            self._context.kube.delete(PODS, name, namespace=self._namespace, uid=there.metadata.uid)

    def _evict(self, pod: Pod) -> None:
        why = EvictionCause("evicted", STRAY, STRAY_GRACE, back="as-it-was", overrides_budget=True)
        try:
            self._context.evictor.evict(pod, why)
        except (ProtectedError, TooLateError) as error:
            log.warning(
                "a pod that sees another pod's GPU could not be evicted", pod=pod.key, reason=str(error)
            )


def _waiting(snapshot: ReclaimerSnapshot) -> Iterator[tuple[Pod, GpuRequest]]:
    """Unbound pods with shares that could be given on numbered GPUs, booked ones first."""
    found = [
        (pod, request)
        for pod in snapshot.pods.values()
        if not pod.spec.node_name and is_live(pod) and not other_gates(pod)
        if (request := _request_of(pod, snapshot)) and request.sees_by_annotation and request.hold is None
        if request.share and request.share.has_amount
    ]
    place_of = {
        pod.metadata.uid: place for place, pod in enumerate(by_priority_and_age([pod for pod, _ in found]))
    }
    found.sort(key=lambda one: (one[0].metadata.uid not in snapshot.cover, place_of[one[0].metadata.uid]))
    yield from found


def _request_of(pod: Pod, snapshot: ReclaimerSnapshot) -> GpuRequest | None:
    try:
        return gpu_request_of(pod, snapshot.cover.get(pod.metadata.uid))
    except QuantityError:
        return None


def _sharers(reservation_pod: Pod, snapshot: ReclaimerSnapshot) -> list[Pod]:
    """Pods that have a share of the GPU of a reservation pod."""
    reservation = reservation_of(reservation_pod)
    known = snapshot.node_snapshots.views.get(reservation_pod.spec.node_name or "")
    if reservation is None or known is None:
        return []
    uids = known.holders(reservation.number)
    return [snapshot.pods[uid] for uid in uids if uid in snapshot.pods]


def _orphans(snapshot: ReclaimerSnapshot) -> dict[str, str]:
    """Numbered GPUs of which pods have shares though no reservation pod has them -> their nodes."""
    return {
        device.uuid: name
        for name, view in snapshot.node_snapshots.views.items()
        if view.is_numbered
        for devices in view.orphaned.values()
        for device in devices
    }


def _nodes_of(snapshot: ReclaimerSnapshot) -> dict[str, str]:
    """Numbered GPU -> its node."""
    return {
        device.uuid: name
        for name, view in snapshot.node_snapshots.views.items()
        if view.is_numbered
        for device in view.devices
    }


def _assigned(pod: Pod) -> frozenset[str]:
    return frozenset(devices_of(readable_assignment_of(pod)))


def _closing(now: datetime) -> Mapping[str, str | None]:
    return {names.CLOSING: now.isoformat()}
