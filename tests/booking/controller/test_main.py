"""The controller's composition root."""

from booking.controller.__main__ import follow
from booking.controller.settings import ControllerSettings
from cluster.cache import ClusterCache
from cluster.decide.ledger import SOURCES
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from tests.fakes.freezing import check_that_objects_are_frozen


def test_objects_are_frozen_for_the_garbage_collector_once_all_have_been_read() -> None:
    clock, settings = FakeClock(), ControllerSettings()
    cache = ClusterCache(clock, home=settings.namespace, sources=SOURCES)
    cache.keep_scheduling_objects()
    following = follow(FakeKube(clock), cache, clock, settings)
    check_that_objects_are_frozen(following)
