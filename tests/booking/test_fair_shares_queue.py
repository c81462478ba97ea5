"""The lines that people see are those in which pods are served."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.queue import queues
from booking.policy.fair_shares import FairShares, Mode, ShareGroup, Standing
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import Account, Books, Tenant
from cluster.decide.fairshare.settings import HOUR
from cluster.kube.resources import PODS
from cluster.objects.replaced_fields import Replaced, encode_replaced
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, a_pod


@pytest.fixture
def cluster() -> FakeCluster:
    """Bob has all GPUs; two pods of his are older than alice's."""
    found = FakeCluster()
    found.add_node()
    found.fill()
    for minute, (name, user) in enumerate((("bob-1", "bob"), ("bob-2", "bob"), ("alice", "alice"))):
        born = {"metadata": {"creationTimestamp": f"2026-11-23T08:5{minute}:00Z"}}
        found.create(a_pod(name).of(user).asks(1).behind(names.QUEUE), born)
    return found


def line(cluster: FakeCluster, shares: FairShares, *, by_age: bool = False) -> Sequence[str]:
    found = queues(cluster.snapshot(), HolderCache(), shares, by_age=by_age)[A100].waiting
    assert [one.position for one in found] == list(range(1, len(found) + 1))
    return [one.pod.metadata.name for one in found]


def test_by_shares_or_by_age(cluster: FakeCluster) -> None:
    assert line(cluster, FairShares(mode="order")) == ["alice", "bob-1", "bob-2"]
    assert line(cluster, FairShares(mode="off"), by_age=True) == ["bob-1", "bob-2", "alice"]


@pytest.mark.parametrize(
    ("own", "replaced", "first"),
    [
        (None, None, "bob-1"),
        (None, 50, "bob-2"),
        ("-1", 50, "bob-1"),
        ("7", None, "bob-2"),
        ("x", 50, "bob-2"),
    ],
)
def test_a_users_own_pods_go_by_what_they_ask_for_else_by_the_class_that_was_replaced(
    cluster: FakeCluster, own: str | None, replaced: int | None, first: str
) -> None:
    cluster.annotate("bob-2", names.PRIORITY, own)
    cluster.annotate("bob-2", names.REPLACED, encode_replaced(Replaced(priority=replaced)))
    assert line(cluster, FairShares())[:2] == ["alice", first]


def test_who_has_reached_a_limit_is_in_line_behind_all_others(cluster: FakeCluster) -> None:
    limited = FairShares(mode="order", users={"alice": Standing(limit={"*": 0})})
    assert line(cluster, limited) == ["bob-1", "bob-2", "alice"]


# --- gangs, groups and turns --------------------------------------------------------------------------------


def in_gang(cluster: FakeCluster, name: str, size: int, *, user: str = "alice") -> None:
    pod = a_pod(name).of(user).asks(2).behind(names.QUEUE).with_annotation(names.GANG, "run")
    cluster.create(pod.with_annotation(names.GANG_SIZE, str(size)))


def test_a_gang_has_one_place_in_line_once_all_of_its_pods_exist(cluster: FakeCluster) -> None:
    in_gang(cluster, "g-0", 2, user="carol")
    found = queues(cluster.snapshot(), HolderCache(), FairShares(mode="order"))[A100]
    assert [(one.pod.metadata.name, one.there, one.gang.size) for one in found.gathering] == [("g-0", 1, 2)]
    assert all(one.gang is None for one in found.waiting)
    in_gang(cluster, "g-1", 2, user="carol")
    found = queues(cluster.snapshot(), HolderCache(), FairShares(mode="order"))[A100]
    assert not found.gathering
    assert [(one.pods, one.gpus) for one in found.waiting if one.gang] == [(2, 4)]
    assert len(found.waiting) == 4


def test_a_gang_for_which_the_nodes_are_too_small_is_in_no_line(cluster: FakeCluster) -> None:
    for number in range(3):
        in_gang(cluster, f"g-{number}", 3)
    found = queues(cluster.snapshot(), HolderCache(), FairShares(mode="order"))[A100]
    assert not found.gathering
    assert len(found.waiting) == 3


def test_pods_of_another_user_are_of_another_gang(cluster: FakeCluster) -> None:
    in_gang(cluster, "g-0", 2)
    in_gang(cluster, "g-1", 2, user="carol")
    found = queues(cluster.snapshot(), HolderCache(), FairShares(mode="order"))[A100]
    assert [one.there for one in found.gathering] == [1, 1]


def test_a_turn_is_due_when_what_was_withheld_pays_for_it(cluster: FakeCluster) -> None:
    """Of four GPUs alice deserves two, and needs two more for four hours; she has waited for one of four."""
    cluster.create(a_pod("big").of("alice").asks(4).behind(names.QUEUE))
    cluster.kube.delete(PODS, "alice", namespace="default")
    snapshot, now = cluster.snapshot(), microseconds(cluster.clock.now())
    lag = {Tenant("alice"): Account(lag=2 * HOUR, starved_since=now - HOUR)}
    recorded = {A100: Books(at=now, accounts=lag)}
    shares = FairShares(mode="reclaim")
    found = queues(snapshot, HolderCache(), shares, recorded=recorded)[A100]
    due = {one.pod.metadata.name: one.turn_due for one in found.waiting}
    assert due == {"big": snapshot.now + timedelta(hours=3), "bob-1": None, "bob-2": None}


@pytest.mark.parametrize("mode", ["reclaim", "order"])
def test_it_is_said_when_gpus_are_taken_back_as_the_controller_has_found_out(
    cluster: FakeCluster, mode: Mode
) -> None:
    """For who is below the share: not for bob."""
    snapshot, now = cluster.snapshot(), microseconds(cluster.clock.now())
    books = Books(at=now, due={"uid-alice": now + HOUR, "uid-bob-1": now + HOUR, "uid-gone": now})
    found = queues(snapshot, HolderCache(), FairShares(mode=mode), recorded={A100: books})[A100]
    found_out = {one.pod.metadata.name: one.taken_at for one in found.waiting if one.taken_at}
    assert found_out == ({"alice": snapshot.now + timedelta(hours=1)} if mode == "reclaim" else {})


def test_groups_of_the_api_server_and_namespaces_divide_the_line(cluster: FakeCluster) -> None:
    """Everybody else in the namespace shares a part, alice has another: three, and half of the rest."""
    cluster.annotate("alice", names.GROUPS, '["oidc:vision"]')
    vision = ShareGroup(
        name="vision", kubernetes_groups=frozenset({"oidc:vision"}), standing=Standing(quota={"*": 3})
    )
    others = ShareGroup(name="others", namespaces=frozenset({"default"}))
    for number in range(3):
        pod = a_pod(f"more-{number}").of("alice").asks(1).behind(names.QUEUE)
        cluster.create(pod.with_annotation(names.GROUPS, '["oidc:vision"]'))
    found = queues(cluster.snapshot(), HolderCache(), FairShares(mode="order", groups=(vision, others)))[A100]
    assert found.deserves(Tenant("", "vision")) == found.deserves(Tenant("alice", "vision")) == 3.5
    assert found.deserves(Tenant("", "others")) == found.deserves(Tenant("bob", "others")) == 0.5
