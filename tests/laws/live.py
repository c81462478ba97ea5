"""The watcher on a running cluster: its API server's watches and the kubelets' checkpoints.

Runs next to the cluster, never in its way: five watches with the administrator's rights, and a file a node.
Nobody is asked for PodResources. Changes come to the watcher in the order of their resourceVersions
(``ordering``), about half a second after they were written.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, PODS
from cluster.process.clock import Clock
from devcluster.cluster import Cluster
from devcluster.wait import poll
from tests.laws.broken import LawBrokenError
from tests.laws.changes import WATCHED
from tests.laws.checkpoints import Checkpoints, ClaimCheckpoints
from tests.laws.following import Follower, everything
from tests.laws.l4 import BACK_WITHIN
from tests.laws.l9 import Fingerprint, fingerprint_of
from tests.laws.ordering import WAITS
from tests.laws.state import State
from tests.laws.stream import Stream
from tests.laws.watcher import LawWatcher
from tests.patience import PATIENCE

LEEWAY: Final = 5.0
"""Seconds between the read and the write of an honest decision: a pass of the reclaimer on a busy machine,
the 2 s of a bind, what a part's watch lags behind ours."""
SETTLES: Final = 5.0
"""Seconds in which a kubelet says that a pod has ended whose device it has given to the next."""
TICK: Final = 0.1


def checkpoints_of(cluster: Cluster) -> dict[str, Path]:
    """Node -> its kubelet's folder of device plugins, as the host sees it."""
    return {node: cluster.state / node / "kubelet" / "device-plugins" for node in cluster.nodes}


class LiveWatch:
    """Watches while it is entered."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        checkpoints: Mapping[str, Path],
        *,
        resources: Iterable[str] = (names.GPU_RESOURCE,),
        leeway: float = LEEWAY,
        settles: float = SETTLES,
        claims: bool = False,
        driver: str = names.DRA_DRIVER,
    ) -> None:
        """Watch nothing yet.

        Args:
            kube: with the administrator's rights, for nobody else.
            clock: real time.
            checkpoints: node -> its kubelet's folder ``device-plugins``.
            resources: whose devices no two pods may have, by the checkpoints.
            leeway: seconds between the read and the write of an honest decision.
            settles: seconds for which what kubelets do and what they say may differ.
            claims: whether pods may have devices by claims.
            driver: name of the driver that gives these.
        """
        self._kube = kube
        self._clock = clock
        self._watcher = LawWatcher(clock, leeway=leeway, settles=settles, claims=claims, driver=driver)
        self._stream = Stream(self._watcher, clock)
        self._folders, self._resources = checkpoints, tuple(resources)
        self._checkpoints = Checkpoints(checkpoints, self._resources)
        self._claims = ClaimCheckpoints(checkpoints, driver)
        self._stop = threading.Event()
        self._followers = [
            Follower(kube, r, clock, self._stream, namespace=names.NAMESPACE if r is LEASES else None)
            for r in self._watcher.kinds.values()
        ]
        bodies = [self._pump, *(follower.run for follower in self._followers)]
        self._threads = [threading.Thread(target=body, name="laws", daemon=True) for body in bodies]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        assert poll(lambda: self._stream.is_complete, seconds=PATIENCE), "The laws cannot be watched."
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for follower in self._followers:
            follower.close()
        for thread in self._threads:
            thread.join()

    # --- for tests -----------------------------------------------------------------------------------
    @property
    def state(self) -> State:
        """The cluster as it was about half a second ago."""
        return self._watcher.state

    @property
    def watches(self) -> bool:
        """Whether it does."""
        return all(thread.is_alive() for thread in self._threads)

    def recorded(self, uid: str) -> dict[str, frozenset[str]]:
        """Container -> its devices, by the checkpoints that the kubelets have now.

        Unlike what they write into a pod's status, it is the same with every version of Kubernetes.
        """
        found: dict[str, frozenset[str]] = {}
        for _, devices in Checkpoints(self._folders, self._resources).changed():
            found |= {name: ids for (pod, name), ids in devices.of_containers.items() if pod == uid}
        return found

    def check(self) -> None:
        """Raise what was found so far.

        Raises:
            LawBrokenError: a law was broken.
        """
        assert self.watches, "The watcher of the laws has failed."
        self._watcher.check(self._stream.seen_until)

    def fault(self, message: str) -> None:
        """A fault begins or ends now: it is written in the history, and the 60 s of law L4 start again."""
        self._watcher.fault(message)

    def begin(self, test: str) -> None:
        """A new test: leftovers of the one before are not its fault."""
        self._watcher.begin(test)

    def finish(self) -> None:
        """The end of a test: wait until all is seen and nothing is under way any more, then judge.

        Raises:
            LawBrokenError: a law was broken.
        """
        assert poll(_CaughtUp(self._kube, self._stream, self._clock), seconds=PATIENCE), (
            "The cluster cannot be watched any more."
        )

        def is_quiet() -> bool:
            self.check()
            return not self._watcher.unfinished()

        poll(is_quiet, seconds=BACK_WITHIN.total_seconds(), every=TICK)
        self._watcher.finish()

    @contextmanager
    def expecting(self, *laws: str, within: float = PATIENCE) -> Iterator[list[LawBrokenError]]:
        """Inside, these laws may break and do not raise; at the end each of them must have been broken."""
        with self._watcher.expecting(*laws) as found:
            yield found

            def is_broken() -> bool:
                with suppress(LawBrokenError):  # another law: the next check raises it
                    self.check()  # some breaches come about by time alone
                return {error.law for error in found} >= set(laws)

            poll(is_broken, seconds=within, every=TICK)

    def fingerprint(self) -> Fingerprint:
        """All that must be the same before and after a restart in a quiet cluster (law L9), read again."""
        state, now = State(), self._clock.now()
        for plural, resource in WATCHED.items():
            state = state.knowing(plural, everything(self._kube, resource, Selection())[0], now)
        return fingerprint_of(state)

    # --- inside --------------------------------------------------------------------------------------
    def _pump(self) -> None:
        while not self._clock.wait(self._stop, TICK):
            self._stream.turn()
            for node, holdings in self._checkpoints.changed():
                with suppress(LawBrokenError):
                    self._watcher.kubelet(node, holdings)
            for node, believed in self._claims.changed():
                with suppress(LawBrokenError):
                    self._watcher.believed(node, believed)


class _CaughtUp:
    """Whether the watcher has seen all that was written before it was asked first."""

    def __init__(self, kube: Kube, stream: Stream, clock: Clock) -> None:
        self._kube = kube
        self._stream = stream
        self._clock = clock
        self._version: int | None = None
        self._read_at = 0.0

    def __call__(self) -> bool:
        if self._version is None:
            with suppress(ApiError):
                self._version = int(self._kube.list(PODS, limit=1).resource_version)
                self._read_at = self._clock.monotonic()
            return False
        # What was written before may still be on its way for as long as the ordering waits for it.
        is_in = self._clock.monotonic() - self._read_at >= WAITS
        return is_in and self._stream.has_passed_on(self._version)
