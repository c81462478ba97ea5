"""L6: when state is unknown nothing is evicted, ended or bound."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from cluster import event_reasons, names
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH
from tests.laws.breaking import breaks
from tests.laws.changes import Maker
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]


@pytest.fixture
def crowded(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob's pods have all devices, and ``b3`` must go for alice's."""
    assert laws
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=EPOCH))
    return cluster


def lose_agent(cluster: FakeCluster, seconds: float) -> None:
    """The agent of the node says nothing any more; the mirror does."""
    cluster.lose_agent("n0")
    cluster.clock.advance(seconds)
    cluster.renew()


def test_a_bind_on_a_node_whose_agent_is_unresponsive_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.waiting("a")
    lose_agent(cluster, 75)
    with breaks(laws, "L6", "default/a is bound to n0, whose agent has been unresponsive for 75.0 s"):
        cluster.bind("a", 0)


def test_a_bind_a_moment_earlier_is_right(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.waiting("a")
    lose_agent(cluster, 74.9)
    cluster.bind("a", 0)
    laws.check()


def test_a_pod_without_gpus_may_be_bound_anywhere(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.waiting("a", 0)
    lose_agent(cluster, 100)
    cluster.bind("a")
    laws.check()


def test_a_bind_on_a_node_without_an_agent_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.waiting("a")
    with breaks(laws, "L6", "default/a is bound to n9, whose agent has never renewed its Lease"):
        cluster.bind("a", 0, node="n9")


def test_an_eviction_on_a_node_whose_agent_is_unresponsive_breaks_it(
    crowded: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    lose_agent(crowded, 80)
    with breaks(laws, "L6", "default/b3 is evicted on n0, whose agent has been unresponsive for 80.0 s"):
        evict("b3")


def test_the_leeway_is_what_a_write_may_take_after_its_decision(cluster: FakeCluster) -> None:
    laws = watch_memory(cluster.kube, cluster.clock, leeway=5.0)
    cluster.waiting("a")
    cluster.waiting("c")
    lose_agent(cluster, 79)
    cluster.bind("a", 0)
    laws.check()
    cluster.clock.advance(1)
    with breaks(laws, "L6", "default/c is bound to n0"):
        cluster.bind("c", 1)


@pytest.fixture
def over(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Alice's pod ``a`` runs, and its booking has just ended."""
    assert laws
    cluster.book()
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.clock.advance(10)
    cluster.renew()
    cluster.end_booking()
    return cluster


def decide(cluster: FakeCluster) -> None:
    cluster.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["uid-a"]}}, subresource="status")


def mark_to_end(cluster: FakeCluster) -> None:
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}
    body = {"status": {"conditions": [condition]}}
    cluster.kube.patch(PODS, "a", body, namespace="default", subresource="status")
    cluster.kube.delete(PODS, "a", namespace="default")


def test_pods_end_while_the_mirror_renews_its_lease(over: FakeCluster, laws: LawWatcher) -> None:
    over.clock.advance(59)
    decide(over)
    mark_to_end(over)
    laws.check()


def test_deciding_who_ends_while_the_mirror_is_stale_breaks_it(over: FakeCluster, laws: LawWatcher) -> None:
    over.clock.advance(60)
    with breaks(laws, "L6", "b-1's pods are to end, and the mirror was not renewed for 60.0 s"):
        decide(over)


def test_a_pod_that_is_ended_while_the_mirror_is_stale_breaks_it(over: FakeCluster, laws: LawWatcher) -> None:
    decide(over)
    over.clock.advance(61)
    with breaks(laws, "L6", "default/a are to end, and the mirror was not renewed for 61.0 s"):
        mark_to_end(over)


def test_an_eviction_for_a_mirrored_booking_goes_on_without_the_mirror(
    crowded: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    crowded.stop_mirror()
    crowded.clock.advance(70)
    crowded.renew()
    evict("b3")
    laws.check()


def test_a_pod_loses_its_cover_annotation_when_it_is_decided_who_ends(
    over: FakeCluster, laws: LawWatcher
) -> None:
    over.annotate("a", names.BOOKING, "b-1")
    over.kube.patch(BOOKINGS, "b-1", {"status": {"ending": []}}, subresource="status")
    over.annotate("a", names.BOOKING, None)
    laws.check()


def test_a_pod_that_loses_its_cover_annotation_before_that_is_decided_breaks_it(
    over: FakeCluster, laws: LawWatcher
) -> None:
    over.annotate("a", names.BOOKING, "b-1")
    with breaks(laws, "L6", "default/a is not booked any more, and it is not decided who ends with b-1"):
        over.annotate("a", names.BOOKING, None)


def test_a_cover_annotation_of_a_booking_that_still_runs_may_go(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.book()
    cluster.waiting("a")
    cluster.annotate("a", names.BOOKING, "b-1")
    cluster.annotate("a", names.BOOKING, None)
    laws.check()


# --- whose clock is wrong, by their Lease --------------------------------------------------------------
def renew(
    cluster: FakeCluster, lease: str, *, ahead: float, holder: str = "somebody_1", times: int = 2
) -> None:
    """The holder of a Lease renews it, by a clock that is so many seconds ahead."""
    for _ in range(times):
        cluster.clock.advance(2)
        now = cluster.clock.now() + timedelta(seconds=ahead)
        spec = {"holderIdentity": holder, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        cluster.kube.put(LEASES, {"metadata": {"name": lease, "namespace": names.NAMESPACE}, "spec": spec})
    cluster.renew()


@pytest.mark.parametrize("lease", [names.SCHEDULER_LEASE, names.EXTENDER_LEASE])
def test_a_bind_by_an_extender_whose_clock_is_wrong_breaks_it(
    cluster: FakeCluster, laws: LawWatcher, lease: str
) -> None:
    cluster.waiting("a")
    renew(cluster, lease, ahead=31, times=3)
    with breaks(laws, "L6", rf"default/a is bound to n0 by the holder of .* {lease}, .* wrong by \+31.0 s"):
        cluster.bind("a", 0)


def test_an_eviction_by_a_controller_whose_clock_is_wrong_breaks_it(
    crowded: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    renew(crowded, names.CONTROLLER_LEASE, ahead=-40, times=3)
    with breaks(laws, "L6", r"default/b3 is evicted by the holder of .*, whose clock is wrong by -40.0 s"):
        evict("b3")


def test_devices_that_are_kept_by_a_controller_whose_clock_is_wrong_break_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    renew(cluster, names.CONTROLLER_LEASE, ahead=3600, times=3)
    hold = Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=EPOCH)
    with breaks(laws, "L6", r"Devices are kept for default/a by the holder of .* wrong by \+3600.0 s"):
        cluster.hold("a", hold)


def test_an_end_by_a_controller_whose_clock_is_wrong_breaks_it(over: FakeCluster, laws: LawWatcher) -> None:
    renew(over, names.CONTROLLER_LEASE, ahead=45, times=3)
    with breaks(laws, "L6", r"It is decided who ends with b-1 by the holder of .* wrong by \+45.0 s"):
        decide(over)


OF_RECLAIMING = names.CONTROLLER_LEASE


@pytest.mark.parametrize(
    ("renewals", "rest"),
    [
        pytest.param([(OF_RECLAIMING, 30.0, "one_1")] * 3, 0, id="right enough"),
        pytest.param([(names.SCHEDULER_LEASE, 300.0, "one_1")] * 3, 0, id="another part"),
        # The newest was under way for a minute.
        pytest.param([*[(OF_RECLAIMING, 0.0, "one_1")] * 2, (OF_RECLAIMING, -60.0, "one_1")], 0, id="late"),
        pytest.param(
            [*[(OF_RECLAIMING, 300.0, "one_1")] * 3, (OF_RECLAIMING, 0.0, "two_2")], 0, id="another holder"
        ),
        pytest.param([(OF_RECLAIMING, 300.0, "one_1")] * 3, 15, id="nobody holds it any more"),
    ],
)
def test_an_eviction_by_one_whose_clock_is_not_known_to_be_wrong_is_right(
    crowded: FakeCluster,
    laws: LawWatcher,
    evict: Evict,
    *,
    renewals: list[tuple[str, float, str]],
    rest: float,
) -> None:
    for lease, ahead, holder in renewals:
        renew(crowded, lease, ahead=ahead, holder=holder, times=1)
    crowded.clock.advance(rest)
    crowded.renew()
    evict("b3")
    laws.check()


# --- on what a hold was planned ------------------------------------------------------------------------
def planned(cluster: FakeCluster, state: str) -> None:
    """Devices are kept for alice's pod by one who says to know these versions."""
    hold = Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=cluster.clock.now(), state=state)
    cluster.hold("a", hold)


@pytest.fixture
def contested(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob has all devices, alice's pod waits."""
    assert laws
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    return cluster


def newest(cluster: FakeCluster) -> int:
    return int(cluster.kube.list(PODS).resource_version)


@pytest.mark.parametrize("kind", ["leases", "bookings", "nodes", "pods"])
def test_a_hold_by_one_without_events_of_a_kind_for_150_s_breaks_it(
    contested: FakeCluster, laws: LawWatcher, kind: str
) -> None:
    known = newest(contested)
    later: dict[str, Callable[[], object]] = {
        "leases": contested.renew,
        "bookings": lambda: contested.kube.patch(BOOKINGS, "b-1", {"metadata": {"labels": {"x": "y"}}}),
        "nodes": lambda: contested.kube.patch(NODES, "n0", {"metadata": {"labels": {"x": "y"}}}),
        "pods": lambda: contested.waiting("c", 0),
    }
    contested.clock.advance(1)
    later[kind]()
    contested.clock.advance(150)
    contested.renew()
    with breaks(laws, "L6", rf"one who knows {kind} as of version {known}, and version \d+ had come 150 s"):
        planned(contested, f"{kind}={known}")


def test_a_hold_by_one_whose_caches_are_fresher_is_right(contested: FakeCluster, laws: LawWatcher) -> None:
    known = newest(contested)
    contested.clock.advance(1)
    contested.renew()
    contested.clock.advance(149.9)
    contested.renew()
    planned(contested, f"leases={known}")
    laws.check()


def test_a_part_is_not_stale_where_there_was_no_event(contested: FakeCluster, laws: LawWatcher) -> None:
    known = newest(contested)
    # A pod that has ended is not followed.
    ended = {"metadata": {"name": "e", "namespace": "default"}, "status": {"phase": "Succeeded"}}
    contested.kube.put(PODS, ended)
    contested.clock.advance(300)
    contested.renew()
    planned(contested, f"bookings={known},nodes={known},pods={known}")
    laws.check()


def test_what_was_known_before_an_outage_counts_from_its_beginning(
    contested: FakeCluster, laws: LawWatcher
) -> None:
    known = newest(contested)
    contested.clock.advance(1)
    contested.renew()
    contested.clock.advance(10)
    laws.fault("the API server stops")
    contested.clock.advance(200)
    laws.fault("the API server goes on")
    contested.renew()
    planned(contested, f"leases={known}")
    laws.check()


# --- parts that are known to know too little -----------------------------------------------------------
@pytest.fixture
def maker() -> list[Maker]:
    """Who writes, the last of these."""
    return [Maker(name="nobody")]


@pytest.fixture
def known(cluster: FakeCluster, maker: list[Maker]) -> LawWatcher:
    """Watches, and knows the writer."""
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    return watch_memory(cluster.kube, cluster.clock, maker=lambda: maker[-1])


def hold_of_b3(cluster: FakeCluster, _evict: Evict) -> None:
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=EPOCH))


def evict_b3(cluster: FakeCluster, evict: Evict) -> None:
    hold_of_b3(cluster, evict)
    evict("b3")


def bind_a(cluster: FakeCluster, _evict: Evict) -> None:
    cluster.gone("b0")
    cluster.bind("a", 0)


def decide_it(cluster: FakeCluster, _evict: Evict) -> None:
    cluster.end_booking()
    decide(cluster)


Does = Callable[[FakeCluster, Evict], None]
ACTS = [
    pytest.param(hold_of_b3, "Devices are kept for default/a", id="hold"),
    pytest.param(evict_b3, "default/b3 is evicted", id="eviction"),
    pytest.param(bind_a, "default/a is bound to n0", id="bind"),
    pytest.param(decide_it, "It is decided who ends with b-1", id="end"),
]
"""Acts that nobody performs who knows too little, and how the breach is reported."""


@pytest.mark.parametrize(("act", "reported"), ACTS)
@pytest.mark.parametrize(
    ("who", "why"),
    [
        (Maker(name="part", staleness=150.1), "who has had no events for 150.1 s"),
        (Maker(name="part", skew=31.0), r"whose clock is wrong by \+31.0 s"),
        (Maker(name="part", skew=-3600.0), r"whose clock is wrong by -3600.0 s"),
    ],
)
def test_a_part_that_acts_and_knows_too_little_breaks_it(
    cluster: FakeCluster,
    known: LawWatcher,
    maker: list[Maker],
    evict: Evict,
    *,
    act: Does,
    reported: str,
    who: Maker,
    why: str,
) -> None:
    maker.append(who)
    with known.expecting("L6") as found:
        act(cluster, evict)
    assert any(re.fullmatch(f"{reported} by part, {why}[.]", error.message) for error in found), found


@pytest.mark.parametrize(("act", "reported"), ACTS)
def test_a_part_that_knows_just_enough_may_act(
    cluster: FakeCluster, known: LawWatcher, maker: list[Maker], evict: Evict, *, act: Does, reported: str
) -> None:
    assert reported
    maker.append(Maker(name="part", staleness=150.0, skew=-30.0))
    act(cluster, evict)
    known.check()


def test_a_mirror_that_vouches_for_what_its_database_does_not_say_breaks_it(
    cluster: FakeCluster, known: LawWatcher, maker: list[Maker]
) -> None:
    cluster.waiting("c")
    maker.append(Maker(name="server", problem="no such table: meta"))
    cluster.clock.advance(1)
    with breaks(known, "L6", "are said to be true by server, whose database says: no such table: meta"):
        cluster.renew()


def test_a_booking_that_is_written_without_a_database_breaks_it(
    cluster: FakeCluster, known: LawWatcher, maker: list[Maker]
) -> None:
    cluster.waiting("c")
    maker.append(Maker(name="server", problem="no such table: meta"))
    with breaks(known, "L6", "The Booking b-1 is written by server, whose database says: no such table"):
        cluster.end_booking(at=EPOCH + timedelta(days=1))
