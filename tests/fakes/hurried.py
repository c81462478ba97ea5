"""A part in a hurry: ``python -m tests.fakes.hurried MODULE ...`` gives it a clock five times as fast.

Whatever it does now and then, whatever it waits for and whatever it gives others is a fifth as long. The wall
clock is right: who compares instants with others sees no difference.
"""

import runpy
import sys
import threading
from collections.abc import Sequence
from typing import Final

from cluster.process import clock as clocks
from cluster.process.clock import SystemClock

SPEED: Final = 5.0


class HurriedClock(SystemClock):
    """The machine's clock, on which a second lasts a fifth of one."""

    def monotonic(self) -> float:
        """Seconds of its own."""
        return SPEED * super().monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for so many seconds of its own."""
        return super().wait(event, seconds / SPEED)


def command(module: str, *arguments: str) -> list[str]:
    """What runs a module in a hurry, in the folder of the checkout."""
    return [sys.executable, "-m", "tests.fakes.hurried", module, *arguments]


def main(module: str, arguments: Sequence[str]) -> None:
    """Run a module as a program."""
    vars(clocks).update(SystemClock=HurriedClock)  # every clock that is made is in a hurry
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
