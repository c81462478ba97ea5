"""An agent that ends in good order releases its Lease first, and serves the kubelet a little longer."""

import threading

import pytest

from cluster.fake.clock import FakeClock
from deviceplugin.process.graceful_shutdown import SERVED_ON, GracefulShutdown


class Served:
    """Serves the kubelet until it is stopped, and records when."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.ended_at: float | None = None

    def run(self, stop: threading.Event) -> None:
        stop.wait(10)
        self.ended_at = self._clock.monotonic()


def leaves(*, was_held: bool) -> tuple[float, float | None]:
    """When the Lease was released, and when the kubelet was no longer served; seconds from SIGTERM."""
    clock = FakeClock(self_advancing=True)
    released: list[float] = []

    def release() -> bool:
        released.append(clock.monotonic())
        return was_held

    last, served, stop = GracefulShutdown(release, clock), Served(clock), threading.Event()
    thread = threading.Thread(target=last.body(served.run), args=(stop,))
    thread.start()
    stop.set()
    last.leave()
    thread.join()
    return released[0], served.ended_at


def test_a_pod_that_is_being_admitted_when_the_lease_is_released_is_still_served() -> None:
    assert leaves(was_held=True) == (0.0, SERVED_ON)


def test_an_agent_that_does_not_hold_the_lease_ends_at_once() -> None:
    assert leaves(was_held=False) == (0.0, 0.0)


def test_the_agent_ends_even_if_the_lease_cannot_be_released() -> None:
    def broken() -> bool:
        raise RuntimeError

    last, clock = GracefulShutdown(broken, FakeClock()), FakeClock()
    served = Served(clock)
    thread = threading.Thread(target=last.body(served.run), args=(threading.Event(),))
    thread.start()
    with pytest.raises(RuntimeError):
        last.leave()
    thread.join()
    assert served.ended_at == 0.0
