"""Law L9: an older copy of the database is recognised by the number of its newest change."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from cluster import names
from cluster.fake.clock import START
from cluster.kube.resources import BOOKINGS, LEASES
from tests.booking.server.mirror.memory_source import MemorySource, a_record
from tests.booking.server.mirror.mirrored import World


class Overtaken(MemorySource):
    """Once, something happens after the newest change was read."""

    def __init__(self) -> None:
        super().__init__()
        self.overtaking: Callable[[], None] | None = None

    def change(self) -> int:
        answer = super().change()
        overtaking, self.overtaking = self.overtaking, None
        if overtaking:
            overtaking()
        return answer


@pytest.fixture
def world() -> World:
    return World()


def expect_stopped(world: World, *, because: str) -> None:
    before, there = world.writes, world.objects
    assert not world.mirror.round()
    assert world.mirror.is_stopped
    assert because in (world.mirror.unready_reason() or "")
    assert world.writes == before
    assert world.objects == there


def test_l9_an_older_copy_without_a_release_stops_the_mirror(world: World) -> None:
    world.source.put(a_record("b-1"))
    world.mirror.round()
    world.source.put(a_record("b-1", end=START + timedelta(hours=1), released=START))
    world.mirror.round()
    world.source.changes = 0
    world.source.put(a_record("b-1"))

    expect_stopped(world, because="change 2 of this booking database")


def test_l9_a_server_started_on_an_older_copy_learns_it_from_the_lease(world: World) -> None:
    world.source.put(a_record("b-1"))
    world.source.put(a_record("b-1", cancelled=START))
    world.mirror.round()
    world.source.changes = 0
    world.source.put(a_record("b-1"))
    world.mirror = world.another_mirror("server-2")

    expect_stopped(world, because="kubectl delete lease gpu-booking-mirror -n gpu-booking")


def test_another_server_that_is_ahead_does_not_make_this_database_an_older_copy(world: World) -> None:
    source = world.source = Overtaken()
    world.mirror, other = world.another_mirror(), world.another_mirror("server-2")
    world.source.put(a_record("b-1"))
    world.mirror.round()

    def overtake() -> None:
        world.source.put(a_record("b-2"))
        assert other.round()

    source.overtaking = overtake
    for _ in range(2):
        assert not world.mirror.round()
        assert not world.mirror.is_stopped
    assert world.mirror.round()


def test_a_new_database_starts_a_new_count_when_no_object_is_left(world: World) -> None:
    for name in ("b-1", "b-2"):
        world.source.put(a_record(name))
    world.mirror.round()
    for name in world.objects:
        world.kube.delete(BOOKINGS, name)
    world.source.store_id, world.source.changes = "new", 0
    world.source.records.clear()
    world.source.put(a_record("b-3"))
    world.mirror = world.another_mirror("server-2")

    assert world.mirror.round()
    assert list(world.objects) == ["b-3"]
    assert world.lease.metadata.annotation(names.CHANGE) == "1"


def test_an_unreadable_change_on_the_lease_is_ignored(world: World) -> None:
    world.mirror.round()
    nonsense = {"metadata": {"annotations": {names.CHANGE: "many"}}}
    world.kube.patch(LEASES, names.MIRROR_LEASE, nonsense, namespace=names.NAMESPACE)

    assert world.another_mirror("server-2").round()
