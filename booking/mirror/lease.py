"""The mirror's Lease: while it is renewed, the Booking objects match the database (law L6).

While it is stale, the reclaimer ends no pods by bookings. It is written by compare-and-swap, as the node
agents' Leases are; a process that starts to mirror takes it over.
"""

from typing import Any, Final

import structlog

from cluster import names
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.node_lease import micro_time
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

DURATION_SECONDS: Final = 30


class MirrorLease:
    """Renews ``names.MIRROR_LEASE``. Not thread-safe."""

    def __init__(self, kube: Kube, clock: Clock, *, namespace: str, holder: str) -> None:
        """Args: namespace: of the Lease; holder: the mirror's identity, a new one for every process."""
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._holder = holder
        self._version: str | None = None
        """The resourceVersion of our newest write, None when the Lease must be read first."""

    @property
    def kubectl_name(self) -> str:
        """The Lease as an argument of kubectl."""
        return f"{names.MIRROR_LEASE} -n {self._namespace}"

    def written(self, store_id: str) -> int | None:
        """The newest change of this database that the Lease records as written; None if it records none.

        Raises:
            ApiError: it could not be read.
        """
        try:
            lease = self._kube.get(LEASES, names.MIRROR_LEASE, namespace=self._namespace)
        except NotFound:
            return None
        change = lease.metadata.annotation(names.CHANGE) or ""
        is_ours = lease.metadata.annotation(names.STORE) == store_id
        return int(change) if is_ours and change.isdecimal() else None

    def renew(self, change: int, store_id: str) -> None:
        """Record that every change of this database up to this one is written.

        Raises:
            ApiError: it could not be read or written; a ``Conflict`` if another process wrote meanwhile.
        """
        annotations = {names.CHANGE: str(change), names.STORE: store_id}
        try:
            if self._version is None:
                self._take(annotations)
            else:
                self._write(self._version, {"renewTime": self._now()}, annotations)
        except (Conflict, NotFound):
            self._version = None
            raise

    def _take(self, annotations: dict[str, str]) -> None:
        try:
            lease = self._kube.get(LEASES, names.MIRROR_LEASE, namespace=self._namespace)
        except NotFound:
            body = {
                "metadata": {"name": names.MIRROR_LEASE, "annotations": annotations},
                "spec": self._spec(transitions=0),
            }
            self._remember(self._kube.create(LEASES, body, namespace=self._namespace))
            return
        former = lease.spec.holder_identity
        if former != self._holder:
            log.info("taking over the mirror's lease", previous_holder=former, holder=self._holder)
        transitions = (lease.spec.lease_transitions or 0) + (former != self._holder)
        self._write(lease.metadata.resource_version, self._spec(transitions=transitions), annotations)

    def _write(self, version: str, spec: dict[str, Any], annotations: dict[str, str]) -> None:
        body = {"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec}
        self._remember(self._kube.patch(LEASES, names.MIRROR_LEASE, body, namespace=self._namespace))

    def _remember(self, lease: Lease) -> None:
        self._version = lease.metadata.resource_version

    def _spec(self, *, transitions: int) -> dict[str, Any]:
        now = self._now()
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _now(self) -> str:
        return micro_time(self._clock.now())
