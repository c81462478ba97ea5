"""L3 is judged at the versions that a hold says to have been planned on."""

import pytest

from cluster import names
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.hold import Hold, encode_versions
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH
from tests.laws.breaking import breaks
from tests.laws.memory import watch_memory
from tests.laws.versions import versions_of
from tests.laws.watcher import LawWatcher

KINDS = (PODS, NODES, BOOKINGS, LEASES)


@pytest.fixture
def late(cluster: FakeCluster) -> LawWatcher:
    """A watcher with some seconds of leeway."""
    return watch_memory(cluster.kube, cluster.clock, leeway=5.0)


@pytest.fixture
def full(cluster: FakeCluster, late: LawWatcher) -> FakeCluster:
    """Bob's four pods have all devices, and alice's booked one waits."""
    assert late
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    return cluster


def known(cluster: FakeCluster) -> str:
    """What a reclaimer knows that has had every event."""
    return encode_versions({kind.plural: cluster.kube.list(kind).resource_version for kind in KINDS})


def hold(state: str | None, index: int = 3, victim: str = "b3") -> Hold:
    devices, victims = (f"GPU-n0-{index}",), (f"uid-{victim}",)
    return Hold(node="n0", devices=devices, victims=victims, at=EPOCH, state=state)


def test_a_hold_that_was_just_when_it_was_planned_is_just(full: FakeCluster, late: LawWatcher) -> None:
    planned = hold(known(full))
    full.gone("b0")
    full.hold("a", planned)
    late.check()


def test_a_hold_that_was_needless_when_it_was_planned_breaks_it_though_it_was_not_a_moment_before(
    full: FakeCluster, late: LawWatcher
) -> None:
    full.gone("b0")
    with breaks(late, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("a", hold(known(full)))


def test_the_same_hold_is_innocent_where_it_does_not_name_the_versions_it_was_planned_on(
    full: FakeCluster, late: LawWatcher
) -> None:
    full.gone("b0")
    full.hold("a", hold(None))
    late.check()


def test_each_kind_has_its_own_version(full: FakeCluster, late: LawWatcher) -> None:
    before, pods = full.kube.list(NODES), full.kube.list(PODS)
    full.add_node("n1")
    state = encode_versions(
        {
            "bookings": full.kube.list(BOOKINGS).resource_version,
            "nodes": before.resource_version,
            "pods": pods.resource_version,
        }
    )
    full.hold("a", hold(state))
    late.check()
    full.annotate("a", names.HOLD, None)
    with breaks(late, "L3", "n1 has 4 devices for which nobody has to go"):
        full.hold("a", hold(known(full)))


def test_a_plan_knows_the_holds_that_its_maker_has_written_before_though_no_watch_has_delivered_them(
    full: FakeCluster, late: LawWatcher
) -> None:
    full.book("b-2", user="carol")
    full.waiting("c", user="carol")
    state = known(full)
    full.hold("c", hold(state))
    full.hold("a", hold(state, 2, "b2"))
    late.check()


def test_versions_that_were_outdated_before_the_leeway_are_not_trusted(
    full: FakeCluster, late: LawWatcher
) -> None:
    planned = hold(known(full))
    full.gone("b0")
    full.clock.advance(6)
    full.renew()
    with breaks(late, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("a", planned)


def test_an_earlier_list_counts_as_long_as_nothing_of_its_kind_has_changed(full: FakeCluster) -> None:
    laws = watch_memory(full.kube, full.clock, leeway=5.0)
    state = known(full)
    full.gone("b0")
    full.hold("a", hold(state))
    laws.check()


def test_the_reclaimer_names_every_kind_that_it_has_read(full: FakeCluster, late: LawWatcher) -> None:
    full.sync()
    versions = {kind.plural: int(full.kube.list(kind).resource_version) for kind in KINDS}
    full.reclaimer.reconcile()
    assert versions_of(full.kept()) == versions
    late.check()


@pytest.mark.parametrize("text", [None, "", "4711", "pods", "pods=", "pods=x", "=3"])
def test_an_unreadable_state_of_a_hold_names_no_versions(text: str | None) -> None:
    assert versions_of(hold(text)) == {}


def test_written_versions_are_read_again() -> None:
    assert encode_versions({"pods": "12", "nodes": "7"}) == "nodes=7,pods=12"
    assert versions_of(hold("nodes=7,pods=12")) == {"nodes": 7, "pods": 12}
