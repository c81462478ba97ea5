"""Leader election: of several equal processes only the one that holds a Lease acts.

Used by the controller's reclaimer. Only the API server's answers and our own monotonic clock count (law L6).
We lead as long as our newest renewal was *sent* less than the renew deadline ago, and another's Lease has
expired when we have seen it unchanged for its whole duration. So clocks that differ do no harm, and a process
that was stopped for a while knows at once that it does not lead any more.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from cluster import names
from cluster.kube.backoff import Random, unpredictable
from cluster.kube.errors import ApiError, Conflict
from cluster.kube.interface import Kube
from cluster.kube.lease_writer import Annotations, LeaseWriter, Spec
from cluster.objects.nodes import Lease
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class LeaderElectionTiming:
    """Seconds. The deadline is shorter than the duration, so that two never lead at once."""

    duration: int = 15
    """How long others must see our Lease unchanged before they take it."""
    renew_deadline: float = 10.0
    """How long a leader leads after its newest renewal."""
    retry: float = 2.0
    """Pause between two attempts; up to a fifth longer, so that not all candidates come at once."""
    random: Random = field(default_factory=unpredictable)

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError(
                f"A Lease needs retry < renew deadline < duration, not {self.retry}, {self.renew_deadline} "
                f"and {self.duration} seconds."
            )


class LeaderElector:
    """One candidate for one Lease. ``run`` is the body of a thread; any thread may call ``leads``."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        *,
        name: str,
        holder: str,
        namespace: str = names.NAMESPACE,
        instance: str | None = None,
        unfit: Callable[[], str | None] = lambda: None,
        annotations: Callable[[], Annotations] = dict,
        timing: LeaderElectionTiming | None = None,
    ) -> None:
        """Nothing is written yet.

        Args:
            kube: the API server.
            clock: for the intervals, and for the times that people read in the Lease.
            name: the Lease's name, e.g. ``names.CONTROLLER_LEASE``.
            holder: our identity, a new one for every start of a process.
            namespace: the Lease's namespace.
            instance: what has only one process at a time, such as a pod; ``holder`` begins with it and ``_``.
                A holder of it from before our start is dead, so we do not wait until its Lease expires.
            unfit: returns why this process must not act although another could, such as a wrong clock: then
                it leaves the Lease to others. None if it may lead.
            annotations: what we write on the Lease with each renewal; None removes one.
            timing: the defaults are those of Kubernetes' own components.
        """
        self._timing = timing or LeaderElectionTiming()
        self._clock = clock
        self._lease = LeaseWriter(
            kube, clock, name=name, namespace=namespace, holder=holder, duration=self._timing.duration
        )
        self._holder = holder
        self._instance = instance
        self._unfit = unfit
        self._annotations = annotations
        self._lock = threading.Lock()
        self._renewed: float | None = None
        """When our newest renewal was sent; None while we do not hold the Lease."""
        self._acquired_at: datetime | None = None
        """``acquireTime`` of our newest attempt: by it we recognize our own Lease after a lost answer."""
        self._watched: tuple[str, float] | None = None
        """Another's Lease: its resourceVersion, and the instant since which we have seen it unchanged."""
        self._released = False
        self._log = log.bind(lease=name, holder=holder)

    def leads(self) -> bool:
        """Whether we may act now."""
        renewed = self._renewed
        return renewed is not None and self._clock.monotonic() - renewed < self._timing.renew_deadline

    def run(self, stop: threading.Event) -> None:
        """Take the Lease when it is free and keep it, until ``stop`` is set; then give it back."""
        led = False
        while not stop.is_set():
            try:
                self.attempt()
            except ApiError as error:
                self._log.warning("the lease cannot be acquired or renewed, trying again", error=str(error))
            if self.leads() != led:
                led = not led
                self._log.info("became the leader" if led else "no longer the leader")
            retry = self._timing.retry
            self._clock.wait(stop, self._timing.random.uniform(retry, retry * 1.2))
        self.release()

    def attempt(self) -> bool:
        """Renew the Lease, take it if it is free, or leave it if we are unfit; returns whether we lead now.

        Raises:
            ApiError: it could not be read or written; also when another client wrote at the same moment.
        """
        with self._lock:
            if not self._released:
                try:
                    if why := self._unfit():
                        self._stop_leading(why)
                    else:
                        self._attempt()
                except ApiError:
                    # Written or not, it must be read before it is written again.
                    self._lease.version = None
                    raise
        return self.leads()

    def release(self) -> None:
        """Give the Lease back, so that another leads at once. Never raises, may be called again."""
        with self._lock:
            held, self._renewed, self._released = self._renewed, None, True
            if held is None:
                return
            try:
                self._give_back()
            except ApiError as error:
                self._log.warning("the lease could not be released; it will expire", error=str(error))

    def _stop_leading(self, why: str) -> None:
        """Let another lead; where that cannot be said, the Lease expires."""
        held, self._renewed = self._renewed, None
        if held is not None:
            self._log.warning("giving up the lease", reason=why)
            self._give_back()
        else:
            # Each answer has the API server's time; without any we would not learn that ours is right again.
            self._lease.read()
        self._lease.version = None

    def _attempt(self) -> None:
        sent = self._clock.monotonic()
        if self._lease.version is not None:
            self._write(sent, self._lease.version, self._lease.renewed())
            return
        lease = self._lease.read()
        if lease is None:
            self._create()
            return
        version = lease.metadata.resource_version
        if self._is_ours(lease):
            self._write(self._clock.monotonic(), version, self._lease.renewed())
            return
        self._renewed = None
        if self._is_free(lease):
            self._log.info("acquiring the lease", previous_holder=lease.spec.holder_identity)
            sent = self._clock.monotonic()
            self._acquired_at = self._clock.now()
            self._write(sent, version, self._lease.acquired(lease, at=self._acquired_at))

    def _is_ours(self, lease: Lease) -> bool:
        """Whether this process has taken it, and not another process of the same name."""
        spec = lease.spec
        return (
            spec.holder_identity == self._holder
            and self._acquired_at is not None
            and spec.acquire_time == self._acquired_at
        )

    def _is_free(self, lease: Lease) -> bool:
        if not lease.spec.holder_identity or self._is_of_our_predecessor(lease):
            return True
        version, now = lease.metadata.resource_version, self._clock.monotonic()
        if self._watched is None or self._watched[0] != version:
            self._watched = (version, now)
        return now - self._watched[1] >= (lease.spec.lease_duration_seconds or self._timing.duration)

    def _is_of_our_predecessor(self, lease: Lease) -> bool:
        """Whether a process of our ``instance`` took it before we started: we have taken none yet."""
        holder = lease.spec.holder_identity or ""
        return (
            self._instance is not None
            and self._acquired_at is None
            and holder.startswith(f"{self._instance}_")
        )

    def _create(self) -> None:
        self._renewed = None
        self._acquired_at = self._clock.now()
        sent = self._clock.monotonic()
        self._lease.create(self._lease.acquired(at=self._acquired_at), self._annotations())
        self._held(sent)

    def _write(self, sent: float, version: str, spec: Spec) -> None:
        self._lease.write(version, spec, self._annotations())
        self._held(sent)

    def _held(self, sent: float) -> None:
        self._renewed = sent
        self._watched = None

    def _give_back(self) -> None:
        version = self._lease.version
        if version is None:
            lease = self._lease.read()
            if lease is None or not self._is_ours(lease):
                return
            version = lease.metadata.resource_version
        try:
            self._lease.write(version, {"holderIdentity": "", **self._lease.renewed()}, {})
        except Conflict:
            self._log.info("the lease is already held by another")
        else:
            self._log.info("the lease is released")
