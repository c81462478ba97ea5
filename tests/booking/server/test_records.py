from datetime import timedelta

import msgspec
import pytest

from booking.server.records import BookingRequest, Place
from tests.fakes.records import a_record, day

SECOND = timedelta(seconds=1)


def test_a_booking_is_planned_before_its_first_instant() -> None:
    assert a_record(day(1), day(3)).state(day(1) - SECOND) == "planned"


def test_a_booking_is_active_from_its_first_instant_on() -> None:
    assert a_record(day(1), day(3)).state(day(1)) == "active"
    assert a_record(day(1), day(3)).state(day(3) - SECOND) == "active"


def test_a_booking_is_over_at_its_end_since_its_interval_is_half_open() -> None:
    assert a_record(day(1), day(3)).state(day(3)) == "ended"


def test_a_released_booking_is_over_at_once_even_within_its_last_second() -> None:
    released = a_record(day(1), day(2) + SECOND, released=day(2))
    assert released.state(day(2)) == "ended"
    assert released.state(day(2) - SECOND) == "active"


@pytest.mark.parametrize("now", [0, 1, 2, 3, 4])
def test_a_cancelled_booking_stays_cancelled(now: int) -> None:
    assert a_record(day(1), day(3), cancelled=day(0)).state(day(now)) == "cancelled"


@pytest.mark.parametrize(
    "changed",
    [
        {"start": day(1) + SECOND},
        {"end": day(4)},
        {"count": 2},
        {"namespace": "lab"},
        {"topology": "single-node"},
        {"released": day(2)},
        {"cancelled": day(0)},
        {"ended_by": "bob"},
        {"reason": "why"},
        {"waived": True},
        {"id": "b-two"},
    ],
)
def test_every_change_that_people_make_gives_a_booking_another_version(changed: dict[str, object]) -> None:
    record = a_record(day(1), day(3))
    assert msgspec.structs.replace(record, **changed).version != record.version


def test_the_place_in_the_plan_and_the_change_number_do_not_affect_the_version() -> None:
    moved = a_record(day(1), day(3), plan=(Place("n0", 1),), change=7)
    assert moved.version == a_record(day(1), day(3)).version


def read(text: str) -> BookingRequest:
    return msgspec.json.decode(text, type=BookingRequest)


def test_a_request_needs_only_a_model_and_an_end() -> None:
    request = read('{"model": "A100", "end": "2026-03-04T09:00:00Z"}')
    assert (request.count, request.start, request.namespace, request.topology) == (1, None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"model": "A100", "end": "2026-03-04T09:00:00"}',
        '{"model": "A100", "end": "2026-03-04"}',
        '{"model": "A100", "end": "2026-03-04T09:00:00Z", "start": "2026-03-02T09:00:00"}',
        '{"model": "A100", "end": "2026-03-04T09:00:00Z", "count": 1.5}',
        '{"model": "A100", "end": "2026-03-04T09:00:00Z", "count": 100000000000000000000000000000000}',
        '{"model": "A100", "end": "2026-03-04T09:00:00Z", "topology": "ring"}',
        '{"model": "A100", "end": "2026-03-04T09:00:00Z", "user": "bob"}',
        '{"model": "A100"}',
        '{"model": null, "end": "2026-03-04T09:00:00Z"}',
    ],
)
def test_an_invalid_request_is_refused_where_it_is_read(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(text)
