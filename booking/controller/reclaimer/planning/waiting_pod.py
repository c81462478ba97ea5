"""A pod that waits and needs devices, and its requirements of a node, besides free devices."""

from dataclasses import dataclass, replace
from typing import Literal

from booking.controller.reclaimer.need import Need
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster.decide.eviction.victim_selection import NodeCandidate, VictimSelection, sets, taking
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.decide.scheduler_filters import Checker
from cluster.objects.barred_nodes import barred
from cluster.objects.bookings import Booking
from cluster.objects.device_selector import DeviceSelector
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod

Verdict = Literal["suits", "waits"]
"""The pod would be placed there, at once or when pods have left that are leaving for another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod that waits. Built by ``waiting_pod``."""

    pod: Pod
    request: GpuRequest
    model: str
    need: int
    closed: frozenset[str]
    snapshot: ReclaimerSnapshot
    booking: Booking | None
    """The booking that covers the pod; None if it needs devices for another reason."""
    checker: Checker
    """Considers what the round has assigned so far."""

    @property
    def selector(self) -> DeviceSelector:
        """The devices that the pod requests."""
        return self.request.selector

    def is_open(self, node: str) -> bool:
        """Whether the node suits this pod, regardless of what runs there."""
        view, agent = self.snapshot.node_snapshots[node]
        known = self.snapshot.nodes.get(node)
        return (
            known is not None
            and agent == "alive"
            and view.published
            and node not in self.closed
            and (self.booking is None or self.snapshot.places.allow(self.booking, node, self.need))
            and self.checker.unresolvable_reason(known) is None
        )

    def fits(self, node: str, checker: Checker | None = None) -> bool:
        """Whether it would be placed there at present, regardless of devices that are guaranteed to others.

        Args:
            node: one that is open to it.
            checker: which assignments of the round count; by default all.
        """
        view = self.snapshot.node_snapshots.views[node]
        return (
            rejection(self.request, view, "alive") is None
            and (checker or self.checker).why_not(self.snapshot.nodes[node]) is None
        )

    def with_hold(self, node: str, devices: tuple[str, ...]) -> "WaitingPod":
        """The pod as if these devices, and no others, were held for it."""
        return replace(self, request=replace(self.request, hold=Hold(node=node, devices=devices)))

    def verdict(self, candidate: NodeCandidate, choice: VictimSelection) -> Verdict | None:
        """Whether the pod would be placed there once the choice's victims have left; None if it would not."""
        node = self.snapshot.nodes[candidate.node]
        victims = frozenset(victim.uid for victim in choice.victims)
        if self.checker.why_not(node, without=victims) is None:
            return "suits"
        if (
            candidate.outgoing_pods
            and self.checker.why_not(node, without=victims | candidate.outgoing_pods) is None
        ):
            return "waits"
        return None

    def with_more_victims(
        self, candidate: NodeCandidate, limit: VictimSelection | None
    ) -> VictimSelection | None:
        """The cheapest choice that suits where the cheapest by devices does not: more pods must leave.

        Exact: sets are tried in the order of their price. None if nothing is cheaper than ``limit``.
        """
        missing = max(
            0, self.need - len(candidate.free) - len(candidate.leaving) - len(candidate.outgoing_devices)
        )
        if not self._could_suit(candidate):
            return None
        for victims in sets(candidate.victims, missing):
            choice = taking(candidate, self.need, victims)
            if limit is not None and choice.rank[0] > limit.rank[0]:
                return None
            verdict = self.verdict(candidate, choice)
            if verdict is not None:
                return choice if verdict == "suits" else taking(candidate, self.need, victims, waits=True)
        return None

    def _could_suit(self, candidate: NodeCandidate) -> bool:
        """Whether it is worth trying: the more pods leave the better, unless the pod must be near some."""
        affinity = self.pod.spec.affinity
        if affinity and affinity.pod_affinity and affinity.pod_affinity.required:
            return True
        leaving = candidate.outgoing_pods | {victim.uid for victim in candidate.victims}
        return self.checker.why_not(self.snapshot.nodes[candidate.node], without=leaving) is None


def waiting_pod(
    pod: Pod, snapshot: ReclaimerSnapshot, checker: Checker, need: Need | None = None
) -> WaitingPod:
    """The requirements of a pod that needs devices; ``need``: by default that of the snapshot."""
    need = need or snapshot.needs[pod.metadata.uid]
    request = snapshot.share_places.confined(gpu_request_of(pod, need.booking), need.booking)
    return WaitingPod(
        pod=pod,
        request=request,
        model=need.model,
        need=request.devices,
        closed=barred(pod),
        snapshot=snapshot,
        booking=need.booking,
        checker=checker,
    )
