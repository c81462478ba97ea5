"""Who waits in which line: kept by event, so that a pass touches only what has changed."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from booking.controller.reclaimer.fair_shares.feasible import Feasible
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.fair_shares.applicants import Applicant
from cluster.decide.fairshare import Line
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

INFEASIBLE_FOR: Final = 60.0
"""Seconds after which the gate of a pod is removed that no node could take: it does not wait for a turn."""


class Lines:
    """The lines of all models. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._feasible = Feasible()
        self._in_line: dict[str, tuple[Applicant, tuple[str, ...]]] = {}
        """Uid -> the unit that waits, and the models in whose lines it does."""
        self.of_model: dict[str, Line] = {}
        """Model -> the units that wait for it."""
        self._infeasible: dict[str, float] = {}
        """Uid -> since when no node could take it, monotonic."""

    def __len__(self) -> int:
        """How many units wait."""
        return len(self._in_line)

    def clear(self) -> None:
        """Nobody waits."""
        self._in_line, self.of_model, self._infeasible = {}, {}, {}

    def applicant(self, uid: str) -> Applicant:
        """Who waits under this uid. Raises: KeyError: nobody does."""
        return self._in_line[uid][0]

    def applicants(self) -> Mapping[str, Applicant]:
        """Everybody who waits."""
        return {uid: applicant for uid, (applicant, _) in self._in_line.items()}

    def is_confined(self, uid: str, models: AbstractSet[str]) -> bool:
        """Whether who waits could have GPUs of these models, and of no others; a unit's uid."""
        _, theirs = self._in_line.get(uid, (None, ()))
        return bool(theirs) and models >= set(theirs)

    def line(self, model: str) -> Line:
        """The line of a model; an empty one where nobody waits for it."""
        return self.of_model.get(model) or Line()

    def update(
        self, applicants: Mapping[str, Applicant], snapshot: ReclaimerSnapshot, candidates: NodeCandidates
    ) -> None:
        """Who waits now."""
        for uid in self._in_line.keys() - applicants.keys():
            self.leave(uid)
        now, infeasible = self._clock.monotonic(), {}
        are_same = not self._feasible.refresh(snapshot)
        for uid, applicant in applicants.items():
            known = self._in_line.get(uid)
            if known and known[0] is applicant and are_same:
                models = known[1]
            else:
                models = self._feasible.models(applicant, snapshot, candidates)
            if not models:
                infeasible[uid] = self._infeasible.get(uid, now)
            if known and known[0].unit is applicant.unit and known[1] == models:
                self._in_line[uid] = (applicant, models)
                continue
            self.leave(uid)
            self._in_line[uid] = (applicant, models)
            for model in models:
                self.of_model.setdefault(model, Line()).add(applicant.unit)
        self._infeasible = infeasible

    def leave(self, uid: str) -> None:
        """A unit waits no more."""
        _, models = self._in_line.pop(uid, (None, ()))
        for model in models:
            self.of_model[model].remove(uid)

    def infeasible(self) -> list[Pod]:
        """Pods for which no node has been big enough for a while. A gang goes on waiting, together."""
        now = self._clock.monotonic()
        late = [uid for uid, since in self._infeasible.items() if now - since >= INFEASIBLE_FOR]
        return [self._in_line[uid][0].pod for uid in late if not self._in_line[uid][0].members]
