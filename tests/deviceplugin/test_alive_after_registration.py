"""An agent says that it is alive when the kubelet knows its devices: pods that come sooner would fail."""

import threading

from cluster.fake.clock import FakeClock
from deviceplugin.__main__ import ALIVE_WITHIN, after


class Began:
    """A body that notes when it began, and ends."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.at: float | None = None

    def __call__(self, _stop: threading.Event) -> None:
        self.at = self._clock.monotonic()


def test_it_waits_until_the_kubelet_knows_the_devices() -> None:
    clock = FakeClock(self_advancing=True)
    start, body = clock.monotonic(), Began(clock)
    after(lambda: clock.monotonic() >= start + 1, clock, body)(threading.Event())
    assert body.at is not None
    assert start + 1 <= body.at < start + ALIVE_WITHIN


def test_it_does_not_wait_for_ever() -> None:
    clock = FakeClock(self_advancing=True)
    start, body = clock.monotonic(), Began(clock)
    after(lambda: False, clock, body)(threading.Event())
    assert body.at is not None
    assert body.at >= start + ALIVE_WITHIN
