"""The controller's composition root."""

import gc
import threading

from booking.controller.__main__ import follow
from booking.controller.settings import ControllerSettings
from cluster.cache import ClusterCache
from cluster.decide.ledger import SOURCES
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube


def test_objects_are_frozen_for_the_garbage_collector_once_all_have_been_read() -> None:
    clock, settings = FakeClock(), ControllerSettings()
    cache = ClusterCache(clock, home=settings.namespace, sources=SOURCES)
    cache.keep_scheduling_objects()
    following = follow(FakeKube(clock), cache, clock, settings)
    stop, before = threading.Event(), gc.get_freeze_count()
    threads = [threading.Thread(target=body, args=(stop,)) for body in following.threads.values()]
    try:
        for thread in threads:
            thread.start()
        eventually(lambda: gc.get_freeze_count() > before)
        assert following.unready_reason() is None
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        gc.unfreeze()
