import threading

from cluster.fake.clock import FakeClock, eventually
from extender.freeze import Freeze


class Picture:
    def __init__(self) -> None:
        self.trouble: str | None = "The pods of the cluster have not been read yet."
        self.frozen = 0

    def obstacle(self) -> str | None:
        return self.trouble

    def freeze(self) -> None:
        self.frozen += 1


def test_objects_are_frozen_once_and_only_when_the_picture_is_complete() -> None:
    picture, clock, stop = Picture(), FakeClock(), threading.Event()
    thread = threading.Thread(target=Freeze(picture.obstacle, clock, picture.freeze).run, args=(stop,))
    thread.start()
    clock.until_waiting()
    assert picture.frozen == 0

    picture.trouble = None
    clock.advance(1)
    eventually(lambda: picture.frozen == 1)
    stop.set()
    thread.join()
    assert picture.frozen == 1


def test_a_process_that_stops_before_it_is_synced_freezes_nothing() -> None:
    picture, clock, stop = Picture(), FakeClock(), threading.Event()
    thread = threading.Thread(target=Freeze(picture.obstacle, clock, picture.freeze).run, args=(stop,))
    thread.start()
    clock.until_waiting()
    stop.set()
    clock.advance(1)
    thread.join()
    assert picture.frozen == 0
