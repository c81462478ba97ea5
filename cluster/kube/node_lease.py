"""A node agent's Lease, which shows that the node serves: its kubelet has the agent's devices (ADR 58).

It is taken and renewed only while that is so. As soon as it is not, or when the agent stops, it is released,
which means marked with ``names.STOPPING``. The extender binds only to nodes whose Lease is valid (law L6). In
a rolling update two agents of one node overlap: the newer takes the Lease over when it first serves, and the
older leaves it alone until the newer has released it or stopped renewing it.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from cluster import names
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound
from cluster.kube.interface import Kube
from cluster.kube.lease_writer import Annotations, LeaseWriter, Owners, Spec, micro_time
from cluster.kube.resources import NODES
from cluster.objects.nodes import Lease
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

DURATION_SECONDS: Final = 30
RENEW_EVERY: Final = 10.0
FIRST_PAUSE: Final = 1.0
"""Seconds to wait after the first failed renewal; doubled each time, up to half the usual interval."""
CHECK_EVERY: Final = 0.1
"""Seconds between two checks of whether the node serves."""


def always() -> bool:
    """The default of ``serves``, for a Lease that only shows that its holder is alive."""
    return True


class LeaseRenewer:
    """Keeps one Lease. ``run`` is the body of a thread; call ``release_lease`` at the end."""

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
        annotations: Callable[[], Annotations] = dict,
        serves: Callable[[], bool] = always,
        node: str | None = None,
    ) -> None:
        """Nothing is written yet.

        Args:
            kube: the API server.
            clock: for the interval and for ``renewTime``.
            name: ``names.node_lease(node)``.
            holder: our identity, a new one for every start of a process, e.g. the pod's name and its uid.
            namespace: the Lease's namespace.
            duration: seconds for which a renewal is valid.
            every: seconds between renewals.
            annotations: returns the annotations to write with each renewal; None as a value removes one.
                Must not raise.
            serves: whether to hold the Lease now. Must not raise.
            node: the Node that owns the Lease: it is deleted with it, and is not created without it. None for
                a Lease without an owner.
        """
        self._kube = kube
        self._clock = clock
        self._lease = LeaseWriter(
            kube, clock, name=name, namespace=namespace, holder=holder, duration=duration
        )
        self._holder = holder
        self._duration = duration
        self._every = every
        self._annotations = annotations
        self._serves = serves
        self._node = node
        self._lock = threading.Lock()
        self._started = False
        self._is_released = False
        self._gone = False
        self._rival: tuple[str, float] | None = None
        self._renewed: float | None = None
        self._log = log.bind(lease=name, holder=holder)

    def age(self) -> float | None:
        """Seconds since our newest renewal; None before the first, and while we do not hold the Lease."""
        renewed = self._renewed
        return None if renewed is None else self._clock.monotonic() - renewed

    def run(self, stop: threading.Event) -> None:
        """Hold the Lease while the node serves, until ``stop`` is set."""
        backoff = Backoff(first=FIRST_PAUSE, longest=self._every / 2)
        while not stop.is_set():
            pause, serves = self._every, self._serves()
            try:
                if serves:
                    self.renew()
                else:
                    self.release()
                backoff.reset()
            except ApiError as error:
                pause = backoff.next()
                verb = "renewed" if serves else "released"
                self._log.warning(f"the lease cannot be {verb}, trying again", error=str(error))
            self._wait(stop, pause, serves=serves)

    def _wait(self, stop: threading.Event, seconds: float, *, serves: bool) -> None:
        """Wait so long, or until the node begins or stops serving."""
        end = self._clock.monotonic() + seconds
        while self._serves() == serves and (left := end - self._clock.monotonic()) > 0:
            if self._clock.wait(stop, min(left, CHECK_EVERY)):
                return

    def renew(self) -> bool:
        """Create, renew or take over the Lease, as required; returns whether we hold it now.

        Raises:
            ApiError: it could not be read or written; also when another client wrote at the same moment.
        """
        with self._lock:
            if self._gone:
                return False
            try:
                return self._renew()
            except (Conflict, NotFound):
                self._lease.version = None
                raise

    def release(self) -> None:
        """Mark the Lease with ``names.STOPPING`` if it is still ours; the next ``renew`` takes it again.

        Raises:
            ApiError: it could not be read or written; also when another client wrote at the same moment.
        """
        with self._lock:
            if self._started and not (self._gone or self._is_released):
                self._release()

    def release_lease(self) -> bool:
        """Release the Lease for good. Never raises, may be called again.

        Returns:
            Whether it was held until now and is marked: then others learn only now that we stop.
        """
        with self._lock:
            if self._gone:
                return False
            self._gone = True
            if not self._started or self._is_released:
                return False
            try:
                return self._release()
            except ApiError as error:
                self._log.warning("the lease could not be released; it will expire", error=str(error))
                return False

    def _renew(self) -> bool:
        if self._lease.version is not None:
            self._write(self._lease.version, self._lease.renewed())
            return True
        lease = self._lease.read()
        if lease is None:
            self._with_owners(self._owners(), self._create)
            return True
        if not self._may_hold(lease):
            self._renewed = None
            return False
        if lease.spec.holder_identity == self._holder:
            self._take(lease, self._lease.renewed())
            return True
        self._log.info("taking over the lease", previous_holder=lease.spec.holder_identity)
        self._take(lease, self._lease.acquired(lease))
        return True

    def _may_hold(self, lease: Lease) -> bool:
        """Whether we may write the Lease: always at the start; later not while another renews it."""
        if lease.spec.holder_identity == self._holder or not self._started:
            return True
        if lease.metadata.annotation(names.STOPPING):
            return True
        version = lease.metadata.resource_version
        if self._rival is None or self._rival[0] != version:
            if self._rival is None:
                self._log.info("another agent holds the lease now", current_holder=lease.spec.holder_identity)
            self._rival = (version, self._clock.monotonic())
        unrenewed = self._clock.monotonic() - self._rival[1]
        return unrenewed >= (lease.spec.lease_duration_seconds or self._duration)

    def _create(self, owners: Owners) -> None:
        self._lease.create(self._lease.acquired(), self._annotations(), owners)
        self._hold()

    def _take(self, lease: Lease, spec: Spec) -> None:
        """Write a Lease that we did not hold so far; if it has no owner yet, it gets one."""
        owners = [] if lease.metadata.owner_references else self._owners()
        self._with_owners(owners, lambda some: self._write(lease.metadata.resource_version, spec, some))

    @staticmethod
    def _with_owners(owners: Owners, write: Callable[[Owners], None]) -> None:
        try:
            write(owners)
        except Forbidden:
            if not owners:
                raise
            # In some clusters only clients that may delete an owner may name it
            # (OwnerReferencesPermissionEnforcement).
            write([])

    def _owners(self) -> Owners:
        if self._node is None:
            return []
        node = self._kube.get(NODES, self._node)
        return [{"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}]

    def _write(self, version: str, spec: Spec, owners: Owners = ()) -> None:
        self._lease.write(version, spec, {names.STOPPING: None, **self._annotations()}, owners)
        self._hold()

    def _hold(self) -> None:
        self._started = True
        self._is_released = False
        self._rival = None
        self._renewed = self._clock.monotonic()

    def _release(self) -> bool:
        """Mark the Lease, unless another holds it; returns whether it was ours."""
        self._renewed = self._lease.version = None
        lease = self._lease.read()
        holder = lease.spec.holder_identity if lease else None
        is_ours = holder == self._holder
        if lease and is_ours:
            stopping = {names.STOPPING: micro_time(self._clock.now())}
            version, former = lease.metadata.resource_version, dict.fromkeys(self._annotations())
            self._lease.write(version, {}, {**former, **stopping})
            self._lease.version = None
            self._log.info("the lease is released")
        else:
            self._log.info("another agent holds the lease: nothing to release", current_holder=holder)
        self._is_released = True
        return is_ours
