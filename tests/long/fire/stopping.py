"""A part that stops at one line of its own code, in place of the usual one: a moment that no signal hits."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from cluster.process.clock import SystemClock
from devcluster.daemons import Daemon
from devcluster.product import Parts, booking_controller, booking_server, extender
from devcluster.product.part import Part
from devcluster.wait import poll
from tests.e2e.usual import usual
from tests.laws.live import LiveWatch

PROGRAMS: Final = {
    extender.NAME: "extender.__main__",
    booking_controller.NAME: "booking.controller.__main__",
    booking_server.NAME: "booking.server.__main__",
}
"""Daemon -> the module that it runs."""
ACTOR: Final = str(Path(__file__).parent / "actors" / "stopping_part.py")
PAUSE: Final = 20.0
"""Seconds for which a part is stopped."""

Side = Literal["before", "after"]


class Stopping:
    """One part that can be made to stop."""

    def __init__(self, daemon: Daemon, folder: Path, laws: LiveWatch) -> None:
        self._daemon = daemon
        self._folder = folder
        self._laws = laws

    def stop_next(self, side: Side) -> None:
        """Stop at the next call of the method, before or after it."""
        (self._folder / side).touch()

    def await_stop(self, side: Side, *, seconds: float = 120.0) -> None:
        """Wait until it is stopped."""
        assert poll(lambda: not (self._folder / side).exists(), seconds=seconds), "it does not get there"
        self._laws.fault(f"{self._daemon.name} is stopped")

    def go_on(self) -> None:
        """Let it go on."""
        self._laws.fault(f"{self._daemon.name} goes on")
        self._daemon.resume()

    def pause_next(self, side: Side, seconds: float = PAUSE) -> None:
        """Stop it for a while at the next call of the method."""
        self.stop_next(side)
        self.await_stop(side)
        SystemClock().wait(threading.Event(), seconds)
        self.go_on()

    @property
    def calls(self) -> list[str]:
        """Calls of subresources, as ``binding POD done``."""
        calls = self._folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@contextmanager
def stopping(parts: Parts, laws: LiveWatch, name: str, seam: str) -> Iterator[Stopping]:
    """The part, which stops at the seam; the usual one runs again afterwards.

    Args:
        parts: of the cluster.
        laws: get the faults.
        name: of the daemon.
        seam: ``module:Class.method``.
    """
    ours = usual(parts)[name]
    folder = parts.folder / f"stopping-{name}"
    folder.mkdir()
    odd = replace(ours, program=(sys.executable, ACTOR, PROGRAMS[name], seam, str(folder)))
    try:
        laws.fault(f"{name} is replaced")
        yield Stopping(_start(parts, odd), folder, laws)
    finally:
        _start(parts, ours)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _start(parts: Parts, part: Part) -> Daemon:
    parts._cluster.daemon(part.name).kill()
    daemon = parts._start(part)
    parts.await_ready()
    return daemon
