"""Places through long histories: guarantees hold, whichever pods run where (law L5).

Where nothing breaks and nothing is taken out of service, no booking is ever at risk: not because pods are
bound, or become booked where they are, not by a change of another booking, not by time. A booked pod finds
its GPU, and who has cover keeps it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest

from booking.server.errors import RefusedError
from booking.server.records import BookingChange, BookingRequest, Record
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.properties import history
from tests.properties.booked_cluster import SIZES, BookedCluster
from tests.properties.history import Machine, Pick, by_hypothesis, length, step

HOUR: Final = timedelta(hours=1)
USERS: Final = ("alice", "bob", "u2", "u3", "u4", "u5")
ROOT: Final = an_administrator()
PODS: Final = 7


class PlacesMachine(Machine):
    """Six users, six GPUs on three nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = BookedCluster()
        self.created = 0
        self.is_lossy = False
        """Whether this step has taken GPUs away."""
        self.risk = frozenset[str]()

    def close(self) -> None:
        self.cluster.close()

    # --- bookings ----------------------------------------------------------------------------------------
    @step(6)
    def somebody_books(self, pick: Pick) -> str:
        who, number, begins, lasts, any_ = pick.many(6, 4, 8, 9, 3)
        start = self._now() + begins * HOUR
        request = BookingRequest(
            model=A100,
            count=(2, 1, 3, 1)[number],
            start=start if begins else None,
            end=start + (1 + lasts) * HOUR,
            topology="any" if any_ == 2 else None,
        )
        return self._outcome(lambda: self.cluster.service.create(somebody(USERS[who]), request))

    @step(2)
    def a_booking_is_changed(self, pick: Pick) -> str:
        mine = self._one(pick)
        if mine is None:
            return "there is none"
        longer, later, more = pick.many(4, 3, 3)
        change = BookingChange(
            end=mine.end + (longer + later - 1) * HOUR,
            start=mine.start + later * HOUR if later else msgspec.UNSET,
            count=mine.count + more - 1 if more else msgspec.UNSET,
        )
        return self._outcome(lambda: self.cluster.service.change(somebody(mine.user), mine.id, change))

    @step(2)
    def a_booking_is_given_back(self, pick: Pick) -> str:
        mine = self._one(pick)
        if mine is None:
            return "there is none"
        service, who = self.cluster.service, somebody(mine.user)
        is_planned = mine.state(self.cluster.clock.now()) == "planned"
        return self._outcome(lambda: (service.cancel if is_planned else service.release)(who, mine.id))

    # --- pods --------------------------------------------------------------------------------------------
    @step(7)
    def somebody_runs_a_pod(self, pick: Pick) -> str:
        if len(self.cluster.pods) >= PODS:
            return self.a_pod_ends(pick)
        who, two, turn, begun = pick.many(6, 4, 3, 2)
        now = self.cluster.clock.now()
        booked = [each.user for each in self.cluster.live() if each.state(now) == "active"]
        user = booked[who % len(booked)] if booked and begun else USERS[who]
        need = 2 if two == 3 else 1
        self.created += 1
        name, order = f"p{self.created}", [*SIZES]
        order = [*order[turn:], *order[:turn]]
        before = self._certain(user, need)
        node = self.cluster.place(name, user, need, order)
        assert node or not before, f"a pod of {user}'s finds no GPU, though {before} is kept for it"
        return f"{name} of {user} for {need}: {node}{', booked' if name in self.cluster.cover else ''}"

    @step()
    def somebody_runs_a_pod_that_stays(self, pick: Pick) -> str:
        if len(self.cluster.pods) >= PODS:
            return self.a_pod_ends(pick)
        two, turn = pick.many(4, 3)
        self.created += 1
        name, order = f"p{self.created}", [*SIZES]
        node = self.cluster.place(name, "", 2 if two == 3 else 1, [*order[turn:], *order[:turn]], stays=True)
        return f"{name}, which stays: {node}"

    @step(2)
    def a_pod_ends(self, pick: Pick) -> str:
        if not self.cluster.pods:
            return "there is none"
        name = pick.one(sorted(self.cluster.pods))
        self.cluster.drop(name, self.cluster.pods[name].builder)
        return name

    @step(3)
    def time_passes(self, pick: Pick) -> str:
        self.cluster.clock.advance(pick.one((1800, 3600, 7200)))
        refused = self.cluster.state.barred(self.cluster.clock.now())
        return f"{self._now():%d %H:%M}{f', refused {len(refused)}' if refused else ''}"

    # --- what breaks -------------------------------------------------------------------------------------
    @step()
    def a_gpu_fails_or_recovers(self, pick: Pick) -> str:
        node = pick.one([*SIZES])
        uuid = f"GPU-{node}-{pick.between(0, SIZES[node] - 1)}"
        self.is_lossy = not self.cluster.unhealthy
        self.cluster.unhealthy = {uuid} if self.is_lossy else set()
        self.cluster.apply_nodes()
        return uuid if self.is_lossy else "all are well"

    @step()
    def a_node_is_maintained_or_is_not_any_more(self, pick: Pick) -> str:
        service, known = self.cluster.service, self.cluster.service.blocks(ROOT)
        node, begins, lasts = pick.many(3, 8, 4)
        if known:
            service.remove_block(ROOT, known[0].id)
            return f"{known[0].node} is back"
        start = self._now() + (1 + begins) * HOUR
        end = start + (1 + lasts) * HOUR
        self.is_lossy = True
        block = service.add_block(ROOT, node=f"n{node}", start=start, end=end, reason="fans", count=1)
        return f"1 of {block.node} from {begins + 1} for {lasts + 1}"

    # --- words -------------------------------------------------------------------------------------------
    def _now(self) -> datetime:
        return self.cluster.clock.now().replace(microsecond=0)

    def _one(self, pick: Pick) -> Record | None:
        live = self.cluster.live()
        return pick.one(live) if live else None

    def _outcome(self, ask: Callable[[], Record]) -> str:
        try:
            record = ask()
        except RefusedError as refused:
            return f"refused by {sorted({each.rule for each in refused.violations})}"
        self.cluster.mirror()
        span = f"{record.start:%d %H:%M} to {record.end:%d %H:%M}"
        where = [(place.node, place.count) for place in record.plan]
        return f"{record.user} {record.count} {record.topology} {span} at {where}"

    def _certain(self, user: str, need: int) -> str | None:
        """A running booking of the user's, not at risk, that must give so many GPUs to one more pod."""
        cover, now = self.cluster.cover, self.cluster.clock.now()
        for record in self.cluster.live():
            if record.user != user or record.state(now) != "active" or record.id in self.risk:
                continue
            used = [self.cluster.pods[name] for name, by in cover.items() if by.name == record.id]
            left = record.count - sum(len(pod.devices) for pod in used)
            is_together = record.topology == "single-node" and len({pod.node for pod in used}) <= 1
            if need <= left and (need == 1 or is_together) and not self.cluster.unhealthy:
                return record.id
        return None

    # --- what must be true -------------------------------------------------------------------------------
    def check(self) -> None:
        had = {name: pod for name, pod in self.cluster.pods.items() if pod.annotation}
        running = {each.id for each in self.cluster.live() if each.start <= self.cluster.clock.now()}
        counts = {each.id: each.count for each in self.cluster.live()}
        cover = self.cluster.cover
        for name, pod in had.items():
            used = sum(len(one.devices) for one in had.values() if one.annotation == pod.annotation)
            if pod.annotation in running and used <= counts[pod.annotation]:
                assert cover.get(name), f"{name} has lost the cover of {pod.annotation}"
        # The plan controller is quick: plans that concerned nobody come true before somebody is adopted.
        self.cluster.keep()
        if adopted := sorted(self.cluster.annotate()):
            self.messages.append(f"adopted: {adopted}")
        self.cluster.keep()
        risk = self.cluster.at_risk()
        assert self.is_lossy or self.risk or not risk, f"at risk though nothing was taken away: {risk}"
        self.risk, self.is_lossy = risk, False
        self._check_plans(risk)

    def _check_plans(self, risk: frozenset[str]) -> None:
        """Who is not at risk has a place in its plan, for all its time, if places matter."""
        live, now = self.cluster.live(), self._now()
        there = self.cluster.nodes.capacity().devices[A100]
        blocks = [block for block in self.cluster.service.blocks(ROOT) if there[block.node]]
        if not blocks and not any(each.count > 1 and each.topology == "single-node" for each in live):
            return
        live = [each for each in live if each.id not in risk]
        for each in live:
            assert sum(place.count for place in each.plan) == each.count, f"{each} has no place"
            assert each.topology == "any" or len(each.plan) == 1, f"{each} is torn apart"
        edges = {now, *(each.start for each in (*live, *blocks) if each.start > now)}
        for node, size in there.items():
            for at in sorted(edges):
                planned = [
                    place.count
                    for each in live
                    if each.start <= at < each.end
                    for place in each.plan
                    if place.node == node
                ]
                away = sum(
                    block.count or size
                    for block in blocks
                    if block.node == node and block.start <= at < block.end
                )
                assert sum(planned) <= max(0, size - away), f"{planned} of {size - away} on {node} at {at}"


@pytest.mark.parametrize("seed", [1184963481, 3564754459, 403123852, 3869600486])
def test_l5_the_place_elsewhere_of_a_booking_whose_pod_cannot_stay_is_given_to_no_other(seed: int) -> None:
    """Histories that broke the law: a booking was accepted where the plan controller alone knew of it."""
    assert history.play(PlacesMachine, seed=seed).steps == length()


TestPlaces = by_hypothesis(PlacesMachine, examples=4)


def test_l5_guarantees_hold_wherever_pods_run_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(PlacesMachine) == length()
