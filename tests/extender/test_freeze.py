import threading

from cluster.fake.clock import FakeClock, eventually
from extender.freeze import Freeze


class Picture:
    def __init__(self) -> None:
        self.problem: str | None = "The pods of the cluster have not been read yet."
        self.frozen = 0

    def unready_reason(self) -> str | None:
        return self.problem

    def freeze(self) -> None:
        self.frozen += 1


def test_objects_are_frozen_once_and_only_when_the_picture_is_complete() -> None:
    cache, clock, stop = Picture(), FakeClock(), threading.Event()
    thread = threading.Thread(target=Freeze(cache.unready_reason, clock, cache.freeze).run, args=(stop,))
    thread.start()
    clock.until_waiting()
    assert cache.frozen == 0

    cache.problem = None
    clock.advance(1)
    eventually(lambda: cache.frozen == 1)
    stop.set()
    thread.join()
    assert cache.frozen == 1


def test_a_process_that_stops_before_it_is_synced_freezes_nothing() -> None:
    cache, clock, stop = Picture(), FakeClock(), threading.Event()
    thread = threading.Thread(target=Freeze(cache.unready_reason, clock, cache.freeze).run, args=(stop,))
    thread.start()
    clock.until_waiting()
    stop.set()
    clock.advance(1)
    thread.join()
    assert cache.frozen == 0
