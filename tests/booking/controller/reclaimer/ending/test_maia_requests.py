"""A pod that MAIA calls expired ends when an administrator asks for it, and no other (laws L2, L6, L7)."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.errors import Refusal, Request, refused
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

Act = Callable[[FakeCluster], object]
FORBIDDEN = refused(Request("DELETE", "pods"), Refusal(code=403, reason="Forbidden", message="no"))


def at(seconds: float) -> str:
    """An instant of MAIA's, seconds from now."""
    return (EPOCH + timedelta(seconds=seconds)).isoformat()


def requested(*, terms: EvictionSettings | None = None, until: str | None = at(-60)) -> FakeCluster:
    """Bob's pod ``b`` runs, MAIA allows it until then, and an administrator has asked to end it."""
    cluster = FakeCluster(terms=terms or EvictionSettings(maia=True, longest_grace_seconds=77))
    cluster.add_node()
    cluster.opportunist("b", 0)
    cluster.annotate("b", names.TERMINATE_AT, until)
    cluster.annotate("b", names.END_REQUESTED, "root")
    return cluster


@pytest.fixture
def cluster() -> FakeCluster:
    return requested()


@pytest.mark.parametrize(
    ("until", "ends"),
    [(at(-1), True), (at(0), True), (at(1), False), (None, False), ("soon", False), ("", False)],
    ids=["over", "just over", "not yet over", "no end", "unreadable", "empty"],
)
def test_a_pod_ends_from_the_instant_of_its_terminate_at_on(until: str | None, *, ends: bool) -> None:
    cluster = requested(until=until)
    cluster.reconcile()
    assert bool(cluster.evictor.left) is ends


NOT_NOW: dict[str, Act] = {
    "the request is taken back": lambda cluster: cluster.annotate("b", names.END_REQUESTED, None),
    "MAIA has let it go on": lambda cluster: cluster.annotate("b", names.TERMINATE_AT, at(60)),
    "a booking covers it": lambda cluster: cluster.book(user="bob"),
    "the mirror does not confirm the Bookings": lambda cluster: cluster.clock.advance(3600),
}


@pytest.mark.parametrize("act", NOT_NOW.values(), ids=NOT_NOW)
def test_laws_l2_l6_l7_a_pod_that_may_stay_is_not_ended(cluster: FakeCluster, act: Act) -> None:
    act(cluster)
    cluster.reconcile(2)
    assert cluster.evictor.left == []


def seen(act: Act) -> Act:
    """The act, which our cache shows at once."""
    return lambda cluster: (act(cluster), cluster.sync())


MEANWHILE: dict[str, Act] = {
    **{name: seen(act) for name, act in NOT_NOW.items() if "mirror" not in name},
    "another process leads": lambda cluster: setattr(cluster, "leads", False),
    "the cache is not to be trusted": lambda cluster: setattr(cluster, "unready_reason", "stale"),
    "the last look takes too long": lambda cluster: cluster.kube.before(
        "LIST", lambda: cluster.clock.advance(3)
    ),
}


@pytest.mark.parametrize("act", MEANWHILE.values(), ids=MEANWHILE)
def test_law_l2_a_change_between_the_decision_and_the_end_spares_the_pod(
    cluster: FakeCluster, act: Act
) -> None:
    cluster.evictor.meanwhile = lambda: act(cluster)
    cluster.reconcile()
    assert cluster.evictor.left == []


def test_an_end_interrupted_by_a_brief_change_is_carried_out_a_second_later(cluster: FakeCluster) -> None:
    cluster.evictor.meanwhile = lambda: setattr(cluster, "leads", False)
    cluster.reconcile()
    cluster.evictor.meanwhile = lambda: None
    cluster.leads = True
    cluster.reconcile()
    assert cluster.evictor.left == [], "it was requested a moment ago"
    cluster.after(1)
    assert cluster.evictor.left == [("b", "ended")]


def test_an_end_that_the_api_server_refuses_is_counted_and_retried_and_blocks_no_other(
    cluster: FakeCluster,
) -> None:
    cluster.opportunist("c", 1)
    cluster.annotate("c", names.TERMINATE_AT, at(-60))
    cluster.annotate("c", names.END_REQUESTED, "root")
    cluster.evictor.failing.append(FORBIDDEN)
    cluster.reconcile()
    assert len(cluster.evictor.left) == 1
    (metric,) = cluster.metrics.api_failures.collect()
    assert metric.samples[0].value == 1
    cluster.after(1)
    assert sorted(cluster.ended()) == ["b", "c"]


def test_no_pod_is_ended_when_maia_is_not_honoured() -> None:
    cluster = requested(terms=EvictionSettings(maia=False))
    cluster.reconcile(3)
    assert cluster.evictor.left == []
