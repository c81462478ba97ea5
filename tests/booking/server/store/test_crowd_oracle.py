"""The oracle of the crowd finds overbooked times, and nothing else."""

from tests.booking.server.store.crowd import ANYWHERE, overbooked
from tests.fakes.records import a_record, day

GIVEN_BACK = a_record(day(0), day(0.01), id="b-given-back", count=3)
GROWN = a_record(day(0), day(2), id="b-grown", count=3)
"""It had one GPU until the other booking ended: its record has the new count for its whole span."""


def test_gpus_added_to_a_running_booking_do_not_count_for_its_past() -> None:
    assert overbooked([GIVEN_BACK, GROWN], ANYWHERE, day(0)) == [GIVEN_BACK, GROWN]
    assert overbooked([GIVEN_BACK, GROWN], ANYWHERE, day(0.1)) == []


def test_bookings_that_overbook_from_the_instant_on_are_found() -> None:
    late = a_record(day(1), day(3), id="b-late", count=2)
    assert overbooked([GIVEN_BACK, GROWN, late], ANYWHERE, day(0.1)) == [GROWN, late]
