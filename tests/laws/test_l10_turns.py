"""L10 where somebody gets more than a share for a turn, and where gangs start or leave."""

import msgspec
import pytest

from cluster import names
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.laws.breaking import breaks
from tests.laws.test_l10 import Evict, queue, turn
from tests.laws.watcher import LawWatcher

FOUR_HOURS = 4 * 3600


def paid(*indices: int, victims: tuple[str, ...]) -> Hold:
    return msgspec.structs.replace(turn(*indices, victims=victims), turn=FOUR_HOURS)


def gang(cluster: FakeCluster, *pods: str) -> None:
    """They start and leave together."""
    for name in pods:
        cluster.annotate(name, names.GANG, "g")
        cluster.annotate(name, names.GANG_SIZE, str(len(pods)))


@pytest.fixture
def full(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob's four pods have all devices, and he wants another; each deserves two."""
    assert laws
    cluster.fill()
    queue(cluster, "b4", "bob")
    return cluster


@pytest.mark.parametrize("hours", [1, 4])
def test_a_turn_that_its_owner_has_not_waited_for_breaks_it(
    full: FakeCluster, laws: LawWatcher, hours: float
) -> None:
    """Two GPUs are withheld, and two more are had for four hours."""
    queue(full, "big", "alice", 4)
    full.clock.advance(hours * 3600)
    full.renew()
    hold = paid(0, 1, 2, 3, victims=("b0", "b1", "b2", "b3"))
    if hours == 4:
        full.hold("big", hold)
        laws.check()
        return
    with breaks(laws, "L10", "its owner is owed 7200 at most"):
        full.hold("big", hold)


def test_a_turn_for_who_has_the_share_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L10", "whose owner holds 4 and deserves 2"):
        queue(full, "a0", "alice", 2)
        full.hold("b4", paid(3, victims=("b3",)))


def test_a_pod_that_is_taken_in_its_turn_breaks_it(full: FakeCluster, laws: LawWatcher, evict: Evict) -> None:
    queue(full, "a0", "alice")
    full.annotate("b3", names.TURN, str(FOUR_HOURS))
    full.hold("a0", turn(3, victims=("b3",)))
    with breaks(laws, "L10", "in its turn"):
        evict("b3")


@pytest.mark.parametrize("size", [2, 3])
def test_a_gang_within_the_share_is_judged_as_one(full: FakeCluster, laws: LawWatcher, size: int) -> None:
    """Two are right, the third breaks it; nothing is said before devices are kept for all."""
    pods = [f"a{number}" for number in range(size)]
    for name in pods:
        queue(full, name, "alice")
    gang(full, *pods)
    for number in range(size - 1):
        full.hold(pods[number], turn(number, victims=(f"b{number}",)))
    last = turn(size - 1, victims=(f"b{size - 1}",))
    if size == 2:
        full.hold(pods[-1], last)
        laws.check()
        return
    with breaks(laws, "L10", "for the gang of default/a2"):
        full.hold(pods[-1], last)


def test_a_gang_that_leaves_counts_with_all_of_its_devices(full: FakeCluster, laws: LawWatcher) -> None:
    gang(full, "b0", "b1", "b2")
    queue(full, "a0", "alice")
    with breaks(laws, "L10", "1 GPUs are taken for default/a0"):
        full.hold("a0", turn(0, victims=("b0", "b1", "b2")))
