"""Which pods without a booking must wait for their turn: the reclaimer decides, and here nobody overtakes.

While a pod waits behind our scheduling gate, the reclaimer gives each free GPU to the pod whose turn it is,
by a hold. A pod of the same kind without gate and hold has slipped through, a moment before the line
began: it waits for its hold, too. Without a controller that decides, nobody is kept waiting.
"""

from collections.abc import Callable
from typing import Final

from cluster import names
from cluster.decide.renewals import Renewals
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.objects.pods import Pod, is_live
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued, other_gates

DECIDES_FOR: Final = 15.0
"""Seconds after the newest renewal of the controller's Lease within which turns count."""


class Turns:
    """The pods in line. Not thread-safe: its owner holds a lock."""

    def __init__(self, renewals: Renewals, monotonic: Callable[[], float]) -> None:
        """Args: renewals: of all Leases; monotonic: the clock, seconds."""
        self._renewals = renewals
        self._monotonic = monotonic
        self._keys: dict[str, RequestKey] = {}
        self._requests: dict[RequestKey, tuple[GpuRequest, set[str]]] = {}
        """A request of which pods wait behind the gate -> it, and their uids."""

    def note(self, uid: str, pod: Pod | None) -> None:
        """A pod has changed; None: it is gone."""
        self._forget(uid)
        if pod is None or not is_queued(pod) or other_gates(pod) or pod.spec.node_name or not is_live(pod):
            return
        try:
            request = gpu_request_of(pod)
        except QuantityError:
            return
        self._keys[uid] = request.key
        self._requests.setdefault(request.key, (request, set()))[1].add(uid)

    def _forget(self, uid: str) -> None:
        key = self._keys.pop(uid, None)
        if key is not None:
            uids = self._requests[key][1]
            uids.discard(uid)
            if not uids:
                del self._requests[key]

    def must_wait(self, request: GpuRequest) -> bool:
        """Whether a pod with this request, without a booking, may not be placed before its turn."""
        if not self._requests or request.hold or not request.demand or not self._are_decided():
            return False
        return any(request.competes_with(queued) for queued, _ in self._requests.values())

    def _are_decided(self) -> bool:
        """Whether a controller gives pods their turns now."""
        lease = self._renewals.lease(names.CONTROLLER_LEASE)
        age = self._renewals.age(names.CONTROLLER_LEASE, monotonic=self._monotonic())
        return (
            lease is not None
            and age is not None
            and age < DECIDES_FOR
            and bool(lease.spec.holder_identity)
            and bool(lease.metadata.annotation(names.FAIR_SHARES))
        )
