"""Writes one Lease by compare-and-swap: what all who keep a Lease have in common.

All writes are merge patches with the resourceVersion that was read. So only one of two writers succeeds, and
what others have written into the Lease stays. Who may hold it, and until when, is decided by those who keep
it: a node agent (``LeaseRenewer``), candidates for leadership (``LeaderElector``), the mirror.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster.kube.errors import NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease
from cluster.process.clock import Clock

Annotations = Mapping[str, str | None]
"""None as a value removes one."""
Owners = Sequence[Mapping[str, str]]
"""``metadata.ownerReferences``."""
Spec = dict[str, Any]


class LeaseWriter:
    """One Lease, for one holder. Not thread-safe. All methods that send raise ``ApiError``."""

    def __init__(
        self, kube: Kube, clock: Clock, *, name: str, namespace: str, holder: str, duration: int
    ) -> None:
        """Nothing is written yet.

        Args:
            kube: the API server.
            clock: for the times that are written.
            name: the Lease's name.
            namespace: the Lease's namespace.
            holder: our identity, a new one for every start of a process.
            duration: seconds for which a renewal is valid.
        """
        self._kube = kube
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._holder = holder
        self._duration = duration
        self.version: str | None = None
        """resourceVersion of our newest write; whoever keeps the Lease sets it to None to read it again."""

    def read(self) -> Lease | None:
        """The Lease; None if there is none."""
        try:
            return self._kube.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            return None

    def create(self, spec: Spec, annotations: Annotations, owners: Owners = ()) -> None:
        """Create the Lease; ``Conflict`` if another was faster."""
        given = {key: text for key, text in annotations.items() if text is not None}
        metadata = {"name": self._name, **_written(given, owners)}
        body = {"metadata": metadata, "spec": spec}
        self.version = self._kube.create(LEASES, body, namespace=self._namespace).metadata.resource_version

    def write(self, version: str, spec: Spec, annotations: Annotations, owners: Owners = ()) -> None:
        """Change the Lease; ``Conflict`` if it has another version by now."""
        body = {"metadata": {"resourceVersion": version, **_written(annotations, owners)}, "spec": spec}
        self.version = self._kube.patch(
            LEASES, self._name, body, namespace=self._namespace
        ).metadata.resource_version

    def acquired(self, after: Lease | None = None, *, at: datetime | None = None) -> Spec:
        """What is written by who takes the Lease from its previous holder."""
        now = micro_time(at or self._clock.now())
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": self._duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": (after.spec.lease_transitions or 0) + 1 if after else 0,
        }

    def renewed(self) -> Spec:
        """What is written by who holds the Lease already."""
        return {"renewTime": micro_time(self._clock.now())}


def micro_time(instant: datetime) -> str:
    """An aware UTC instant as the API's MicroTime, which must have six digits."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _written(annotations: Annotations, owners: Owners) -> dict[str, Any]:
    return {
        **({"annotations": dict(annotations)} if annotations else {}),
        **({"ownerReferences": list(owners)} if owners else {}),
    }
