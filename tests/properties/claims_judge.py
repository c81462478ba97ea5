"""Plans in a world with claims, worked out by hand: every set of pods is tried, device by device.

Nothing of the ledger, the holders or the planner is used: only what is stored, and whom bookings cover.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, combinations
from typing import Final

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from tests.laws.places import HANGS_AFTER
from tests.properties.random_claims import ASKS, NODES_OF, TERMS, ClaimWorld, Somebody

MICROSECOND: Final = timedelta(microseconds=1)
Fate = str | frozenset[str] | None
"""``free``, ``leaving``, ``outgoing``; or the pods who all have to leave; None if it cannot be had."""


@dataclass(order=True)
class Choice:
    """What a node could do for a pod; the least is the best."""

    price: tuple[object, ...]
    waits: bool
    busy: int
    node: str
    victims: frozenset[str]


@dataclass
class Judge:
    """One round of planning, from pod to pod."""

    world: ClaimWorld
    cover: dict[str, Booking]
    inputs: PlanningInputs

    def __post_init__(self) -> None:
        holds = [pod.hold for pod in self.world.pods.values() if pod.hold]
        self.kept = self.world.kept()
        self.outgoing = {uid for hold in holds for uid in hold.victims} | self.inputs.ending

    def judge(self, plans: list[Plan]) -> None:
        """Laws L1, L2 and L3 of all plans of a round."""
        made = {one.pod.metadata.uid: one.hold for one in plans}
        is_sure = True
        for pod in self._waiting():
            hold, need = made.pop(pod.name, None), self._need(pod)
            if need is None:
                assert hold is None, f"nobody can say what would do for {pod.name}"
                continue
            best = min(self._choices(pod, need), default=None) if is_sure else None
            is_free = best is not None and not best.busy
            if hold:
                self._check(pod, hold, need)
                if is_sure:
                    assert best, f"{pod.name} cannot be served"
                    assert not is_free, f"{pod.name} fits without a victim"
                    found = (hold.node, frozenset(hold.victims))
                    assert found == (best.node, best.victims), f"{best} is better for {pod.name}"
                self.kept.update(hold.devices)
                self.outgoing.update(hold.victims)
            elif best:
                assert is_free or best.waits, f"{pod.name} is not served, though {best} would do"
                is_sure = False  # which devices it will get is kube-scheduler's choice
        assert not made, f"nothing is to be kept for {sorted(made)}"

    def _waiting(self) -> Iterator[Somebody]:
        """Booked pods that wait, in the order of service; of those that wait for one claim the first."""
        waiting = [pod for pod in self.world.pods.values() if not pod.node]
        served = {name for pod in waiting if pod.hold for name in pod.claims}
        for pod in sorted(waiting, key=lambda pod: (pod.born, pod.name)):
            is_complete = pod.claims and not self.world.missing(pod)
            if pod.name in self.cover and not pod.hold and not is_complete and served.isdisjoint(pod.claims):
                served.update(pod.claims)
                yield pod

    def _need(self, pod: Somebody) -> int | None:
        """How many devices; None where nobody knows which would do."""
        claims = [self.world.claims[name] for name in pod.claims]
        if any(claim.devices for claim in claims) or len({claim.asks for claim in claims}) > 1:
            return None
        if any(ASKS[claim.asks][1] is None for claim in claims):
            return None
        return pod.gpus + sum(claim.count for claim in claims)

    def _usable(self, pod: Somebody, node: str) -> list[Device]:
        """Devices that would do, whoever has them."""
        model = self.cover[pod.name].spec.model
        wanted = [ASKS[self.world.claims[name].asks][1] for name in pod.claims]
        return [
            one
            for one in NODES_OF[node]
            if one.model == model and one.uuid not in self.kept
            if all(accepts and accepts(one) for accepts in wanted)
        ]

    def _fate(self, uuid: str) -> Fate:
        world, users = self.world, self.world.users_of(uuid)
        if not world.is_had(uuid):
            return "free"
        expected = world.expected_by(uuid)
        if any(not users or pod.name in self.cover for pod in expected):
            return None  # it is about to be bound, and have the device; only a booked one protects others
        live = {pod.name for pod in users if not pod.going or self._hangs(pod)}
        stay = live - self.outgoing
        if any(self._is_protected(name) for name in stay):
            return None
        return frozenset(stay) if stay else "outgoing" if live else "leaving"

    def _is_protected(self, name: str) -> bool:
        pod = self.world.pods[name]
        return name in self.cover or name in self.inputs.excluded or pod.stays or bool(pod.going)

    def _hangs(self, pod: Somebody) -> bool:
        return bool(pod.going and pod.going + HANGS_AFTER <= self.world.clock.now())

    def _choices(self, pod: Somebody, need: int) -> Iterator[Choice]:
        for node in NODES_OF:
            fates = [self._fate(device.uuid) for device in self._usable(pod, node)]
            free, leaving, outgoing = (fates.count(word) for word in ("free", "leaving", "outgoing"))
            pods = sorted({name for one in fates if isinstance(one, frozenset) for name in one})
            sets = (combinations(pods, size) for size in range(len(pods) + 1))
            for victims in map(frozenset, chain.from_iterable(sets)):
                freed = sum(isinstance(one, frozenset) and one <= victims for one in fates)
                if free + leaving + outgoing + freed >= need:
                    waits = bool(outgoing) and free + leaving < need
                    yield Choice(self._price(victims), waits, need - min(free, need), node, victims)

    def _price(self, victims: frozenset[str]) -> tuple[object, ...]:
        """Lost GPU time, earlier evictions, number, the newest first."""
        world, pods = self.world, [self.world.pods[name] for name in sorted(victims)]
        restart, now = round(TERMS.restart_cost_seconds * 1e6), world.clock.now()
        gpus = {pod.name: 0 for pod in pods}
        for device in chain.from_iterable(NODES_OF.values()):
            gpus.update({pod.name: gpus[pod.name] + 1 for pod in world.users_of(device.uuid) if pod in pods})
        lost = sum(gpus[pod.name] * ((now - pod.since) // MICROSECOND + restart) for pod in pods)
        since = tuple(sorted(-pod.since.timestamp() for pod in pods))
        return lost, sum(pod.evictions for pod in pods), len(pods), since, tuple(sorted(victims))

    def _check(self, pod: Somebody, hold: Hold, need: int) -> None:
        """What is true of every plan, whatever the others are."""
        assert len(set(hold.devices)) == len(hold.devices) == need
        usable = {one.uuid for one in self._usable(pod, hold.node)}
        assert usable.issuperset(hold.devices), "a device is kept, ill, or not what the pod asks for"
        fates = [self._fate(uuid) for uuid in hold.devices]
        assert None not in fates, f"a device of {hold} cannot be had"
        theirs = frozenset().union(*(one for one in fates if isinstance(one, frozenset)))
        assert theirs == set(hold.victims), f"{sorted(theirs)} have its devices, and all of them must go"
