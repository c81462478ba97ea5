"""A node agent's presence: a Lease that it renews, and a goodbye when it goes.

The extender believes in a node's devices only while this Lease is renewed (law L6). Two agents of one node
overlap in a rolling update: the newer takes the Lease over when it starts, the older sees that and keeps off
until the newer has fallen silent or said goodbye itself.

All writes are merge patches with the resourceVersion that was read: a compare-and-swap that keeps what others
have written into the Lease.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import structlog

from cluster import names
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.port import Kube
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease
from cluster.runtime.clock import Clock

log = structlog.get_logger(__name__)

DURATION_SECONDS: Final = 30
RENEW_EVERY: Final = 10.0
FIRST_PAUSE: Final = 1.0
"""Seconds after the first failed renewal; then twice as long, up to half the usual interval."""


class LeaseRenewer:
    """Keeps one Lease. ``run`` is the body of a thread, ``say_goodbye`` closes."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        *,
        name: str,
        holder: str,
        namespace: str = names.NAMESPACE,
        duration: int = DURATION_SECONDS,
        every: float = RENEW_EVERY,
        beside: Callable[[], Mapping[str, str | None]] = dict,
    ) -> None:
        """Nothing is written yet.

        Args:
            kube: the API server.
            clock: for the interval and for ``renewTime``.
            name: ``names.node_lease(node)``.
            holder: who we are: another for every start of a process, e.g. the pod's name and its uid.
            namespace: of the Lease.
            duration: seconds that a renewal is good for.
            every: seconds between renewals.
            beside: annotations that ride on each renewal, and their texts now; None: none. Never raises.
        """
        self._kube = kube
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._holder = holder
        self._duration = duration
        self._every = every
        self._beside = beside
        self._lock = threading.Lock()
        self._held: str | None = None
        """The resourceVersion of our newest write, None when the Lease must be read first."""
        self._started = False
        self._gone = False
        self._rival: tuple[str, float] | None = None
        self._renewed: float | None = None
        self._log = log.bind(lease=name, holder=holder)

    def age(self) -> float | None:
        """Seconds since our newest renewal; None before the first, or while another holds the Lease."""
        renewed = self._renewed
        return None if renewed is None else self._clock.monotonic() - renewed

    def run(self, stop: threading.Event) -> None:
        """Renew until ``stop`` is set."""
        backoff = Backoff(first=FIRST_PAUSE, longest=self._every / 2)
        while not stop.is_set():
            pause = self._every
            try:
                self.renew()
                backoff.reset()
            except ApiError as error:
                pause = backoff.next()
                self._log.warning("the lease cannot be renewed, trying again", error=str(error))
            self._clock.wait(stop, pause)

    def renew(self) -> bool:
        """Create, renew or take over the Lease, whichever is right; whether we hold it now.

        Raises:
            ApiError: it could not be read or written; also when somebody wrote at the same moment.
        """
        with self._lock:
            if self._gone:
                return False
            try:
                return self._renew()
            except (Conflict, NotFound):
                self._held = None
                raise

    def say_goodbye(self) -> None:
        """Mark the Lease with ``names.STOPPING`` if it is still ours; never raises, may be called again.

        After this it is not renewed any more.
        """
        with self._lock:
            if self._gone:
                return
            self._gone = True
            if not self._started:
                return
            try:
                self._mark_stopping()
            except ApiError as error:
                self._log.warning("no goodbye on the lease", error=str(error))

    def _renew(self) -> bool:
        if self._held is not None:
            self._write(self._held, {"renewTime": self._now()})
            return True
        try:
            lease = self._kube.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            self._create()
            return True
        if not self._may_hold(lease):
            self._renewed = None
            return False
        if lease.spec.holder_identity == self._holder:
            self._write(lease.metadata.resource_version, {"renewTime": self._now()})
            return True
        self._log.info("taking the lease over", from_holder=lease.spec.holder_identity)
        transitions = (lease.spec.lease_transitions or 0) + 1
        self._write(lease.metadata.resource_version, self._spec(transitions))
        return True

    def _may_hold(self, lease: Lease) -> bool:
        """Whether the Lease is ours to write: when we start; afterwards not as long as another keeps it."""
        if lease.spec.holder_identity == self._holder or not self._started:
            return True
        if lease.metadata.annotation(names.STOPPING):
            return True
        version = lease.metadata.resource_version
        if self._rival is None or self._rival[0] != version:
            if self._rival is None:
                self._log.info("another agent holds the lease now", by=lease.spec.holder_identity)
            self._rival = (version, self._clock.monotonic())
        silent = self._clock.monotonic() - self._rival[1]
        return silent >= (lease.spec.lease_duration_seconds or self._duration)

    def _create(self) -> None:
        lease = self._kube.create(
            LEASES, {"metadata": {"name": self._name}, "spec": self._spec(0)}, namespace=self._namespace
        )
        self._hold(lease)

    def _write(self, version: str, spec: dict[str, Any]) -> None:
        annotations = {names.STOPPING: None, **self._beside()}
        metadata = {"resourceVersion": version, "annotations": annotations}
        lease = self._kube.patch(
            LEASES, self._name, {"metadata": metadata, "spec": spec}, namespace=self._namespace
        )
        self._hold(lease)

    def _hold(self, lease: Lease) -> None:
        self._held = lease.metadata.resource_version
        self._started = True
        self._rival = None
        self._renewed = self._clock.monotonic()

    def _mark_stopping(self) -> None:
        lease = self._kube.get(LEASES, self._name, namespace=self._namespace)
        if lease.spec.holder_identity != self._holder:
            self._log.info("no goodbye: another agent holds the lease", by=lease.spec.holder_identity)
            return
        annotations = {**dict.fromkeys(self._beside()), names.STOPPING: self._now()}
        metadata = {"resourceVersion": lease.metadata.resource_version, "annotations": annotations}
        self._kube.patch(LEASES, self._name, {"metadata": metadata}, namespace=self._namespace)
        self._log.info("said goodbye on the lease")

    def _spec(self, transitions: int) -> dict[str, Any]:
        now = self._now()
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": self._duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _now(self) -> str:
        return micro_time(self._clock.now())


def micro_time(instant: datetime) -> str:
    """An aware UTC instant as the API's MicroTime, which insists on six digits."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
