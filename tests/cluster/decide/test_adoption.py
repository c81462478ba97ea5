"""Which running pods a booking does not cover on their present nodes, read from values alone (law L5)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.adoption import is_new, misplaced
from cluster.decide.booking_plan.inputs import PlanInputs
from cluster.decide.booking_plan.supply import SupplySnapshot
from cluster.decide.ledger import Ledger
from cluster.objects.assignment import encode_drift
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock
from cluster.objects.namespaces import Namespace
from tests.fakes.objects import A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_node, a_pod

HOUR = timedelta(hours=1)
PAIR = ("uid-p", "b-1")


def planned(
    name: str, *places: tuple[str, int], start: int = 0, end: int = 9, whole: bool = False, **more: Any
) -> Booking:
    """A booking of these devices, in hours from now on."""
    return a_booking(
        name,
        count=sum(count for _, count in places),
        start=EPOCH + start * HOUR,
        end=EPOCH + end * HOUR,
        places=[{"node": node, "count": count} for node, count in places],
        topology="single-node" if whole else "any",
        **more,
    )


MINE = planned("b-1", ("n1", 1))
BOBS = planned("b-2", ("n0", 2), start=5, end=7, whole=True, user="bob")
"""It needs both devices of n0 at once; alice's booking is planned on n1."""

_ROOM_FOR_ONE = {"n0": 3, "n1": 1, "n2": 1}
"""Bob needs two of the three devices of n0."""


def running(
    name: str = "p", *indexes: int, user: str = "alice", node: str = "n0", created: datetime = EPOCH
) -> PodBuilder:
    devices = tuple(f"GPU-{node}-{index}" for index in indexes or (0,))
    return a_pod(name).of(user).asks(len(devices)).created(created).on(node, {"main": devices})


def inputs(
    pairs: tuple[tuple[PodBuilder, Booking], ...],
    *others: Booking,
    nodes: Mapping[str, int] | None = None,
    a6000s: int = 0,
    drift: str | None = None,
    gone: frozenset[str] = frozenset(),
    namespaces: Mapping[str, Namespace] | None = None,
    home: str = "gpu-booking",
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]] | None = None,
) -> PlanInputs:
    """A cluster of two A100 on n0 and one on n1, unless said otherwise; each pod with its booking."""
    ledger = Ledger()
    for name, count in (nodes or {"n0": 2, "n1": 1}).items():
        more = [a6000(count + index, name) for index in range(a6000s)]
        node_drift = drift if name == "n0" else None
        ledger.apply_node(
            a_node(name, *(a100(index, name) for index in range(count)), *more, drift=node_drift)
        )
    pods = {pod.obj.metadata.uid: pod.obj for pod, _ in pairs}
    for pod in pods.values():
        ledger.apply_pod(pod)
    instant = SupplySnapshot(
        now=EPOCH,
        views={view.name: view for view in ledger.views(ledger.nodes())},
        pods=pods,
        cover={pod.obj.metadata.uid: booking for pod, booking in pairs},
        namespaces=namespaces or {},
        home=home,
        gone=gone,
    )
    bookings = {one.name: one for one in (*(booking for _, booking in pairs), *others)}
    return PlanInputs(instant=instant, bookings=bookings, blocks=blocks or {}, holds={})


def of_pod(pod: PodBuilder, *others: Booking, **more: Any) -> set[tuple[str, str]]:
    return set(misplaced(inputs(((pod, MINE),), *others, **more)))


# --- which pods are asked about ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pod", "is_checked"),
    [
        (running(), True),
        (running().with_annotation(names.BOOKING, "b-1"), False),
        (running().with_annotation(names.BOOKING, "b-0"), True),
        (running().with_annotation(names.BOOKING, ""), True),
        (a_pod().of("alice").asks(1), False),
        (a_pod().of("alice").asks(1).on(""), False),
    ],
    ids=["bound", "booked by it", "booked by another", "by none any more", "waiting", "bound to no node"],
)
def test_only_a_running_pod_without_the_booking_s_annotation_is_checked_for_adoption(
    pod: PodBuilder, *, is_checked: bool
) -> None:
    assert is_new(pod.obj, MINE) == is_checked
    assert of_pod(pod, BOBS) == ({PAIR} if is_checked else set())


def test_no_pod_is_misplaced_where_none_is_covered() -> None:
    assert misplaced(inputs((), MINE, BOBS)) == frozenset()


def test_l5_a_pod_in_the_only_place_of_another_booking_is_not_covered() -> None:
    assert of_pod(running(), BOBS) == {PAIR}


def test_a_pod_in_the_place_of_its_own_booking_is_covered() -> None:
    assert of_pod(running(node="n1"), BOBS) == set()


@pytest.mark.parametrize(
    ("other", "is_covered"),
    [
        (planned("b-2", ("n0", 1), start=5, end=7), True),
        (planned("b-2", ("n0", 2), start=9, end=11, whole=True), True),
        (planned("b-2", ("n0", 2), start=8, end=11, whole=True), False),
        (planned("b-2", ("n0", 2), start=5, end=7, whole=True, model=A6000), True),
        (planned("b-2", ("n0", 2), start=-2, end=0, whole=True), True),
    ],
    ids=["needs one device", "begins at its end", "begins before its end", "of another model", "is over"],
)
def test_a_pod_is_covered_where_the_other_booking_keeps_its_place(
    other: Booking, *, is_covered: bool
) -> None:
    assert of_pod(running(), other) == (set() if is_covered else {PAIR})


def test_a_pod_is_covered_where_the_other_booking_can_have_another_place() -> None:
    assert of_pod(running(), BOBS, nodes={"n0": 2, "n1": 1, "n2": 2}) == set()


@pytest.mark.parametrize(("indexes", "is_covered"), [((0,), True), ((0, 1), False)])
def test_a_pod_is_judged_by_all_devices_that_it_has(indexes: tuple[int, ...], *, is_covered: bool) -> None:
    booking = planned("b-1", ("n1", 1), ("n2", 1))
    found = misplaced(inputs(((running("p", *indexes), booking),), BOBS, nodes=_ROOM_FOR_ONE))
    assert found == (frozenset() if is_covered else {PAIR})


def test_a_pod_whose_devices_only_the_agent_knows_is_judged_by_these() -> None:
    unassigned = a_pod().of("alice").asks(1).on("n0")
    assert of_pod(unassigned, BOBS) == set()
    assert of_pod(unassigned, BOBS, drift=encode_drift({"uid-p": {"main": ("GPU-n0-0",)}})) == {PAIR}


def test_maintenance_before_the_booking_s_end_bars_a_pod_where_nothing_else_is_booked() -> None:
    block = MaintenanceBlock(start=EPOCH + 5 * HOUR, end=EPOCH + 6 * HOUR)
    assert of_pod(running(), nodes={"n0": 1, "n1": 1}, blocks={"n0": (block,)}) == {PAIR}
    assert of_pod(running(), nodes={"n0": 1, "n1": 1}, blocks={"n1": (block,)}) == set()


# --- pods whose devices are lost to other bookings anyway --------------------------------------------
_SPARED = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}


@pytest.mark.parametrize(
    ("pod", "more"),
    [
        (running().of_a_daemon_set(), {}),
        (running().with_annotation(names.STATIC_POD, "x"), {}),
        (running(), {"namespaces": {"default": msgspec.convert(_SPARED, Namespace)}}),
        (running(), {"home": "default"}),
    ],
    ids=["of a DaemonSet", "static", "of a protected namespace", "of our own namespace"],
)
def test_a_pod_that_is_never_evicted_is_covered_wherever_it_runs(
    pod: PodBuilder, more: dict[str, Any]
) -> None:
    assert of_pod(pod, BOBS, **more) == set()


def test_a_pod_on_a_node_that_is_gone_is_covered_and_a_pod_elsewhere_is_judged() -> None:
    assert of_pod(running(), BOBS, gone=frozenset({"n0"})) == set()
    assert of_pod(running(), BOBS, gone=frozenset({"n1"})) == {PAIR}


def test_cover_of_an_unknown_pod_is_ignored() -> None:
    known = inputs(((running(), MINE),), BOBS)
    found = replace(known, instant=replace(known.instant, pods={}))
    assert misplaced(known) == {PAIR}
    assert misplaced(found) == frozenset()


def test_a_pod_on_an_unknown_node_is_in_no_booking_s_place() -> None:
    known = inputs(((running("q", user="carol", node="n9"), _CAROLS), (running(), MINE)), BOBS)
    views = {name: view for name, view in known.instant.views.items() if name != "n9"}
    assert misplaced(replace(known, instant=replace(known.instant, views=views))) == {PAIR}


# --- several that cannot all stay --------------------------------------------------------------------
_CAROLS = planned("b-3", ("n2", 1), user="carol")


def _barred_of_two(
    mine: Booking, hers: Booking, first: PodBuilder, second: PodBuilder, *, is_reversed: bool
) -> set[str]:
    pairs = [(first, mine), (second, hers)]
    if is_reversed:
        pairs.reverse()
    return {uid for uid, _ in misplaced(inputs(tuple(pairs), BOBS, nodes=_ROOM_FOR_ONE))}


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "reversed"])
class TestTwoThatCannotBothStay:
    """The first pod stays, in whatever order they are listed."""

    def test_the_pod_of_the_booking_that_began_first_stays(self, *, is_reversed: bool) -> None:
        earlier = planned("b-9", ("n2", 1), start=-1, user="carol")
        hers = running("q", 1, user="carol", created=EPOCH + HOUR)
        assert _barred_of_two(MINE, earlier, running(), hers, is_reversed=is_reversed) == {"uid-p"}

    def test_the_pod_of_the_first_booking_by_name_stays_where_two_began_together(
        self, *, is_reversed: bool
    ) -> None:
        older = running("a", 1, user="carol", created=EPOCH - HOUR)
        assert _barred_of_two(MINE, _CAROLS, running(), older, is_reversed=is_reversed) == {"uid-a"}

    def test_among_pods_of_one_booking_the_one_created_first_stays(self, *, is_reversed: bool) -> None:
        both = planned("b-1", ("n1", 1), ("n2", 1))
        older = running("z", 1, created=EPOCH - HOUR)
        assert _barred_of_two(both, both, running(), older, is_reversed=is_reversed) == {"uid-p"}

    def test_among_pods_created_together_the_first_by_uid_stays(self, *, is_reversed: bool) -> None:
        both = planned("b-1", ("n1", 1), ("n2", 1))
        assert _barred_of_two(both, both, running("p"), running("q", 1), is_reversed=is_reversed) == {"uid-q"}


def test_pods_that_can_all_stay_are_all_covered() -> None:
    pairs = ((running(), MINE), (running("q", 1, user="carol"), _CAROLS))
    assert misplaced(inputs(pairs, BOBS, nodes={"n0": 4, "n1": 1, "n2": 1})) == frozenset()


def test_pods_in_each_other_s_place_are_both_covered() -> None:
    pairs = ((running(node="n2"), MINE), (running("q", user="carol", node="n1"), _CAROLS))
    assert misplaced(inputs(pairs, BOBS, nodes={"n0": 2, "n1": 1, "n2": 1})) == frozenset()


def test_two_misplaced_pods_are_both_reported_with_their_bookings() -> None:
    pairs = ((running(), MINE), (running("q", 1, user="carol"), _CAROLS))
    found = misplaced(inputs(pairs, BOBS, nodes={"n0": 2, "n1": 1, "n2": 1}))
    assert found == {PAIR, ("uid-q", "b-3")}


def test_a_model_whose_pods_can_all_stay_is_not_affected_by_another_model() -> None:
    hers = planned("b-3", ("n1", 1), user="carol", model=A6000)
    whole = planned("b-4", ("n1", 2), start=5, end=7, whole=True, model=A6000)
    pairs = ((running(), MINE), (running("q", 2, user="carol"), hers))
    found = misplaced(inputs(pairs, BOBS, whole, a6000s=2))
    assert found == {PAIR}


# --- plans that cannot be kept -----------------------------------------------------------------------
def test_an_impossible_plan_bars_no_pod_from_its_own_booking_s_place() -> None:
    assert of_pod(running(node="n1"), BOBS, nodes={"n0": 1, "n1": 1}) == set()


def test_l5_no_pod_is_adopted_in_the_place_that_an_outdated_plan_will_need() -> None:
    carols = planned("b-3", ("n0", 1), ("n1", 2), user="carol")
    alices = planned("b-4", ("n0", 2), whole=True, user="alice")
    pairs = ((running(user="alice", node="n2"), alices),)
    as_planned = inputs(pairs, carols, nodes={"n0": 3, "n1": 2, "n2": 1})
    assert misplaced(as_planned) == frozenset()
    shrunk = inputs(pairs, carols, nodes={"n0": 3, "n1": 1, "n2": 1})
    assert misplaced(shrunk) == {("uid-p", "b-4")}
