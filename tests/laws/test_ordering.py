"""Changes of several watches come in the order in which they were written."""

import pytest

from cluster.fake.clock import FakeClock
from tests.fakes.objects import a_pod
from tests.laws.ordering import WAITS, Ordering
from tests.laws.stream import Stream
from tests.laws.watcher import LawWatcher


@pytest.fixture
def ordering() -> Ordering:
    """Two watches, both up."""
    made = Ordering(("pods", "nodes"))
    made.up("pods", 0.0)
    made.up("nodes", 0.0)
    return made


def test_a_change_waits_until_every_watch_has_shown_something_later(ordering: Ordering) -> None:
    ordering.put("pods", 7, "pod at 7", 1.0)
    assert [*ordering.ready(1.1)] == []
    ordering.put("nodes", 5, "node at 5", 1.1)
    assert [*ordering.ready(1.1)] == ["node at 5"]
    ordering.put("nodes", 9, "node at 9", 1.2)
    assert [*ordering.ready(1.2)] == ["pod at 7"]


def test_a_change_does_not_wait_indefinitely_for_a_kind_without_events(ordering: Ordering) -> None:
    ordering.put("pods", 7, "pod at 7", 1.0)
    assert [*ordering.ready(1.0 + WAITS - 0.01)] == []
    assert [*ordering.ready(1.0 + WAITS)] == ["pod at 7"]


def test_a_watch_that_is_down_holds_everything_back(ordering: Ordering) -> None:
    ordering.down("nodes")
    ordering.put("pods", 7, "pod at 7", 1.0)
    assert [*ordering.ready(60.0)] == []
    assert not ordering.has_let_out(7)
    ordering.up("nodes", 60.0)
    ordering.put("nodes", 6, "node at 6", 60.1)
    assert [*ordering.ready(60.1)] == ["node at 6"]
    assert [*ordering.ready(60.0 + WAITS)] == ["pod at 7"]
    assert ordering.has_let_out(7)


def test_events_of_one_version_come_as_they_arrived(ordering: Ordering) -> None:
    ordering.put("pods", 7, "first", 1.0)
    ordering.put("pods", 7, "second", 1.0)
    assert [*ordering.ready(2.0)] == ["first", "second"]


def test_events_that_come_too_late_are_reported_as_late(ordering: Ordering) -> None:
    assert ordering.put("pods", 7, "pod at 7", 1.0)
    assert [*ordering.ready(2.0)] == ["pod at 7"]
    assert not ordering.put("nodes", 6, "node at 6", 2.0)
    assert [*ordering.ready(3.0)] == ["node at 6"]


def test_who_has_fallen_behind_knows_until_when_it_has_seen_what_happened() -> None:
    clock = FakeClock()
    watcher = LawWatcher(clock)
    stream = Stream(watcher, clock)
    for kind in watcher.kinds:
        stream.is_up(kind)
        stream.listed(kind, (), 1)
    stream.turn()
    stream.changed("pods", a_pod("bob-1").at(2).obj, is_gone=False)
    happened = clock.now()
    clock.advance(WAITS)
    stream.turn()
    clock.advance(90)
    assert stream.seen_until == happened
    stream.turn()
    assert stream.seen_until == clock.now()
