"""Laws L2 and L6: why a pod may not be evicted, and which of several reasons is reported."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import pytest

from booking.eviction.settings import EvictionSettings
from booking.eviction.victims import LEAST_LOST_WORK
from booking.server.cluster_status import StatusSnapshot
from cluster import names
from cluster.decide.ledger import Holding
from cluster.decide.ledger.holdings import PodHoldings
from cluster.kube.resources import PODS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.eviction.fake_cluster import HOUR, FakeCluster, holding
from tests.fakes.objects import EPOCH, PodBuilder, a_booking

WITH_MAIA: Final = EvictionSettings(maia=True)
LEAVES: Final = "it is leaving already"
BOOKED: Final = "it is booked itself"
GRANTED: Final = "MAIA has granted it its GPUs"
PROTECTED: Final = "an administrator has said that no pod of the namespace default is evicted"
UNKNOWN: Final = "it is not known which devices it holds"
MICROSECOND: Final = timedelta(microseconds=1)


def an_instant(pod: PodBuilder, terms: EvictionSettings = WITH_MAIA) -> StatusSnapshot:
    """Now, with the pod on n0."""
    cluster = FakeCluster()
    cluster.cache.of(PODS).upsert(pod.obj)
    return cluster.now(terms)


def why(instant: StatusSnapshot, *, is_known: bool = True) -> str | None:
    """Why the only pod may not be evicted; ``is_known``: whether its devices are."""
    (pod,) = instant.pods.values()
    (held,) = instant.node_snapshots.views["n0"].holdings
    return LEAST_LOST_WORK.protection(pod, held if is_known else None, instant)


def granted(pod: PodBuilder, until: datetime = EPOCH + HOUR) -> PodBuilder:
    """MAIA has written this instant on it."""
    return pod.with_annotation(names.TERMINATE_AT, until.isoformat())


def booked(instant: StatusSnapshot) -> StatusSnapshot:
    return replace(instant, cover=dict.fromkeys(instant.pods, a_booking()))


def protected(instant: StatusSnapshot) -> StatusSnapshot:
    meta = Meta(name="default", annotations={names.NEVER_EVICT: "true"})
    return replace(instant, namespaces={"default": Namespace(metadata=meta)})


def test_the_reported_reason_is_leaving_then_booked_then_granted_then_protected_then_unknown() -> None:
    pod = granted(holding("one", "n0", 0))
    running, leaving = an_instant(pod), an_instant(pod.terminating())
    assert why(booked(protected(leaving))) == LEAVES
    assert why(booked(protected(running))) == BOOKED
    assert why(protected(running)) == GRANTED
    plain = an_instant(holding("one", "n0", 0))
    assert why(protected(plain), is_known=False) == PROTECTED
    assert why(plain, is_known=False) == UNKNOWN
    assert why(plain) is None


def test_the_controller_of_a_pod_is_reported_before_its_unknown_devices() -> None:
    daemon = an_instant(holding("one", "n0", 0).of_a_daemon_set())
    assert why(daemon, is_known=False) == "pods of a DaemonSet are never evicted"


@pytest.mark.parametrize(
    "held",
    [
        PodHoldings(uid="uid-one", node="n0", devices={}),
        PodHoldings(
            uid="uid-one",
            node="n0",
            devices={"GPU-n0-0": Holding("GPU-n0-0")},
            unknown={names.GPU_RESOURCE: 1},
        ),
    ],
    ids=["none", "one of two"],
)
def test_l6_a_pod_with_an_unknown_device_is_not_evicted(held: PodHoldings) -> None:
    instant = an_instant(holding("one", "n0", 0))
    (pod,) = instant.pods.values()
    assert LEAST_LOST_WORK.protection(pod, held, instant) == UNKNOWN


def test_l2_a_grant_of_maia_protects_until_its_last_microsecond() -> None:
    instant = an_instant(granted(holding("one", "n0", 0)))
    assert why(replace(instant, now=EPOCH + HOUR - MICROSECOND)) == GRANTED
    assert why(replace(instant, now=EPOCH + HOUR)) is None
