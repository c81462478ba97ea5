"""Rounds in between: what was stored since the last one is written, and nothing else is looked at."""

from datetime import timedelta

import pytest

from booking.server.errors import StoreGoneError
from cluster import names
from cluster.fake.clock import START, eventually
from cluster.kube.errors import Refusal, Request, ServerError
from cluster.kube.resources import BOOKINGS, LEASES
from tests.booking.server.mirror.memory_source import a_record
from tests.booking.server.mirror.mirrored import World


@pytest.fixture
def world() -> World:
    """Two bookings are in the cluster."""
    world = World()
    world.source.put(a_record("b-1"))
    world.source.put(a_record("b-2"))
    assert world.mirror.round()
    return world


def reads(world: World) -> list[str]:
    return [call.verb for call in world.kube.calls if call.verb in {"LIST", "GET"}]


def test_it_writes_what_was_stored_and_reads_nothing(world: World) -> None:
    before = reads(world), len(world.writes)
    world.source.put(a_record("b-1", cancelled=START))
    world.source.put(a_record("b-2", end=START + timedelta(hours=1)))
    change = world.source.put(a_record("b-3"))

    assert world.mirror.brief_round()
    assert world.mirror.written(change, timeout=0)
    written = [write for write in world.writes[before[1] :] if "bookings" in write]
    assert (reads(world), len(written)) == (before[0], 3)
    assert {name: one.spec.end for name, one in world.objects.items()} == {
        "b-2": START + timedelta(hours=1),
        "b-3": START + timedelta(days=2),
    }


def test_its_own_writes_are_what_the_next_one_begins_with(world: World) -> None:
    for hours in (1, 2, 3):
        world.source.put(a_record("b-1", end=START + timedelta(hours=hours)))
        assert world.mirror.brief_round()
    world.source.put(a_record("b-1", cancelled=START))
    assert world.mirror.brief_round()
    assert list(world.objects) == ["b-2"]


def test_without_a_change_it_writes_nothing(world: World) -> None:
    before = len(world.kube.calls)
    assert world.mirror.brief_round()
    assert len(world.kube.calls) == before


def test_the_first_one_and_the_one_after_a_failure_are_whole(world: World) -> None:
    world.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["p"]}}, subresource="status")
    change = world.source.put(a_record("b-1", end=START + timedelta(hours=1)))
    assert not world.mirror.brief_round()
    assert not world.mirror.written(change, timeout=0)

    for mirror in (world.mirror, world.another_mirror("server-2")):
        before = reads(world).count("LIST")
        assert mirror.brief_round()
        assert reads(world).count("LIST") == before + 1
    assert world.objects["b-1"].spec.end == START + timedelta(hours=1)
    assert world.mirror.written(change, timeout=0)


def test_a_booking_is_not_written_while_its_object_is_not(world: World) -> None:
    change = world.source.put(a_record("b-3"))
    world.kube.fail("POST", ServerError(Request("POST", "/"), Refusal(500, "", "no")))
    assert not world.mirror.brief_round()
    assert not world.mirror.written(change, timeout=0)
    assert "no" in (world.mirror.unready_reason() or "no")


def test_a_write_whose_answer_was_lost_is_found_by_the_whole_round(world: World) -> None:
    change = world.source.put(a_record("b-3"))
    world.kube.lose("POST")
    assert not world.mirror.brief_round()
    assert world.mirror.brief_round()
    assert world.mirror.written(change, timeout=0)


def test_the_lease_follows(world: World) -> None:
    change = world.source.put(a_record("b-3"))
    world.clock.advance(1)
    assert world.mirror.brief_round()
    eventually(lambda: world.lease.metadata.annotation(names.CHANGE) == str(change))
    assert world.lease.spec.renew_time == START + timedelta(seconds=1)


def test_a_lease_that_another_has_written_is_noticed_by_the_next_one(world: World) -> None:
    note = {"metadata": {"annotations": {"note": "kept"}}}
    world.kube.patch(LEASES, names.MIRROR_LEASE, note, namespace=names.NAMESPACE)
    world.source.put(a_record("b-3"))
    assert world.mirror.brief_round()
    change = world.source.put(a_record("b-4"))
    assert not world.mirror.brief_round()
    assert world.mirror.brief_round()
    assert world.lease.metadata.annotation(names.CHANGE) == str(change)


def test_l9_an_older_copy_stops_the_mirror(world: World) -> None:
    world.source.put(a_record("b-3"))
    assert world.mirror.brief_round()
    world.source.changes -= 1
    there = world.objects

    assert not world.mirror.brief_round()
    assert world.mirror.is_stopped
    assert world.objects == there


def test_l9_a_database_that_is_gone_stops_the_mirror(world: World) -> None:
    world.source.problem = StoreGoneError("gone")
    assert not world.mirror.brief_round()
    assert world.mirror.is_stopped


def test_l9_what_others_do_to_objects_is_seen_after_five_seconds_however_much_is_booked(
    world: World,
) -> None:
    with world.running():
        world.clock.until_waiting()
        world.kube.delete(BOOKINGS, "b-1")
        world.put_object("b-old", store_id="theirs")
        for number in range(3, 8):
            change = world.source.put(a_record(f"b-{number}"))
            world.mirror.trigger()
            assert world.mirror.written(change, timeout=10)
        assert not world.mirror.is_stopped
        world.clock.advance(5)
        world.mirror.trigger()
        eventually(lambda: world.mirror.is_stopped)
