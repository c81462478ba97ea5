"""The extender as it is shipped, with a simulated API server: its start, its size, its log.

Also how fast filter answers while the cluster changes and is listed again.
"""

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Final

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.resources import PODS
from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from tests.bench.bench_filter import Scheduler, checked
from tests.bench.bench_pods import processor_seconds
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import GPUS
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import seconds
from tests.extender.settings import free_port

PROGRAM: Final = ("extender",)
"""The module and its arguments."""
NODES: Final = 1_000
SIZE: Final = f"{NODES} nodes, {NODES * GPUS} pods"
MIB: Final = 2**20
STARTS_WITHIN: Final = 60.0
"""Seconds; an extender that takes longer is broken."""
QUESTIONS: Final = 100
EVENTS: Final = 1_000
"""Per second."""
SPAN: Final = 10.0
"""Seconds during which filter is asked, idle and busy."""
RELISTED_EVERY: Final = 2.0
LISTED_EVERY: Final = 1.0
"""Seconds: a list takes about this long."""
BETWEEN: Final = 0.005
"""Seconds between two requests: they come faster than a scheduler could send them."""

_START: Final = Kind(
    "extender-cold-start",
    f"extender: its start to its first answer to filter, {SIZE}",
    "s",
    "one list of the pods in pages by the same client",
    target=Target(value=2),
)
_SIZE: Final = Kind(
    "extender-memory", f"memory of the extender then, {SIZE}", "MiB", target=Target(value=120)
)
_LOG: Final = Kind("filter-log", "what one filter writes to the log", "bytes", target=Target(value=1024))
PERCENTS: Final = (99, 95)
"""Some twenty answers decide a p99, of the idle floor, too, where stalls hide a miss: a p95 shows it."""


def _beside(what: str, words: str, ratio: float) -> tuple[Kind, ...]:
    """Rows of filter while something else happens, in the order of ``PERCENTS``."""
    return tuple(
        Kind(
            f"filter-{what}-p{percent}",
            f"filter p{percent} while {words}",
            "ms",
            f"its p{percent} when idle",
            target=Target(ratio=ratio),
        )
        for percent in PERCENTS
    )


_BUSY: Final = _beside(
    "busy", f"{EVENTS} events of pods arrive each second and all pods are listed again, {SIZE}", 3
)
LISTED_NODES: Final = 1_250
_LISTED: Final = _beside(
    "relist", f"{LISTED_NODES * GPUS} pods on {LISTED_NODES} nodes are listed again and again", 3
)
BINDS: Final = 200
"""At a time: more than there may be threads for; kube-scheduler sets no limit."""
SLOW_SECONDS: Final = 3.0
_SLOW: Final = _beside(
    "slow-api", f"{BINDS} binds at a time wait for an API server, {SLOW_SECONDS:g} s each, {SIZE}", 2
)
P95: Final = tuple(kinds[-1] for kinds in (_BUSY, _SLOW, _LISTED))


class Extender:
    """The extender's process, and a client of it."""

    def __init__(
        self, server: int, folder: Path, program: Sequence[str] = PROGRAM, *, nodes: int = NODES
    ) -> None:
        self._log = folder / "log"
        (folder / "token").write_text("nobody asks")
        port = free_port()
        settings = {
            "port": str(port),
            "probe_host": "127.0.0.1",
            "probe_port": str(free_port()),
            "leader_election": "false",
            "kube_server": f"http://127.0.0.1:{server}",
            "kube_token_file": str(folder / "token"),
            "kube_ca_file": str(folder / "token"),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=CHECKOUT,
                env={**os.environ, **{names.setting(key): value for key, value in settings.items()}},
                stderr=log,
            )
        self._clock = SystemClock()
        self.nodes, self.port = nodes, port
        self.scheduler = Scheduler(port, nodes)

    def await_first_answer(self) -> None:
        """Ask filter until it answers."""
        never, begin = Event(), self._clock.monotonic()
        while self._clock.monotonic() - begin < STARTS_WITHIN:
            try:
                checked(self.scheduler.ask("/filter"), self.nodes)
            except (OSError, RuntimeError):
                self.scheduler.close()
                self._clock.wait(never, 0.01)
            else:
                return
        raise RuntimeError(f"The extender does not answer: {self._log.read_text()[-1000:]}")

    def memory(self) -> int:
        """Bytes of memory that the process uses."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def logged(self) -> int:
        """The number of bytes that it has logged so far."""
        return self._log.stat().st_size

    def processor_seconds(self) -> float:
        """Seconds of processor time that it has used so far."""
        return processor_seconds(self._process.pid)

    def log(self) -> str:
        """The log so far."""
        return self._log.read_text()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Stop the process."""
        self.scheduler.close()
        self._process.terminate()
        self._process.wait(STARTS_WITHIN)


def measure(_lab: Lab) -> Iterator[Row]:
    """Start the extender, then ask filter."""
    with child("tests.bench.canned_server", str(NODES)) as port, an_extender(int(port)) as extender:
        starting = seconds(extender.await_first_answer)
        yield _START.row(starting, seconds(lambda: _list_in_pages(int(port))))
        yield _LOG.row(_logged(extender))
        yield _SIZE.row(extender.memory() / MIB)
        idle = _latencies(extender, int(port), events=0)
        busy = _latencies(extender, int(port), events=EVENTS)
        yield from _rows(_BUSY, busy, idle)
        with _binding(extender, int(port)):
            slow = _latencies(extender, int(port), events=0)
        yield from _rows(_SLOW, slow, idle)
    with (
        child("tests.bench.canned_server", str(LISTED_NODES)) as port,
        an_extender(int(port), nodes=LISTED_NODES) as extender,
    ):
        extender.await_first_answer()
        idle = _latencies(extender, int(port), events=0)
        listed = _latencies(extender, int(port), events=0, relisted_every=LISTED_EVERY)
        yield from _rows(_LISTED, listed, idle)


def _rows(kinds: Sequence[Kind], found: Sequence[float], idle: Sequence[float]) -> Iterator[Row]:
    for percent, kind in zip(PERCENTS, kinds, strict=True):
        yield kind.row(1000 * percentile(found, percent), 1000 * percentile(idle, percent))


@contextmanager
def an_extender(server: int, program: Sequence[str] = PROGRAM, *, nodes: int = NODES) -> Iterator[Extender]:
    """An extender that follows the API server on this port."""
    with TemporaryDirectory() as folder:
        extender = Extender(server, Path(folder), program, nodes=nodes)
        try:
            yield extender
        finally:
            extender.close()


def _list_in_pages(server: int) -> None:
    client = KubeClient(Connection(server=f"http://127.0.0.1:{server}"), SystemClock(), user_agent="bench")
    token: str | None = None
    while True:
        page = client.list(PODS, limit=500, continue_=token)
        token = page.continue_
        if token is None:
            client.close()
            return


def _logged(extender: Extender) -> float:
    before = extender.logged()
    for _ in range(QUESTIONS):
        extender.scheduler.ask("/filter")
    return (extender.logged() - before) / QUESTIONS


@contextmanager
def _binding(extender: Extender, server: int) -> Iterator[None]:
    """``BINDS`` binds at a time, of pods that the extender has to read first."""
    want(server, "/delay", int(1000 * SLOW_SECONDS))
    try:
        with child("tests.bench.binders", str(extender.port), str(BINDS), str(SLOW_SECONDS)):
            yield
    finally:
        want(server, "/delay", 0)


def _latencies(extender: Extender, server: int, *, events: int, relisted_every: float = 0.0) -> list[float]:
    """Seconds of each answer, under this many events and lists."""
    every = relisted_every or (RELISTED_EVERY if events else 2 * SPAN)
    clock, never = SystemClock(), Event()
    want(server, "/rate", events)
    begin = listed = clock.monotonic()
    found: list[float] = []
    while (now := clock.monotonic()) - begin < SPAN:
        if now - listed > every:
            want(server, "/expire", 0)
            listed = now
        found.append(seconds(lambda: extender.scheduler.ask("/filter")))
        clock.wait(never, BETWEEN)
    want(server, "/rate", 0)
    return found


def want(server: int, path: str, number: int) -> bytes:
    """Set what the simulated API server does; its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server)
    connection.request("POST", path, str(number))
    answer = connection.getresponse().read()
    connection.close()
    return answer


MEASURE: Final = Measure("extender", (_START, _SIZE, _LOG, *_BUSY, *_SLOW, *_LISTED), measure)
