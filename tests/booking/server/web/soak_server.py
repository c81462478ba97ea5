"""The booking server, REST and pages, over a real database; its clock goes a day in a quarter of a minute.

Run by ``soak_memory`` in a process of its own: ``soak_server FOLDER URL``; its first line is the port. It
remembers nothing that only a test would read. Every few seconds it collects its garbage, so that the moment
of a collection does not matter, and writes its size into ``FOLDER/memory``.
"""

import gc
import resource
import sys
import threading
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Final

from booking.durations import Duration
from booking.policy.policy import Policy
from booking.server.__main__ import LONGEST_BODY, THREADS
from booking.server.capacity.capacity import Capacity
from cluster.process import logs
from cluster.process.clock import SystemClock
from cluster.process.malloc import use_one_malloc_arena
from cluster.process.probes import serve
from tests.bench.child import announce, await_end
from tests.booking.server.web.pages.site import Site
from tests.fakes.objects import A100, A6000

PEOPLE: Final = 500
"""Number of users, named u0, u1 and so on; root is the administrator."""
NODES: Final = 4
GPUS: Final = 8
INTERVAL: Final = 2.0
"""Seconds between two measurements of its memory."""
_TICK: Final = 0.01
_HOW_FAST: Final = 24 * 60 * 4
POLICY: Final = {
    "cooldown": Duration(),
    "shortest": Duration(seconds=3600),
    "longest": Duration(days=5),
    "farthest": Duration(days=9),
}


class Crowded(Site):
    """A site with many people."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url=url)
        self.policy = Policy(defaults=POLICY)
        self.tokens.names |= {f"u{number}-token": f"u{number}" for number in range(PEOPLE)}
        self.tokens.names["root-token"] = "root"
        self.signing_in.administrators.add("root")
        self.mirror.calls = deque(maxlen=0)
        self.capacity = Capacity({model: _devices(model) for model in (A100, A6000)})


def _devices(model: str) -> dict[str, int]:
    return {f"{model.lower()}-{number}": GPUS for number in range(NODES)}


def _advance_clock(site: Site, end: threading.Event) -> None:
    real = SystemClock()
    while not real.wait(end, _TICK):
        site.clock.advance(_HOW_FAST * _TICK)


def _measure(file: Path, end: threading.Event) -> None:
    temporary, real = file.with_suffix(".new"), SystemClock()
    while not real.wait(end, INTERVAL):
        gc.collect()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        temporary.write_text(f"{resident} {sys.getallocatedblocks()}")
        temporary.rename(file)


def main(folder: Path, url: str) -> None:
    """Serve until standard input ends."""
    logs.configure(level="error")
    use_one_malloc_arena()
    site, end = Crowded(folder, url), threading.Event()
    with closing(site.store):
        server = serve(site.app, "127.0.0.1", 0, threads=THREADS, longest_body=LONGEST_BODY)
        threads = [
            threading.Thread(target=_advance_clock, args=(site, end)),
            threading.Thread(target=_measure, args=(folder / "memory", end)),
        ]
        for each in threads:
            each.start()
        announce(str(server.port))
        await_end()
        end.set()
        for each in threads:
            each.join()
        server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
