"""Pods counted by domain, and counted again as if some of them had left."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.scheduler_filters.domain_counts import Domain, DomainCounts

A, B, C = (("zone", name) for name in "abc")
NO_PODS: frozenset[str] = frozenset()


def counted(*pods: tuple[str, tuple[Domain, ...]]) -> DomainCounts:
    counts = DomainCounts()
    for uid, domains in pods:
        counts.add(uid, domains)
    return counts


TWO_AND_ONE = counted(("p", (A,)), ("q", (A,)), ("r", (B,)))


@pytest.mark.parametrize(
    ("without", "counts", "total", "least"),
    [
        (NO_PODS, (2, 1, 0), 3, 1),
        (frozenset("p"), (1, 1, 0), 2, 1),
        (frozenset("pq"), (0, 1, 0), 1, 0),
        (frozenset("r"), (2, 0, 0), 2, 0),
        (frozenset("pqr"), (0, 0, 0), 0, 0),
        (frozenset({"unknown"}), (2, 1, 0), 3, 1),
    ],
)
def test_pods_that_leave_are_not_counted(
    without: frozenset[str], counts: tuple[int, ...], total: int, least: int
) -> None:
    assert tuple(TWO_AND_ONE.count(domain, without) for domain in (A, B, C)) == counts
    assert TWO_AND_ONE.total(without) == total
    assert TWO_AND_ONE.least(without) == least


def test_an_empty_domain_is_the_minimum_as_soon_as_it_exists() -> None:
    counts = counted(("p", (A,)))
    assert (counts.least(NO_PODS), len(counts)) == (1, 1)

    counts.open(C)

    assert (counts.least(NO_PODS), len(counts)) == (0, 2)


PODS = st.dictionaries(st.sampled_from("pqrs"), st.lists(st.sampled_from([A, B, C]), max_size=3))


@given(PODS, st.frozensets(st.sampled_from("pqrs")))
def test_pods_that_leave_count_as_never_added(pods: dict[str, list[Domain]], without: frozenset[str]) -> None:
    counts = counted(*((uid, tuple(domains)) for uid, domains in pods.items()))
    for domain in (A, B, C):
        counts.open(domain)

    left = Counter(d for uid, domains in pods.items() if uid not in without for d in domains)
    assert [counts.count(domain, without) for domain in (A, B, C)] == [left[d] for d in (A, B, C)]
    assert counts.total(without) == left.total()
    assert counts.least(without) == min(left[d] for d in (A, B, C))
