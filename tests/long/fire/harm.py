"""What is done to a cluster while a story is played in it: who is killed or paused, when, and for how long.

Moments are drawn from a seed, each by the names of what it is about alone, so that a seed means the same
whatever else is drawn. ``FIRE_SEED=... pytest ...`` repeats the same.
"""

import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster

SEED: Final = "FIRE_SEED"
"""Environment variable: the seed that a test shall use."""
LONGEST_DOWN: Final = 2.0
"""Seconds at most that a killed process stays away."""

Kind = Literal["killed", "paused"]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Blow:
    """One thing that is done."""

    target: str
    """Name of a daemon of the cluster."""
    moment: str
    """Of the story."""
    after: float = 0.0
    """Seconds after that moment; 0: at it, while the story waits."""
    down: float = 0.0
    """Seconds until it is started again, or goes on."""
    kind: Kind = "killed"

    def __str__(self) -> str:
        """As a test prints it."""
        return f"{self.target} {self.kind} {self.after:.2f} s after {self.moment!r} for {self.down:.2f} s"


def new_seed(variable: str = SEED) -> str:
    """The seed that was given by this variable of the environment, or a new one."""
    return os.environ.get(variable) or secrets.token_hex(4)


def share(seed: str, *about: str) -> float:
    """A number in [0, 1) that the seed and these words determine."""
    digest = hashlib.sha256("\0".join((seed, *about)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def drawn(
    seed: str,
    targets: tuple[str, ...],
    lasts: Mapping[str, float],
    *,
    down: float | None = None,
    kind: Kind = "killed",
) -> tuple[Blow, ...]:
    """A random moment for each target.

    Args:
        seed: what to draw from.
        targets: names of daemons.
        lasts: moment -> seconds until the next one, undisturbed, in their order.
        down: seconds that it is away; None: drawn as well.
        kind: what is done.
    """
    blows = []
    for target in targets:
        moment, after = _moment(share(seed, target, "when") * sum(lasts.values()), lasts)
        away = share(seed, target, "how long") * LONGEST_DOWN if down is None else down
        blows.append(Blow(target, moment, after, away, kind))
    return tuple(blows)


def _moment(at: float, lasts: Mapping[str, float]) -> tuple[str, float]:
    """The newest moment, so many seconds after the first one, and how long it is over then."""
    begins = dict(zip(lasts, accumulate(lasts.values(), initial=0.0), strict=False))
    newest = max((begin, moment) for moment, begin in begins.items() if begin <= at)
    return newest[1], at - newest[0]


class Harm:
    """Does what was planned; ``interlude`` is given to a story, ``finish`` waits for the last blow."""

    def __init__(
        self, cluster: Cluster, blows: tuple[Blow, ...], *, fault: Report, say: Report = lambda _line: None
    ) -> None:
        """Args: fault: called when a blow falls and when it is over; say: writes a line for people."""
        self._cluster = cluster
        self._blows = blows
        self._fault = fault
        self._say = say
        self._clock = SystemClock()
        self._pool = ThreadPoolExecutor(max(1, len(blows)))
        self._futures: list[Future[None]] = []

    def interlude(self, moment: str) -> None:
        """What is planned at this moment is done now, what is planned after it in a thread."""
        for blow in self._blows:
            if blow.moment == moment and not blow.after:
                self._strike(blow)
            elif blow.moment == moment:
                self._futures.append(self._pool.submit(self._later, blow))
        if moment == "over":
            self.finish()

    def finish(self) -> None:
        """Wait until everything that was begun is over; raises what went wrong in it."""
        for one in self._futures:
            one.result()

    def _later(self, blow: Blow) -> None:
        self._wait(blow.after)
        self._strike(blow)

    def _strike(self, blow: Blow) -> None:
        daemon = self._cluster.daemon(blow.target)
        self._report(str(blow))
        if blow.kind == "killed":
            daemon.kill()
            self._wait(blow.down)
            daemon.restart()
        else:
            daemon.pause()
            self._wait(blow.down)
            daemon.resume()
        self._report(f"{blow.target} goes on")

    def _report(self, message: str) -> None:
        self._fault(message)
        self._say(message)

    def _wait(self, seconds: float) -> None:
        self._clock.wait(threading.Event(), seconds)
