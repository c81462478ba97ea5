"""Which writes the watches have delivered, and when."""

from datetime import datetime, timedelta

import pytest

from cluster import names
from cluster.kube.resources import Object
from cluster.objects.meta import Meta
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH, a_booking, a_node, a_pod
from tests.laws.changes import Change
from tests.laws.watch_events import LONGEST, WatchEvents


def change(plural: str, *, before: Object | None, after: Object | None, version: int, at: datetime) -> Change:
    return Change(plural=plural, before=before, after=after, version=version, instant=at)


def a_lease(namespace: str) -> Lease:
    return Lease(metadata=Meta(name="x", namespace=namespace))


def seconds(number: float) -> datetime:
    return EPOCH + timedelta(seconds=number)


POD, ENDED = a_pod("a").obj, a_pod("a").ended().obj


@pytest.mark.parametrize(
    ("plural", "before", "after", "is_delivered"),
    [
        ("nodes", None, a_node("n0"), True),
        ("bookings", a_booking("b-1"), None, True),
        ("leases", None, a_lease(names.NAMESPACE), True),
        ("leases", None, a_lease("kube-system"), False),
        ("pods", None, POD, True),
        ("pods", POD, ENDED, True),
        ("pods", POD, None, True),
        ("pods", ENDED, ENDED, False),
        ("pods", ENDED, None, False),
    ],
)
def test_a_write_that_the_reclaimer_follows_is_delivered(
    plural: str, before: Object | None, after: Object | None, *, is_delivered: bool
) -> None:
    events = WatchEvents()
    events.put(change(plural, before=before, after=after, version=7, at=EPOCH))
    assert events.newest_at(plural, EPOCH) == (7 if is_delivered else 0)


def test_a_write_does_not_count_before_it_is_delivered() -> None:
    events = WatchEvents()
    for version in range(10):
        events.put(change("pods", before=None, after=POD, version=version, at=seconds(version)))
    assert [events.newest_at("pods", seconds(at)) for at in (-1, 0, 3.9, 4, 100)] == [0, 0, 3, 4, 9]


def test_no_later_write_of_the_same_second_is_taken_for_an_earlier_one() -> None:
    events = WatchEvents()
    for number in range(100):
        events.put(change("pods", before=None, after=POD, version=number, at=seconds(number / 10)))
    assert all(events.newest_at("pods", seconds(at / 10)) <= at for at in range(100))
    assert events.newest_at("pods", seconds(9.9)) >= 90


def test_old_writes_and_writes_before_a_list_are_forgotten() -> None:
    events = WatchEvents()
    events.put(change("pods", before=None, after=POD, version=1, at=EPOCH))
    later = EPOCH + LONGEST + timedelta(seconds=1)
    events.put(change("pods", before=None, after=POD, version=2, at=later))
    assert events.newest_at("pods", EPOCH) == 0
    assert events.newest_at("pods", later) == 2
    events.forget("pods")
    events.forget("podtemplates")
    assert events.newest_at("pods", later) == 0
