"""How fast time goes: as fast as it is wanted, and never ahead of the work."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.fake.clock import START, FakeClock, eventually
from demo.lab.nodes import devices_of
from demo.pace import Pace
from demo.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, devices_of(1), start=START, zone="UTC")
    made.open(empty=True)
    yield made
    made.close()


@contextmanager
def driven(site: Site, real: FakeClock) -> Iterator[Pace]:
    pace, stop = Pace(site, real), threading.Event()
    site.soon = pace.soon

    def drive() -> None:
        site.driven_by_this_thread()
        pace.run(stop)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        real.until_waiting()
        yield pace
    finally:
        stop.set()
        pace.soon(lambda: None)
        thread.join()


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_virtual_time_goes_at_its_speed(site: Site, speed: float) -> None:
    real, begin = FakeClock(), site.clock.monotonic()
    with driven(site, real) as pace:
        pace.speed = speed
        real.advance(0.4)
        eventually(lambda: site.clock.monotonic() - begin == pytest.approx(0.4 * speed))


def test_a_computer_that_slept_goes_on_where_it_was(site: Site) -> None:
    real, begin = FakeClock(), site.clock.monotonic()
    with driven(site, real):
        real.advance(3600)
        eventually(lambda: site.clock.monotonic() > begin)
        real.until_waiting()
        assert site.clock.monotonic() - begin < 1


def test_a_day_is_leapt_without_real_time(site: Site) -> None:
    begin = site.clock.monotonic()
    with driven(site, FakeClock()) as pace:
        pace.leap(86400)
        eventually(lambda: not pace.is_leaping)
        assert site.clock.monotonic() - begin == pytest.approx(86400)


def test_what_is_asked_is_answered_by_the_thread_that_drives_and_errors_are_the_askers(site: Site) -> None:
    with driven(site, FakeClock()) as pace:
        assert pace.call(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            pace.call(lambda: 1 // 0)
