"""Before a booking ends, every pod that it covers is warned: each warning once, under any leader (law L6)."""

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.ending.end_warnings import (
    Warned,
    encode_warned,
    next_warning,
    timely,
    warned_of,
)
from booking.eviction.settings import WARNINGS, EndAction, EvictionSettings
from cluster import event_reasons, names
from cluster.fake.clock import FakeClock
from cluster.kube.errors import Request, Unreachable
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
OWNED: dict[str, Any] = {
    "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}]}
}


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's pod runs on her booking of two days."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book(count=2, end=EPOCH + 2 * DAY)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.reconcile()
    return cluster


def warnings(cluster: FakeCluster, name: str = "a") -> list[str]:
    return [
        text
        for pod, reason, text in cluster.events
        if (pod, reason) == (name, event_reasons.BOOKING_ENDS_SOON)
    ]


def go_to(cluster: FakeCluster, before_the_end: timedelta, *, end: datetime = EPOCH + 2 * DAY) -> None:
    cluster.after((end - before_the_end - cluster.clock.now()).total_seconds())
    settle(cluster)


def settle(cluster: FakeCluster) -> None:
    """A pod that was also written for another reason is warned in the next second."""
    cluster.reconcile()
    cluster.after(2)


def test_a_warning_says_when_the_booking_ends_what_happens_then_and_what_to_do(cluster: FakeCluster) -> None:
    go_to(cluster, HOUR)
    (warning,) = warnings(cluster)
    assert warning == (
        "The booking b-1 of this pod ends at 2026-11-25 09:00 UTC, in less than 1 hour."
        " This pod is then ended and comes back without a GPU under its own name: save your work before."
    )


@pytest.mark.parametrize(
    ("owned", "action", "expected"),
    [
        (False, "delete", "This pod is then ended and does not come back"),
        (False, "demote", "This pod then stays, but must leave whenever a booked pod needs its GPUs"),
        (True, "demote", "This pod then stays, but must leave whenever a booked pod needs its GPUs"),
        (True, "delete", "its controller makes another, which waits for a free GPU"),
        (True, "recreate-without-gpu", "its controller makes another, which waits for a free GPU"),
    ],
)
def test_a_warning_says_what_the_settings_will_do(action: EndAction, expected: str, *, owned: bool) -> None:
    cluster = FakeCluster(
        terms=EvictionSettings(end_action_with_controller=action)
        if owned
        else EvictionSettings(end_action_without_controller=action)
    )
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.create(a_pod("a").of("alice").asks(1), OWNED if owned else None)
    cluster.bind("a", 0)
    go_to(cluster, 15 * MINUTE, end=EPOCH + HOUR)
    assert expected in warnings(cluster)[0]


def test_the_warning_of_a_waiting_pod_says_that_it_keeps_waiting(cluster: FakeCluster) -> None:
    cluster.waiting("late")
    go_to(cluster, HOUR)
    assert warnings(cluster, "late")[0].endswith(
        "This pod has no GPU yet, and then goes on waiting without a booking."
    )


@pytest.mark.parametrize(
    ("ladder", "start", "since", "expected"),
    [
        ((DAY, HOUR), 0, 0, (HOUR,)),
        ((DAY, HOUR), -1, 0, (HOUR,)),
        ((DAY, HOUR), -1, -1, (DAY, HOUR)),
        ((DAY,), 0, 0, (DAY / 2,)),
        ((DAY, HOUR), -1, 0.99, (HOUR,)),
        ((), 0, 0, ()),
    ],
    ids=["one day", "began late", "two days", "only a day before", "at the very end", "none"],
)
def test_no_warning_comes_in_the_first_half_of_a_pods_time_and_a_last_one_always(
    ladder: tuple[timedelta, ...], start: float, since: float, expected: tuple[timedelta, ...]
) -> None:
    found = timely(ladder, start=EPOCH + start * DAY, since=EPOCH + since * DAY, end=EPOCH + DAY)
    assert found == expected


def test_a_pod_that_the_next_booking_covers_at_once_is_not_warned(cluster: FakeCluster) -> None:
    cluster.book("b-2", start=EPOCH + 2 * DAY, end=EPOCH + 5 * DAY)
    go_to(cluster, MINUTE)
    assert warnings(cluster) == []
    assert cluster.annotation("a", names.WARNED) is None


def test_only_the_pod_that_the_smaller_next_booking_leaves_out_is_warned(cluster: FakeCluster) -> None:
    cluster.create(a_pod("b").of("alice").asks(1))
    cluster.bind("b", 1)
    cluster.book("b-2", start=EPOCH + 2 * DAY, end=EPOCH + 5 * DAY)
    go_to(cluster, HOUR)
    assert (len(warnings(cluster, "a")), len(warnings(cluster, "b"))) == (0, 1)


def test_no_pod_is_warned_while_the_mirror_is_stale(cluster: FakeCluster) -> None:
    cluster.stop_mirror()
    go_to(cluster, HOUR)
    assert warnings(cluster) == []
    cluster.resume_mirror()
    settle(cluster)
    assert len(warnings(cluster)) == 1


def test_a_pod_that_another_leader_has_marked_in_the_meantime_is_not_warned_again(
    cluster: FakeCluster,
) -> None:
    cluster.clock.advance(2 * 86400 - 3600)
    cluster.renew()
    cluster.sync()
    cluster.annotate("a", names.WARNED, encode_warned(Warned(EPOCH + 2 * DAY, HOUR)))  # by another leader
    cluster.reclaimer.reconcile()
    assert warnings(cluster) == []
    cluster.reconcile(3)
    assert warnings(cluster) == []


def test_a_warning_that_could_not_be_written_has_no_event_and_is_retried(cluster: FakeCluster) -> None:
    cluster.clock.advance(2 * 86400 - 3600)
    cluster.renew()
    cluster.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    cluster.reconcile()
    assert warnings(cluster) == []
    cluster.after(2)
    assert len(warnings(cluster)) == 1


@pytest.mark.parametrize("text", ["", "tomorrow PT1H", "2026-11-25T09:00:00Z", "2026-11-25T09:00:00Z soon"])
def test_an_unreadable_mark_is_ignored(cluster: FakeCluster, text: str) -> None:
    cluster.annotate("a", names.WARNED, text)
    go_to(cluster, HOUR)
    assert len(warnings(cluster)) == 1


def test_no_warnings_are_given_when_the_settings_have_none() -> None:
    cluster = FakeCluster(terms=EvictionSettings(warn_before=()))
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.bind("a", 0)
    settle(cluster)
    assert warnings(cluster) == []


SECONDS: Final = st.integers(min_value=1, max_value=3 * 86400)
LADDERS: Final = st.lists(SECONDS.map(lambda s: timedelta(seconds=s)), max_size=5).map(tuple)


@given(ladder=st.one_of(st.just(WARNINGS), LADDERS), times=st.lists(SECONDS, min_size=1, max_size=30))
def test_however_often_it_is_checked_each_warning_is_given_once_and_the_nearest_in_time(
    ladder: tuple[timedelta, ...], times: list[int]
) -> None:
    end, last, given = EPOCH + 3 * DAY, None, []
    for seconds in sorted(times):
        clock = FakeClock(EPOCH)
        clock.advance(seconds)
        now = clock.now()
        warned = next_warning(last, end, now, ladder) if now < end else None
        passed = [before for before in ladder if end - now <= before]
        if warned:
            # The warning is true, and no nearer one would be.
            assert warned == Warned(end, min(passed))
            last = warned_of(a_pod("a").with_annotation(names.WARNED, encode_warned(warned)).obj)
            assert last == warned
            given.append(warned.before)
        elif passed and now < end:
            assert given, "A pod near its end has been warned."
            assert given[-1] == min(passed)
    assert given == sorted(set(given), reverse=True), "Each once, ever nearer."


@given(first=SECONDS, second=SECONDS, at=SECONDS)
def test_a_changed_end_starts_the_warnings_over(first: int, second: int, at: int) -> None:
    now = EPOCH
    last = Warned(EPOCH + timedelta(seconds=first), 15 * MINUTE)
    end = EPOCH + timedelta(seconds=second)
    ladder = (timedelta(seconds=at),)
    again = next_warning(last, end, now, ladder)
    fresh = next_warning(None, end, now, ladder)
    if first != second:
        assert again == fresh
    elif at >= 15 * 60:
        assert again is None
