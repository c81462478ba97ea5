"""One of our parts on a machine whose clock is wrong: ``python wrong_clock_part.py MODULE SECONDS``.

MODULE has ``main``; its wall clock is so many seconds ahead, all else is the part as it is shipped.
"""

import sys
from datetime import datetime, timedelta
from importlib import import_module

from cluster.process.clock import SystemClock


def put_ahead(seconds: float) -> None:
    """Make every reading of the wall clock so wrong."""
    right = SystemClock.now

    def wrong(self: SystemClock) -> datetime:
        return right(self) + timedelta(seconds=seconds)

    SystemClock.now = wrong


if __name__ == "__main__":
    put_ahead(float(sys.argv[2]))
    sys.exit(import_module(sys.argv[1]).main())
