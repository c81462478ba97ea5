"""The loop: which process acts, when, and that one failure does not delay the others."""

import threading
from datetime import timedelta

import pytest

from booking.controller.reclaimer.fair_shares.record import RecordStore
from booking.controller.reclaimer.fair_shares.turns import PLACED_WITHIN, Turns
from booking.controller.reclaimer.reclaimer import EVERY, LONG, RESTS, RESTS_FOR
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, a_pod


def writes(cluster: FakeCluster) -> list[str]:
    return [call.verb for call in cluster.kube.calls if call.verb in {"PATCH", "POST", "PUT", "DELETE"}]


def test_nothing_is_done_while_the_cache_cannot_be_trusted(cluster: FakeCluster) -> None:
    cluster.unready_reason = "There have been no events of pods from the API server for 150 seconds."
    cluster.reconcile(3)
    assert writes(cluster) == []
    cluster.unready_reason = None
    cluster.reconcile(2)
    assert cluster.evicted() == ["b3"]


def test_failing_comebacks_do_not_delay_an_eviction(cluster: FakeCluster) -> None:
    cluster.evictor.stuck = Unreachable(Request("GET", "/"), "connection refused")
    cluster.reconcile(2)
    assert cluster.evicted() == ["b3"]


def test_a_pod_that_cannot_be_written_does_not_delay_another(cluster: FakeCluster) -> None:
    cluster.book(count=2)
    cluster.waiting("a2")
    cluster.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    cluster.reconcile(3)
    assert sorted(cluster.evicted()) == ["b2", "b3"]


def test_no_other_pod_is_evicted_for_devices_that_a_pod_gives_back_at_its_end(cluster: FakeCluster) -> None:
    """One booking follows another at the same instant: the pod of the first leaves, no other has to."""
    cluster.gone("a")
    cluster.gone("b0")
    cluster.end_booking()  # of the fixture
    cluster.book("carol", user="carol", end=cluster.clock.now().replace(hour=10))
    cluster.waiting("c", user="carol")
    cluster.bind("c", 0)
    cluster.book("alice", user="alice", start=cluster.clock.now().replace(hour=10))
    cluster.waiting("d", user="alice")
    cluster.reconcile()
    assert cluster.held("d") is None
    cluster.after(3600)
    cluster.reconcile(2)
    assert cluster.ended() == ["c"]
    assert cluster.evicted() == []
    held = cluster.held("d")
    assert held is not None
    assert (held.devices, held.victims) == (("GPU-n0-0",), ())


def test_a_device_that_is_no_longer_held_is_planned_with_once_every_cache_shows_it(
    cluster: FakeCluster,
) -> None:
    cluster.book("carols", user="carol")
    cluster.waiting("c", user="carol")
    cluster.gone("b0")
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-0",), at=cluster.clock.now()))
    cluster.hold("c", Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-none",), at=cluster.clock.now()))
    cluster.end_booking()
    cluster.sync()
    cluster.reclaimer.reconcile()
    assert (cluster.held("a"), cluster.held("c")) == (None, None)
    cluster.reclaimer.reconcile()
    assert cluster.held("c") is None
    cluster.reconcile(2)
    assert cluster.held("c") is None  # a device is free for it


def test_a_change_of_the_cache_triggers_the_loop(cluster: FakeCluster) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=cluster.reclaimer.run, args=(stop,))
    thread.start()
    try:
        cluster.sync()
        eventually(lambda: cluster.annotation("a", names.HOLD))
        cluster.sync()
        eventually(lambda: cluster.evicted() == ["b3"])
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()  # it has not waited for its next pass


def test_a_turn_that_comes_too_soon_after_others_is_given_when_it_is_due(cluster: FakeCluster) -> None:
    cost = 0.01

    def slow() -> FairShares:
        cluster.clock.advance(cost)
        return FairShares()

    cluster.end_booking()
    cluster.gone("a")
    cluster.fair_shares = slow
    cluster.restart()
    cluster.create(a_pod("q").of("carol").asks(1).wants(A100).behind(names.QUEUE))
    cluster.reconcile()
    cost = 0.0  # of later passes, however many there are
    cluster.gone("b0")
    stop = threading.Event()
    thread = threading.Thread(target=cluster.reclaimer.run, args=(stop,))
    thread.start()
    try:
        cluster.sync()
        eventually(lambda: not cluster.reclaimer.is_triggered)
        cluster.clock.until_waiting()
        assert cluster.clock.waits[-1] < EVERY
        cluster.clock.advance(cluster.clock.waits[-1])
        eventually(lambda: cluster.annotation("q", names.HOLD))
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize(
    ("waiting", "rests"), [(LONG - 1, [EVERY, EVERY, EVERY]), (LONG, [EVERY, RESTS * 0.01, EVERY, RESTS_FOR])]
)
def test_the_loop_rests_after_each_pass_over_a_long_line(
    cluster: FakeCluster, waiting: int, rests: list[float]
) -> None:
    used = iter((0.0, 0.01, 1.0, 2.0, 3.0))
    cluster.processor = lambda: next(used)
    cluster.restart()
    cluster.leads = False
    for number in range(waiting):
        cluster.cache.of(PODS).upsert(a_pod(f"q{number}").asks(1).behind(names.QUEUE).obj)
    cluster.reclaimer.round()
    stop = threading.Event()
    thread = threading.Thread(target=cluster.reclaimer.run, args=(stop,))
    thread.start()
    found: list[float] = []
    try:
        for _ in rests:
            cluster.clock.until_waiting()
            found.append(cluster.clock.waits[-1])
            cluster.clock.advance(found[-1])
    finally:
        stop.set()
        thread.join(60)
    assert found == pytest.approx(rests)


@pytest.mark.parametrize("waits", [None, "queued", "old", "gang", "hold"])
def test_shares_rest_while_no_pod_waits_but_one_that_is_being_placed(
    cluster: FakeCluster, waits: str | None
) -> None:
    cluster.gone("a")
    pod = a_pod("q").of("carol").asks(1).created(cluster.clock.now())
    match waits:
        case "queued":
            pod = pod.behind(names.QUEUE)
        case "old":
            pod = pod.created(cluster.clock.now() - timedelta(seconds=PLACED_WITHIN))
        case "gang":
            pod = pod.with_annotation(names.GANG, "g").with_annotation(names.GANG_SIZE, "2")
    cluster.kube.put(PODS, pod.raw)
    if waits == "hold":
        cluster.hold("q", Hold(node="n0", devices=("GPU-n0-0",), at=cluster.clock.now()))
    cluster.sync()
    turns = Turns(cluster.clock, FairShares, RecordStore(cluster.kube, names.NAMESPACE))
    assert turns.rest(cluster.snapshot()) is (waits is None)
