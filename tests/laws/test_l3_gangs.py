"""L3 where victims are of a gang: all of it leaves, and nobody else."""

import pytest

from cluster import names
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100
from tests.laws.breaking import breaks
from tests.laws.test_l3 import Evict, hold
from tests.laws.watcher import LawWatcher


@pytest.fixture
def full(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """A gang of bob's has a device of each node, two other pods of his the rest; alice's booked one waits."""
    assert laws
    cluster.add_node("n1", a100(0, "n1"))
    cluster.fill()
    cluster.opportunist("c0", 0, node="n1")
    for name in ("b3", "c0"):
        cluster.annotate(name, names.GANG, "g")
        cluster.annotate(name, names.GANG_SIZE, "2")
    cluster.book(count=2)
    cluster.waiting("a")
    return cluster


def test_a_gang_leaves_whole_for_a_device_of_one(full: FakeCluster, laws: LawWatcher, evict: Evict) -> None:
    full.hold("a", hold(3, victims=("b3", "c0")))
    evict("b3")
    evict("c0")
    laws.check()


def test_a_pod_beside_a_gang_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "its victim default/b1 has no device of it"):
        full.hold("a", hold(3, victims=("b1", "b3", "c0")))


def test_a_gang_none_of_which_has_a_device_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "its victim default/b3 has no device of it"):
        full.hold("a", hold(1, victims=("b1", "b3", "c0")))


def test_a_gang_that_could_be_spared_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.gone("b0")
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("a", hold(3, victims=("b3", "c0")))


def test_an_eviction_of_a_gang_that_no_hold_names_breaks_it(
    full: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    full.hold("a", hold(1, victims=("b1",)))
    with breaks(laws, "L3", "default/c0 is evicted"):
        evict("c0")
