"""The mirror against an API server in memory."""

import threading
from datetime import timedelta

import pytest

from booking.server.errors import StoreError, StoreGoneError
from booking.server.mirror.writes import AT_ONCE
from cluster import names
from cluster.fake.clock import START, eventually
from cluster.kube.errors import Conflict, Refusal, Request, ServerError, Unprocessable
from cluster.kube.resources import BOOKINGS, LEASES
from tests.booking.server.mirror.memory_source import a_record
from tests.booking.server.mirror.mirrored import World

REQUEST = Request("PATCH", f"/apis/{names.DOMAIN}/v1/bookings/b-1")


@pytest.fixture
def world() -> World:
    return World()


class TestWriting:
    def test_a_stored_booking_becomes_an_object(self, world: World) -> None:
        world.source.put(a_record("b-1"))

        assert world.mirror.round()
        assert world.objects["b-1"].spec.user == "alice"
        assert world.objects["b-1"].spec.store_id == "ours"

    def test_an_early_release_moves_the_end_and_leaves_the_status_alone(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["p"]}}, subresource="status")
        world.source.put(a_record("b-1", end=START + timedelta(hours=1)))

        assert world.mirror.round()
        assert world.objects["b-1"].spec.end == START + timedelta(hours=1)
        assert world.objects["b-1"].status.ending == ("p",)

    def test_a_cancelled_booking_loses_its_object(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.put(a_record("b-1", cancelled=START))

        assert world.mirror.round()
        assert world.objects == {}

    def test_an_ended_booking_stays_for_seven_days(self, world: World) -> None:
        world.source.put(a_record("b-1", end=START))
        world.clock.advance(7 * 86400 - 1)
        world.mirror.round()
        assert list(world.objects) == ["b-1"]

        world.clock.advance(1)
        assert world.mirror.round()
        assert world.objects == {}

    def test_an_up_to_date_object_is_not_written_again(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        before = len(world.writes)
        world.mirror.round()

        assert [write for write in world.writes[before:] if "bookings" in write] == []

    def test_a_deleted_object_is_created_again(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.kube.delete(BOOKINGS, "b-1")

        world.mirror.round()
        assert list(world.objects) == ["b-1"]

    def test_a_change_by_hand_is_corrected(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.kube.patch(BOOKINGS, "b-1", {"spec": {"count": 8, "namespace": "research"}})

        world.mirror.round()
        assert (world.objects["b-1"].spec.count, world.objects["b-1"].spec.namespace) == (1, None)

    def test_l9_another_server_on_the_same_database_repeats_no_writes(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        before = dict(world.objects)

        assert world.another_mirror("server-2").round()
        assert world.objects == before

    def test_a_thousand_bookings_are_read_page_by_page(self, world: World) -> None:
        for number in range(1001):
            world.source.put(a_record(f"b-{number}"))
        world.mirror.round()
        before = len(world.writes)

        assert world.mirror.round()
        assert [write for write in world.writes[before:] if "bookings" in write] == []


class TestFailures:
    def test_a_simultaneous_write_of_another_wins_and_the_next_round_decides_again(
        self, world: World
    ) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.put(a_record("b-1", end=START + timedelta(hours=1)))
        ending = {"status": {"ending": ["p"]}}
        world.kube.before("PATCH", lambda: world.kube.patch(BOOKINGS, "b-1", ending, subresource="status"))

        assert not world.mirror.round()
        assert world.mirror.round()
        assert world.objects["b-1"].spec.end == START + timedelta(hours=1)
        assert world.objects["b-1"].status.ending == ("p",)

    def test_an_object_that_changed_since_it_was_read_is_not_deleted_in_that_round(
        self, world: World
    ) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.put(a_record("b-1", cancelled=START))
        ending = {"status": {"ending": ["p"]}}
        world.kube.before("DELETE", lambda: world.kube.patch(BOOKINGS, "b-1", ending, subresource="status"))

        assert not world.mirror.round()
        assert list(world.objects) == ["b-1"]
        assert world.mirror.round()
        assert world.objects == {}

    def test_a_create_that_meets_its_object_is_recognised_in_the_next_round(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.kube.before("POST", lambda: world.put_object("b-1", store_id="ours"))

        assert not world.mirror.round()
        assert world.mirror.round()

    def test_an_object_that_is_gone_before_its_deletion_is_not_a_failure(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.put(a_record("b-1", cancelled=START))
        world.kube.before("DELETE", lambda: world.kube.finish(BOOKINGS, "b-1"))

        assert world.mirror.round()

    def test_one_refused_booking_does_not_keep_others_from_being_written(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.source.put(a_record("b-2"))
        world.kube.fail("POST", Unprocessable(REQUEST, Refusal(422, "Invalid", "spec.model is bad")))

        assert not world.mirror.round()
        assert len(world.objects) == 1
        assert not world.mirror.written(2, timeout=0)
        assert world.counted(verb="create", outcome="refused") == 1
        assert world.counted(verb="create", outcome="written") == 1

    def test_a_round_begins_no_write_after_a_failure_of_the_api_server(self, world: World) -> None:
        for number in range(1000):
            world.source.put(a_record(f"b-{number}"))
        world.kube.fail("POST", ServerError(REQUEST, Refusal(500, "", "no")))

        assert not world.mirror.round()
        assert len(world.objects) < AT_ONCE
        assert not world.mirror.written(1, timeout=0)

    def test_an_unreachable_api_server_is_waited_for(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.kube.down = True
        assert not world.mirror.round()
        assert "connection refused" in (world.mirror.unready_reason() or "")

        world.kube.down = False
        assert world.mirror.round()
        assert world.mirror.unready_reason() is None
        assert list(world.objects) == ["b-1"]

    def test_a_database_error_writes_nothing_and_does_not_stop_the_mirror(self, world: World) -> None:
        world.source.problem = StoreError("The database is locked.")

        assert not world.mirror.round()
        assert not world.mirror.is_stopped
        assert world.writes == []
        assert "The database is locked." in (world.mirror.unready_reason() or "")


class TestLaw9:
    """Law L9: a database that does not know the objects changes and deletes nothing."""

    def expect_stopped(self, world: World, *, because: str) -> None:
        there, before = world.objects, list(world.writes)
        assert not world.mirror.round()
        assert world.mirror.is_stopped
        assert because in (world.mirror.unready_reason() or "")
        assert world.writes == before
        assert world.objects == there

    def test_l9_objects_of_another_database_stop_the_mirror(self, world: World) -> None:
        world.put_object("b-old", store_id="theirs")
        world.source.put(a_record("b-1"))

        self.expect_stopped(world, because="'theirs'")

    def test_l9_a_single_foreign_object_stops_a_running_mirror(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.put_object("b-old", store_id="theirs")
        world.source.put(a_record("b-1", cancelled=START))

        self.expect_stopped(world, because="b-old")

    def test_l9_objects_unknown_to_an_older_copy_stop_the_mirror(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.source.put(a_record("b-2"))
        world.mirror.round()
        del world.source.records["b-2"]

        self.expect_stopped(world, because="(b-2)")

    def test_l9_a_missing_database_stops_the_mirror(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.problem = StoreGoneError("The database file /db is missing.")

        self.expect_stopped(world, because="The database file /db is missing.")

    def test_l9_a_replaced_database_stops_the_mirror(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.source.store_id = "another"
        world.source.records.clear()

        self.expect_stopped(world, because="'another'")

    def test_l9_a_database_that_vanishes_while_it_is_read_writes_nothing(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.kube.before("LIST", lambda: setattr(world.source, "problem", StoreGoneError("gone")))

        self.expect_stopped(world, because="gone")

    def test_l6_the_lease_is_not_renewed_while_the_mirror_is_stopped(self, world: World) -> None:
        world.mirror.round()
        renewed = world.lease.spec.renew_time
        world.put_object("b-old", store_id="theirs")
        world.clock.advance(20)
        world.mirror.round()

        assert world.lease.spec.renew_time == renewed

    def test_the_mirror_continues_by_itself_when_the_reason_is_gone(self, world: World) -> None:
        world.put_object("b-old", store_id="theirs")
        world.source.put(a_record("b-1"))
        world.mirror.round()
        world.kube.delete(BOOKINGS, "b-old")

        assert world.mirror.round()
        assert not world.mirror.is_stopped
        assert world.mirror.unready_reason() is None
        assert list(world.objects) == ["b-1"]


class TestHealth:
    def test_before_the_first_round_nothing_can_be_booked(self, world: World) -> None:
        assert world.mirror.unready_reason() == "The bookings have not been written to the cluster yet."

    def test_the_mirror_is_ready_for_thirty_seconds_after_a_complete_round(self, world: World) -> None:
        world.mirror.round()
        world.clock.advance(30)
        assert world.mirror.unready_reason() is None

        world.clock.advance(1)
        assert (
            world.mirror.unready_reason()
            == "The bookings have not been written to the cluster for more than 30 seconds."
        )

    def test_a_lease_that_cannot_be_written_makes_the_mirror_unready(self, world: World) -> None:
        world.kube.fail("POST", Unprocessable(REQUEST, Refusal(422, "Invalid", "no such namespace")))

        assert not world.mirror.round()
        assert "no such namespace" in (world.mirror.unready_reason() or "")


class TestLease:
    def test_the_lease_names_its_holder_and_the_written_change(self, world: World) -> None:
        change = world.source.put(a_record("b-1"))
        world.mirror.round()

        assert world.lease.spec.holder_identity == "server-1"
        assert world.lease.spec.lease_duration_seconds == 30
        assert world.lease.spec.renew_time == START
        assert world.lease.metadata.annotation(names.CHANGE) == str(change)

    def test_every_round_renews_the_lease(self, world: World) -> None:
        world.mirror.round()
        change = world.source.put(a_record("b-1"))
        world.clock.advance(5)
        world.mirror.round()

        assert world.lease.spec.renew_time == START + timedelta(seconds=5)
        assert world.lease.metadata.annotation(names.CHANGE) == str(change)
        assert world.lease.spec.lease_transitions == 0

    def test_a_restarted_server_takes_the_lease_over(self, world: World) -> None:
        world.mirror.round()
        world.another_mirror("server-2").round()

        assert (world.lease.spec.holder_identity, world.lease.spec.lease_transitions) == ("server-2", 1)

    def test_a_foreign_write_to_the_lease_is_noticed_and_kept(self, world: World) -> None:
        world.mirror.round()
        note = {"metadata": {"annotations": {"note": "kept"}}}
        world.kube.patch(LEASES, names.MIRROR_LEASE, note, namespace=names.NAMESPACE)

        assert not world.mirror.round()
        assert world.mirror.round()
        assert world.lease.metadata.annotation("note") == "kept"

    def test_a_deleted_lease_is_created_again(self, world: World) -> None:
        world.mirror.round()
        world.kube.delete(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)

        assert not world.mirror.round()
        assert world.mirror.round()
        assert world.lease.spec.holder_identity == "server-1"


class TestThread:
    def test_a_trigger_begins_a_round_at_once_and_wakes_the_callers_that_wait_for_the_change(
        self, world: World
    ) -> None:
        with world.running():
            world.clock.until_waiting()
            change = world.source.put(a_record("b-1"))
            world.mirror.trigger()

            assert world.mirror.written(change, timeout=10)
            assert list(world.objects) == ["b-1"]
            assert world.clock.now() == START

    def test_without_a_trigger_the_mirror_checks_every_five_seconds(self, world: World) -> None:
        with world.running():
            world.clock.until_waiting()
            change = world.source.put(a_record("b-1"))
            world.clock.advance(5)

            assert world.mirror.written(change, timeout=10)

    def test_a_wait_that_times_out_returns_false(self, world: World) -> None:
        world.kube.down = True
        with world.running():
            world.clock.until_waiting()
            answers: list[bool] = []
            waiting = threading.Thread(target=lambda: answers.append(world.mirror.written(1, timeout=3)))
            waiting.start()
            world.clock.until_waiting(2)
            world.clock.advance(3)
            waiting.join(10)

        assert answers == [False]

    def test_the_mirror_continues_by_itself_after_an_outage(self, world: World) -> None:
        world.kube.down = True
        world.source.put(a_record("b-1"))
        with world.running():
            world.clock.until_waiting()
            world.kube.down = False
            world.clock.advance(5)
            eventually(lambda: world.mirror.unready_reason() is None)

        assert list(world.objects) == ["b-1"]

    def test_a_conflict_is_retried_soon(self, world: World) -> None:
        world.source.put(a_record("b-1"))
        world.kube.fail("POST", Conflict(REQUEST, Refusal(409, "Conflict", "no")))
        with world.running():
            world.clock.until_waiting()
            world.clock.advance(0.5)
            assert world.mirror.written(1, timeout=10)
