"""The lines that people see are those in which pods are served."""

from collections.abc import Sequence

import pytest

from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.queue import queues
from booking.policy.fair_shares import FairShares, Standing
from cluster import names
from cluster.objects.replaced_fields import Replaced, encode_replaced
from tests.booking.reclaimer.fake_cluster import FakeCluster
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
