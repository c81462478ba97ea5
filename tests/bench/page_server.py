"""The booking server with its pages over N bookings of the next four weeks, on SQLite.

Run by ``bench_page`` in a process of its own; its first line is the port.
"""

import gc
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from booking.server.capacity.capacity import Capacity
from booking.server.records import Place, Record
from booking.server.store import Writing
from cluster.process import logs
from cluster.process.probes import serve
from tests.bench.child import announce, await_end
from tests.booking.server.web.pages.site import DAY, Site

MODELS: Final = (
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-L40S",
    "NVIDIA-RTX-A6000",
    "Tesla-T4",
)
NODES: Final = 16
GPUS: Final = 8
"""Per node; a node has one model."""
LENGTH: Final = timedelta(hours=61)
"""Length of a booking: this many fit one after the other into four weeks of all GPUs."""


def main() -> None:
    """Serve until standard input ends."""
    logs.configure(level="error")
    with TemporaryDirectory() as folder:
        site = Site(Path(folder))
        site.capacity = Capacity({model: {_node(model, n): GPUS for n in range(NODES)} for model in MODELS})
        site.store.write(lambda writing: _fill(writing, site, int(sys.argv[1])))
        gc.freeze()
        server = serve(site.app, "127.0.0.1", 0, threads=16)
        announce(str(server.port))
        await_end()
        server.close()
        site.store.close()


def _fill(writing: Writing, site: Site, count: int) -> None:
    """Bookings one after the other on every GPU; one in fifty is alice's."""
    begin = site.clock.now().replace(second=0, microsecond=0) - DAY
    devices = len(MODELS) * NODES * GPUS
    for number in range(count):
        turn, device = divmod(number, devices)
        model = MODELS[device % len(MODELS)]
        start = begin + turn * LENGTH + timedelta(minutes=device % 97)
        record = Record(
            id=f"b-{number:010}",
            user="alice" if number % 50 == 0 else f"user-{number % 211}",
            model=model,
            count=1,
            topology="any",
            namespace=None,
            start=start,
            end=start + LENGTH,
            created=begin,
            plan=(Place(_node(model, device // len(MODELS) % NODES), 1),),
        )
        writing.add(record)


def _node(model: str, number: int) -> str:
    return f"{model.lower()}-{number:02}"


if __name__ == "__main__":
    main()
