from datetime import timedelta

import msgspec

from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from tests.fakes.objects import EPOCH, a_booking


def test_a_booking_runs_from_its_start_up_to_but_not_at_its_end() -> None:
    booking = a_booking(start=EPOCH, end=EPOCH + timedelta(hours=1))
    before, start, end = -1, 0, 3600

    assert [booking.is_running(EPOCH + timedelta(seconds=s)) for s in (before, start, end)] == [
        False,
        True,
        False,
    ]


def test_a_watchs_bookmark_reads_as_a_booking_of_nothing() -> None:
    head = {"kind": BOOKINGS.kind, "apiVersion": BOOKINGS.api_version}
    bookmark = msgspec.json.encode({**head, "metadata": {"resourceVersion": "7"}})

    booking = msgspec.json.decode(bookmark, type=Booking)

    assert booking.metadata.resource_version == "7"
    assert booking.spec.count == 0
    assert not booking.is_running(EPOCH)
