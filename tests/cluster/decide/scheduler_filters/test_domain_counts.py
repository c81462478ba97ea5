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


def test_without_domains_there_is_nothing_to_count() -> None:
    counts = DomainCounts()

    assert (len(counts), counts.least(NO_PODS)) == (0, 0)
    assert (counts.total(NO_PODS), counts.count(A, NO_PODS)) == (0, 0)


def test_a_pod_may_count_several_times_and_in_several_domains() -> None:
    counts = counted(("p", (A, A, B)))

    assert (counts.count(A, NO_PODS), counts.count(B, NO_PODS), counts.total(NO_PODS)) == (2, 1, 3)
    assert (counts.count(A, frozenset("p")), counts.total(frozenset("p"))) == (0, 0)


def test_an_empty_domain_is_the_minimum_as_soon_as_it_exists() -> None:
    counts = counted(("p", (A,)))
    assert (counts.least(NO_PODS), len(counts)) == (1, 1)

    counts.open(C)

    assert (counts.least(NO_PODS), len(counts)) == (0, 2)


def test_a_domain_that_is_added_again_keeps_its_pods() -> None:
    counts = counted(("p", (A,)))

    counts.open(A)

    assert (counts.count(A, NO_PODS), len(counts)) == (1, 1)


def test_a_pod_that_is_added_later_can_raise_the_minimum() -> None:
    counts = counted(("p", (A, A)), ("q", (B,)))
    assert counts.least(NO_PODS) == 1

    counts.add("r", (B,))

    assert counts.least(NO_PODS) == 2


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
