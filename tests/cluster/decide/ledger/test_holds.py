"""Which holds count, and for whom each device is kept."""

from datetime import datetime, timedelta, timezone

import pytest

from cluster import names
from cluster.decide.ledger.holds import devices_on_hold, standing_hold
from cluster.objects.hold import Hold
from tests.fakes.objects import EPOCH, PodBuilder, a_pod

KEPT = a_pod().asks(1).kept("n0", "GPU-a")


def a_hold(*devices: str, at: datetime | None = EPOCH) -> Hold:
    return Hold(node="n0", devices=devices, at=at)


def test_the_hold_of_a_waiting_pod_counts() -> None:
    assert standing_hold(KEPT.obj) == a_hold("GPU-a")


@pytest.mark.parametrize(
    "builder",
    [
        a_pod().asks(1),
        KEPT.on("n0"),
        KEPT.ended("Succeeded"),
        KEPT.ended("Failed"),
        KEPT.terminating(),
        KEPT.with_annotation(names.HOLD, "?"),
        KEPT.with_annotation(names.HOLD, ""),
    ],
    ids=["without one", "bound", "succeeded", "failed", "terminating", "unreadable", "empty"],
)
def test_no_hold_counts_on_a_pod_that_no_longer_waits_or_has_no_readable_hold(builder: PodBuilder) -> None:
    assert standing_hold(builder.obj) is None


def test_without_holds_no_device_is_kept() -> None:
    assert devices_on_hold({}) == {}


def test_every_device_of_a_hold_is_kept_for_its_pod() -> None:
    kept = devices_on_hold({"u": a_hold("GPU-a", "GPU-b"), "v": a_hold("GPU-c")})

    assert kept == {"GPU-a": "u", "GPU-b": "u", "GPU-c": "v"}


SECOND = timedelta(seconds=1)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("a", "b", "holder"),
    [
        (EPOCH, EPOCH + SECOND, "a"),
        (EPOCH + SECOND, EPOCH, "b"),
        (EPOCH, EPOCH, "a"),
        (None, EPOCH, "b"),
        (None, None, "a"),
        (EPOCH + SECOND, EPOCH.replace(tzinfo=None), "b"),
        (EPOCH, (EPOCH - SECOND).astimezone(EAST), "b"),
        (EPOCH.astimezone(EAST), EPOCH - SECOND, "b"),
    ],
    ids=[
        "older",
        "newer",
        "as old: the smaller uid",
        "without an instant",
        "both without an instant",
        "no time zone is UTC",
        "older in another time zone",
        "newer in another time zone",
    ],
)
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_device_with_two_holds_is_kept_for_the_older_one(
    order: str, a: datetime | None, b: datetime | None, holder: str
) -> None:
    holds = {"a": a_hold("GPU-a", at=a), "b": a_hold("GPU-a", at=b)}

    assert devices_on_hold({uid: holds[uid] for uid in order}) == {"GPU-a": holder}
