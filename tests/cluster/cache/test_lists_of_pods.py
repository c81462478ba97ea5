"""A list of pods is applied in portions: others read in between, and it ends as if applied at once."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache import ClusterCache
from cluster.decide.ledger import WHOLE
from cluster.decide.ledger.amounts import Uses
from cluster.fake.clock import FakeClock
from cluster.kube.resources import NODES, PODS
from tests.fakes.objects import EPOCH, a100, a_node, a_pod

G0 = "GPU-n0-0"
LISTED = 100
"""resourceVersion of the list."""


class InPortions:
    """A cache that applies a list of pods in portions, and what readers find in between."""

    def __init__(self, at_a_time: int | None, known: Sequence[int] = ()) -> None:
        self.seen: list[frozenset[str]] = []
        self.changes = 0
        self.cache = ClusterCache(FakeClock(EPOCH), at_a_time=at_a_time, give_way=self._read)
        for number in known:
            self.cache.of(PODS).upsert(a_pod(f"p{number}").asks(1).obj)
        self.cache.on_change(self._count)

    def _read(self) -> None:
        self.seen.append(self.pods)

    def _count(self) -> None:
        self.changes += 1

    @property
    def pods(self) -> frozenset[str]:
        return frozenset(pod.metadata.name for pod in self.cache.pods.values())

    def list(self, numbers: Sequence[int]) -> None:
        pods = [a_pod(f"p{number}").asks(1).obj for number in numbers]
        self.cache.of(PODS).replace(pods, str(LISTED))


def names(numbers: Sequence[int]) -> frozenset[str]:
    return frozenset(f"p{number}" for number in numbers)


NUMBERS = st.lists(st.integers(0, 9), unique=True, max_size=9)


@given(st.none() | st.integers(1, 4), NUMBERS, NUMBERS)
def test_a_list_applied_in_portions_ends_like_one_applied_at_once(
    at_a_time: int | None, known: list[int], listed: list[int]
) -> None:
    made = InPortions(at_a_time, known)
    made.list(listed)
    assert made.pods == names(listed)
    assert made.cache.reached["pods"] == str(LISTED)
    assert made.changes == 1


@given(st.integers(1, 4), NUMBERS, NUMBERS)
def test_readers_see_at_most_one_portion_added_and_one_removed_between_two_reads(
    at_a_time: int, known: list[int], listed: list[int]
) -> None:
    made = InPortions(at_a_time, known)
    made.list(listed)
    states = [names(known), *made.seen, made.pods]
    for before, after in pairwise(states):
        assert len(after - before) <= at_a_time
        assert len(before - after) <= at_a_time


@given(st.integers(1, 4), NUMBERS, NUMBERS)
def test_no_pod_is_removed_before_all_listed_pods_are_known(
    at_a_time: int, known: list[int], listed: list[int]
) -> None:
    """The devices of a removed pod may be another pod's by now."""
    made = InPortions(at_a_time, known)
    made.list(listed)
    for state in (*made.seen, made.pods):
        assert names(known) <= state or names(listed) <= state


@given(NUMBERS, NUMBERS)
def test_without_portions_there_is_no_read_in_between(known: list[int], listed: list[int]) -> None:
    made = InPortions(None, known)
    made.list(listed)
    assert made.seen == []


@pytest.mark.parametrize(
    ("listed", "pauses"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(1, 0, id="less than a portion"),
        pytest.param(2, 0, id="a portion"),
        pytest.param(3, 1, id="one more"),
        pytest.param(4, 1, id="two portions"),
        pytest.param(5, 2, id="one more than two"),
    ],
)
@pytest.mark.parametrize("goes", [False, True], ids=["come", "go"])
def test_readers_get_a_turn_between_portions_and_not_after_the_last(
    listed: int, pauses: int, *, goes: bool
) -> None:
    made = InPortions(2, range(listed) if goes else ())
    made.list(() if goes else range(listed))
    assert len(made.seen) == pauses


def test_the_device_of_a_deleted_pod_passes_to_the_next_without_being_free_in_between() -> None:
    held: list[Uses] = []
    cache = ClusterCache(FakeClock(EPOCH), at_a_time=1, give_way=lambda: held.append(on_n0(cache)))
    cache.of(NODES).upsert(a_node("n0", a100(0)))
    cache.of(PODS).upsert(a_pod("old").asks(1).on("n0", {"main": (G0,)}).obj)
    heir = a_pod("heir").asks(1).on("n0", {"main": (G0,)}).obj
    cache.of(PODS).replace([heir, *(a_pod(f"p{number}").asks(1).obj for number in range(3))], str(LISTED))
    assert len(held) == 3
    assert all(G0 in held_then for held_then in held)
    assert on_n0(cache) == {G0: WHOLE}


def on_n0(cache: ClusterCache) -> Uses:
    with cache.locked() as ledger:
        return dict(ledger.view("n0").held)


@pytest.mark.parametrize("at_a_time", [None, 1, 2])
def test_a_pod_read_since_the_list_stays(at_a_time: int | None) -> None:
    made = InPortions(at_a_time, [0])
    newer = a_pod("newer").asks(1).at(LISTED + 1).obj
    made.cache.of(PODS).upsert(newer)
    made.list([1, 2])
    assert made.pods == {"newer", "p1", "p2"}
    assert made.cache.reached["pods"] == str(LISTED + 1)


@pytest.mark.parametrize("at_a_time", [None, 1, 2])
def test_pods_without_a_gpu_count_in_a_list_and_are_not_kept(at_a_time: int | None) -> None:
    made = InPortions(at_a_time, [0, 1])
    made.cache.of(PODS).replace([a_pod(f"web{number}").obj for number in range(3)], str(LISTED))
    assert made.pods == frozenset()
