"""Builders of bookings for tests: ``a_record(start=day(1), end=day(3))``; ``day(0)`` is ``clock.START``."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from booking.server.capacity.capacity import Capacity
from booking.server.records import BookingRequest, Record
from cluster.fake.clock import START
from tests.fakes.objects import A100, A6000

CLUSTER = Capacity({A100: {"n0": 4, "n1": 2}, A6000: {"n1": 2}})
"""Six A100s on two nodes, two A6000s."""


def day(number: float) -> datetime:
    """The instant so many days after the clock's start."""
    return START + timedelta(days=number)


def a_record(start: datetime = START, end: datetime | None = None, **more: Any) -> Record:
    """A booking of one A100 by alice, for two days unless given otherwise."""
    stored = Record(
        id="b-one",
        user="alice",
        model=A100,
        count=1,
        topology="any",
        namespace=None,
        start=start,
        end=end or start + timedelta(days=2),
        created=start - timedelta(days=30),
    )
    return msgspec.structs.replace(stored, **more)


def a_request(start: datetime | None = None, end: datetime | None = None, **more: Any) -> BookingRequest:
    """A request for one A100, now and for two days unless given otherwise."""
    request = BookingRequest(model=A100, start=start, end=end or (start or START) + timedelta(days=2))
    return msgspec.structs.replace(request, **more)
