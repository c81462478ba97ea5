"""The mirror's Lease: while it is renewed, the Booking objects match the database (law L6).

While it is stale, the reclaimer ends no pods by bookings. A process that starts to mirror takes it over.
"""

from typing import Final

import structlog

from cluster import names
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.lease_writer import Annotations, LeaseWriter
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

DURATION_SECONDS: Final = 30


class MirrorLease:
    """Renews ``names.MIRROR_LEASE``. Not thread-safe."""

    def __init__(self, kube: Kube, clock: Clock, *, namespace: str, holder: str) -> None:
        """Args: namespace: of the Lease; holder: the mirror's identity, a new one for every process."""
        self._holder = holder
        self._lease = LeaseWriter(
            kube,
            clock,
            name=names.MIRROR_LEASE,
            namespace=namespace,
            holder=holder,
            duration=DURATION_SECONDS,
        )
        self.kubectl_name: Final = f"{names.MIRROR_LEASE} -n {namespace}"
        """The Lease as an argument of kubectl."""

    def written(self, store_id: str) -> int | None:
        """The newest change of this database that the Lease records as written; None if it records none.

        Raises:
            ApiError: it could not be read.
        """
        lease = self._lease.read()
        if lease is None or lease.metadata.annotation(names.STORE) != store_id:
            return None
        change = lease.metadata.annotation(names.CHANGE) or ""
        return int(change) if change.isdecimal() else None

    def renew(self, change: int, store_id: str) -> None:
        """Record that every change of this database up to this one is written.

        Raises:
            ApiError: it could not be read or written; a ``Conflict`` if another process wrote meanwhile.
        """
        annotations = {names.CHANGE: str(change), names.STORE: store_id}
        try:
            if self._lease.version is None:
                self._take(annotations)
            else:
                self._lease.write(self._lease.version, self._lease.renewed(), annotations)
        except (Conflict, NotFound):
            self._lease.version = None
            raise

    def _take(self, annotations: Annotations) -> None:
        found = self._lease.read()
        if found is None:
            self._lease.create(self._lease.acquired(), annotations)
            return
        former, version = found.spec.holder_identity, found.metadata.resource_version
        if former == self._holder:
            self._lease.write(version, self._lease.renewed(), annotations)
            return
        log.info("taking over the mirror's lease", previous_holder=former, holder=self._holder)
        self._lease.write(version, self._lease.acquired(found), annotations)
