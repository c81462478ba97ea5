"""L10: fair shares move nothing by their own hand."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest

from booking.policy.fair_shares import FairShares, ShareGroup, Standing
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH
from tests.laws.breaking import breaks
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]


def turn(*indices: int, victims: tuple[str, ...] = ()) -> Hold:
    devices = tuple(f"GPU-n0-{index}" for index in indices)
    return Hold(
        node="n0", devices=devices, victims=tuple(f"uid-{v}" for v in victims), need="share", at=EPOCH
    )


def queue(cluster: FakeCluster, name: str, user: str, gpus: int = 1) -> None:
    cluster.waiting(name, gpus, user=user)
    raw = cluster.kube.raw(PODS, name, namespace="default")
    cluster.kube.put(PODS, merged(raw, {"spec": {"schedulingGates": [{"name": names.QUEUE}]}}))


def policy(users: Mapping[str, Standing] | None = None, groups: tuple[ShareGroup, ...] = ()) -> FairShares:
    """What is said of users and groups."""
    return FairShares(users=users or {}, groups=groups)


def lead(cluster: FakeCluster) -> None:
    """A controller gives turns."""
    cluster.renew_lease(names.CONTROLLER_LEASE, {names.FAIR_SHARES: "order"})


@pytest.fixture
def full(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob's four pods have all devices; two of alice's wait in line, and two of his."""
    assert laws
    cluster.fill()
    for name, user in {"a0": "alice", "a1": "alice", "b4": "bob", "b5": "bob"}.items():
        queue(cluster, name, user)
    return cluster


def test_who_holds_too_much_may_give_back_to_the_last_gpu_of_the_share(
    full: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    for hers, his, index in (("a0", "b3", 3), ("a1", "b2", 2)):
        full.hold(hers, turn(index, victims=(his,)))
        evict(his)
    laws.check()


def test_a_take_that_leaves_somebody_below_the_share_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    queue(full, "a2", "alice")
    for hers, his, index in (("a0", "b3", 3), ("a1", "b2", 2)):
        full.hold(hers, turn(index, victims=(his,)))
    with breaks(laws, "L10", "the sum of what users lack falls by -1"):
        full.hold("a2", turn(1, victims=("b1",)))


def test_a_turn_before_somebody_who_holds_less_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.gone("b0")
    with breaks(laws, "L10", "before default/a0"):
        full.hold("b4", turn(0))


def test_a_turn_that_nobody_who_holds_less_could_use_is_right(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.fill()
    queue(cluster, "big", "alice", 2)
    queue(cluster, "b4", "bob")
    cluster.gone("b0")
    cluster.hold("b4", turn(0))
    laws.check()


def test_who_has_a_quota_comes_first_below_it(full: FakeCluster, laws: LawWatcher) -> None:
    laws.divide_by(policy(users={"bob": Standing(quota={"*": 4})}))
    full.clock.advance(60)
    full.gone("b0")
    full.hold("b4", turn(0))
    laws.check()
    with breaks(laws, "L10", "the sum of what users lack falls by -1"):
        full.hold("a0", turn(1, victims=("b1",)))


def test_who_weighs_three_times_as_much_keeps_three_of_four(full: FakeCluster, laws: LawWatcher) -> None:
    laws.divide_by(policy(users={"bob": Standing(weight=Fraction(3))}))
    full.clock.advance(60)
    full.hold("a0", turn(3, victims=("b3",)))
    laws.check()
    with breaks(laws, "L10", "for default/a1"):
        full.hold("a1", turn(2, victims=("b2",)))


def test_all_members_of_a_group_have_one_share(full: FakeCluster, laws: LawWatcher) -> None:
    """Carol deserves nothing that bob's group has not, and may have what he has above his part of that."""
    groups = (ShareGroup(name="lab", members=frozenset({"bob", "carol"})),)
    laws.divide_by(policy(groups=groups))
    full.clock.advance(60)
    for name in ("c0", "c1"):
        queue(full, name, "carol")
    full.hold("c0", turn(0, victims=("b0",)))
    full.hold("a0", turn(3, victims=("b3",)))
    full.hold("a1", turn(2, victims=("b2",)))
    laws.check()
    with breaks(laws, "L10", "for default/a2"):
        queue(full, "a2", "alice")
        full.hold("a2", turn(1, victims=("b1",)))


def test_more_than_a_limit_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    laws.divide_by(policy(users={"alice": Standing(limit={"*": 1})}))
    full.clock.advance(60)
    for name, freed in (("a0", "b0"), ("a1", "b1")):
        full.gone(freed)
        if name == "a0":
            full.hold(name, turn(0))
            laws.check()
            continue
        with breaks(laws, "L10", "more than the limit"):
            full.hold(name, turn(1))


def test_a_policy_that_has_just_been_replaced_may_still_be_decided_by(
    full: FakeCluster, laws: LawWatcher
) -> None:
    laws.divide_by(policy(users={"bob": Standing(quota={"*": 4})}))
    full.hold("a0", turn(3, victims=("b3",)))
    laws.check()


def take(cluster: FakeCluster, evict: Evict, number: int) -> None:
    """Bob's pod ``b3`` is taken for alice, and comes back once hers has ended."""
    queue(cluster, f"hers-{number}", "alice")
    cluster.hold(f"hers-{number}", turn(3, victims=("b3",)))
    evict("b3")
    cluster.gone("b3")
    cluster.gone(f"hers-{number}")
    cluster.opportunist("b3", 3)


@pytest.mark.parametrize("hours", [1, 9])
def test_a_fourth_time_within_a_day_breaks_it(
    full: FakeCluster, laws: LawWatcher, evict: Evict, hours: float
) -> None:
    for number in range(3):
        take(full, evict, number)
        full.clock.advance(hours * 3600)
        full.renew()
    if hours == 9:
        take(full, evict, 3)
        laws.check()
        return
    with breaks(laws, "L10", "3 times before within a day"):
        take(full, evict, 3)


def test_what_was_taken_is_not_taken_back_while_nobody_comes_or_goes(
    full: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    full.hold("a0", turn(3, victims=("b3",)))
    evict("b3")
    full.gone("b3")
    full.bind("a0", 3)
    with laws.expecting("L10") as found:
        full.hold("b4", turn(3, victims=("a0",)))
        evict("a0")
    assert any("from whom GPUs were taken" in str(error) for error in found)


def test_a_free_device_that_is_refused_to_who_waits_in_line_breaks_it(
    full: FakeCluster, laws: LawWatcher
) -> None:
    lead(full)
    laws.finish()
    full.gone("b0")
    with laws.expecting("L10") as found:
        laws.finish()
    assert {"a0", "b4"} <= {word for error in found for word in str(error).replace("/", " ").split()}
