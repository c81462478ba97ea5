"""Whether this extender leads: only then does it post a Binding.

In mode ``dedicated`` the kube-schedulers elect their leader by a Lease, in which each names itself
``<hostname>_<uuid>`` (kube-scheduler 1.34-1.37); we lead while the one next to us holds it. After a pause of
this process the renewal counts as old: renewals count on the monotonic clock, and their timestamps are
compared with the wall clock, which is also that scheduler's. Used by ``bind``.
"""

import socket
from collections.abc import Callable
from typing import Final

import structlog

from cluster.cache import ClusterCache
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES
from cluster.process.clock import Clock

Leads = Callable[[], bool]
"""Whether a Binding may be posted now. Never raises; unknown counts as no (law L6)."""

log = structlog.get_logger(__name__)


READ_WITHIN: Final = 1.0
"""Timeout in seconds: a bind waits for the read while its decision grows old."""


def always() -> bool:
    """For a single extender without an election."""
    return True


def own_prefix() -> str:
    """The prefix of the identity of the kube-scheduler on this machine, or in this pod."""
    return f"{socket.gethostname()}_"


class SchedulerLeads:
    """Whether the scheduler next to us holds the Lease."""

    def __init__(
        self, kube: Kube, cache: ClusterCache, clock: Clock, *, namespace: str, lease: str, prefix: str
    ) -> None:
        """Args: namespace, lease: of the Lease; prefix: of our scheduler's identity."""
        self._kube = kube
        self._cache = cache
        self._clock = clock
        self._namespace = namespace
        self._lease = lease
        self._prefix = prefix

    def __call__(self) -> bool:
        """Whether we lead; if not by the cached Lease, the Lease is read from the API server.

        Our watch may lag behind the scheduler, which may just have become the leader and sends its first pod.
        """
        return self._held() or (self._read() and self._held())

    def _held(self) -> bool:
        with self._cache.locked():
            holder = self._cache.renewals.holder(
                self._lease, monotonic=self._clock.monotonic(), now=self._clock.now()
            )
        return holder is not None and holder.startswith(self._prefix)

    def _read(self) -> bool:
        try:
            lease = self._kube.get(LEASES, self._lease, namespace=self._namespace, within=READ_WITHIN)
        except ApiError as error:
            log.warning("the scheduler's Lease cannot be read: nothing is bound", error=str(error))
            return False
        self._cache.of(LEASES).upsert(lease)
        return True
