"""A booking service on a real database, at ``clock.START``."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booking.policy.limits import Limits
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from cluster.fake.clock import FakeClock
from tests.fakes.records import CLUSTER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bookings.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{path}")) as opened:
        yield opened


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(store: Store, clock: FakeClock) -> BookingService:
    return BookingService(store, clock, Limits(), lambda: CLUSTER)
