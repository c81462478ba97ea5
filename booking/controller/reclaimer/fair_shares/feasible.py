"""Whether a waiting pod could be placed at all if enough others left: only such pods have a share.

One that no node could take keeps nobody waiting, and waits for the scheduler, not for a turn.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from booking.controller.reclaimer.need import Need
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.fair_shares.applicants import Applicant
from cluster.decide.scheduler_filters import checker_for
from cluster.objects.barred_nodes import barred
from cluster.objects.inventory import Device


class Feasible:
    """Answers, remembered as long as the nodes stay the same. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._samples: dict[str, dict[str, Device]] = {}
        """Resource -> model -> a device of it."""
        self._known: dict[Hashable, tuple[str, ...]] = {}

    def refresh(self, snapshot: ReclaimerSnapshot) -> bool:
        """Forget the answers if any node is different now; returns whether one is."""
        views = snapshot.node_snapshots.views
        nodes = [*snapshot.nodes.values(), *(view.devices for view in views.values())]
        if len(nodes) == len(self._nodes) and all(map(_is_same, nodes, self._nodes)):
            return False
        self._nodes, self._known, self._samples = nodes, {}, {}
        for view in views.values():
            for resource, models in view.all_by_model.items():
                for model, devices in models.items():
                    if devices:
                        self._samples.setdefault(resource, {}).setdefault(model, devices[0])
        return True

    def models(
        self, applicant: Applicant, snapshot: ReclaimerSnapshot, candidates: NodeCandidates
    ) -> tuple[str, ...]:
        """The models of which some node could give the pod all its devices, sorted; of a gang, some nodes."""
        key = (applicant.unit.kind, applicant.unit.gpus, applicant.unit.members)
        if key not in self._known:
            models = self._of(applicant, snapshot, candidates)
            if applicant.members:
                models = (one for one in models if self._has_room(applicant, one, snapshot, candidates))
            self._known[key] = tuple(sorted(models))
        return self._known[key]

    def _has_room(
        self, applicant: Applicant, model: str, snapshot: ReclaimerSnapshot, candidates: NodeCandidates
    ) -> bool:
        """Whether all pods of a gang have room at once, if nothing else ran: the largest first."""
        left: dict[str, int] = {}
        for member in applicant.members:
            checker, closed = checker_for(member.pod, snapshot.cluster_objects), barred(member.pod)
            selector, need = member.request.selector, member.request.devices
            for name, node in snapshot.nodes.items():
                there = left.get(name, candidates.all_devices(name, model, selector))
                if there >= need and name not in closed and checker.unresolvable_reason(node) is None:
                    left[name] = there - need
                    break
            else:
                return False
        return True

    def _of(
        self, applicant: Applicant, snapshot: ReclaimerSnapshot, candidates: NodeCandidates
    ) -> Iterator[str]:
        selector, closed = applicant.request.selector, barred(applicant.pod)
        models: Mapping[str, Device] = self._samples.get(applicant.resource, {})
        checker = checker_for(applicant.pod, snapshot.cluster_objects)
        for model, sample in models.items():
            if selector.is_by_model and not selector.takes(sample):
                continue
            for name, node in snapshot.nodes.items():
                if (
                    name not in closed
                    and candidates.all_devices(name, model, selector) >= applicant.request.devices
                    and checker.unresolvable_reason(node) is None
                ):
                    yield model
                    break


def need_in(applicant: Applicant, model: str) -> Need:
    """The need of a pod whose turn it is for devices of a model."""
    return Need(model=model, resource=applicant.resource)


def _is_same(one: Any, other: Any) -> bool:
    return one is other or one == other
