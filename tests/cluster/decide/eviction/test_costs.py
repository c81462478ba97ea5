"""What an eviction destroys."""

from datetime import datetime, timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.eviction.costs import SECOND, microseconds, work_of
from cluster.fake.merging import merged
from cluster.objects.pods import Pod
from tests.fakes.costs import lost_work
from tests.fakes.objects import EPOCH, a_pod

MINUTE = 60_000_000


def running(checkpoint: str | None = None) -> Pod:
    """A pod that started at 08:00; now it is 09:00."""
    builder = a_pod()
    if checkpoint is not None:
        builder = builder.with_annotation(names.CHECKPOINT_AT, checkpoint)
    return msgspec.convert(merged(builder.raw, {"status": {"startTime": "2026-11-23T08:00:00Z"}}), Pod)


def test_every_device_of_a_pod_loses_the_time_since_its_start() -> None:
    assert lost_work(running(), 2, EPOCH) == 120 * MINUTE


@pytest.mark.parametrize(
    ("checkpoint", "minutes"),
    [
        ("2026-11-23T08:50:00Z", 10),
        (" 2026-11-23T09:50:00+01:00 ", 10),
        ("2026-11-23T07:00:00Z", 60),
        ("2099-01-01T00:00:00Z", 0),
        ("2026-11-23T08:50:00", 60),
        ("yesterday", 60),
        ("", 60),
    ],
)
def test_work_before_a_believable_checkpoint_is_not_lost(checkpoint: str, minutes: int) -> None:
    assert lost_work(running(checkpoint), 1, EPOCH) == minutes * MINUTE


def test_a_pod_that_has_not_started_loses_nothing() -> None:
    pod = a_pod().with_annotation(names.CHECKPOINT_AT, "2026-11-23T08:00:00Z").obj
    assert lost_work(pod, 8, EPOCH) == 0


def test_a_start_in_the_future_counts_as_now() -> None:
    earlier = EPOCH - timedelta(hours=2)
    assert work_of(running()).since(microseconds(earlier)) == microseconds(earlier)
    assert lost_work(running(), 1, earlier) == 0


def with_container(name: str, started: str) -> Pod:
    """A pod that was admitted at 08:00, and one container of which began later."""
    status = {"name": name, "state": {"running": {"startedAt": started}}}
    raw = merged(a_pod().asks(1).raw, {"status": {"startTime": "2026-11-23T08:00:00Z"}})
    return msgspec.convert(merged(raw, {"status": {"containerStatuses": [status]}}), Pod)


def test_work_begins_with_the_container_that_has_the_gpu() -> None:
    assert lost_work(with_container("main", "2026-11-23T08:50:00Z"), 1, EPOCH) == 10 * MINUTE


def test_the_start_of_a_container_without_a_gpu_does_not_count() -> None:
    assert lost_work(with_container("logs", "2026-11-23T08:50:00Z"), 1, EPOCH) == 60 * MINUTE


@pytest.mark.parametrize(
    ("done", "minutes"),
    [("2026-11-23T08:59:00Z", 1), ("2026-11-23T09:00:01Z", 60), ("soon", 60), ("2026-11-23T08:59:00", 60)],
)
def test_a_checkpoint_done_counts_unless_in_the_future(done: str, minutes: int) -> None:
    pod = running()
    raw = merged(msgspec.to_builtins(pod), {"metadata": {"annotations": {names.CHECKPOINT_DONE: done}}})
    assert lost_work(msgspec.convert(raw, Pod), 1, EPOCH) == minutes * MINUTE


def test_starting_again_costs_every_device() -> None:
    assert lost_work(running(), 2, EPOCH, restart_seconds=30) == 120 * MINUTE + 60 * SECOND


@pytest.mark.parametrize(
    ("text", "times"),
    [("3", 3), ("-1", 0), ("often", 0), ("", 0), ("²", 0), pytest.param("9" * 5000, 0, id="endless")],
)
def test_evictions_are_counted_where_they_can_be_read(text: str, times: int) -> None:
    assert work_of(a_pod().with_annotation(names.EVICTIONS, text).obj).evictions == times


@pytest.mark.parametrize("now", [EPOCH - timedelta(hours=2), EPOCH, EPOCH + timedelta(days=9)])
def test_work_is_never_saved_later_than_the_latest_reported_instant(now: datetime) -> None:
    for checkpoint in (None, "2026-11-23T08:50:00Z", "2026-11-23T09:50:00Z"):
        work = work_of(running(checkpoint))
        assert work.latest is not None
        assert work.saved(microseconds(now)) <= work.latest
