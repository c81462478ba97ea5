"""Devices that a pod is about to be bound to: from kube-scheduler's choice of a node until its bind.

Filter is called for the next pod of a burst before the bind of the previous one has arrived. A policy that
fills nodes would send both to a node that has one device left; one bind would be refused, and that pod would
wait for a backoff of a second or more. So devices of the node that was ranked best are reserved for a moment,
softly: filter leaves out nodes that would fit but for such a reservation if others fit, too, and rejects no
pod because of it. A bind that has arrived and waits for its node reserves there as long as it waits (at most
``bind.PATIENCE``): kube-scheduler may have chosen another node than the one that we ranked best.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from cluster.decide.ledger.amounts import Holding
from cluster.process.clock import Clock

SECONDS: Final = 1.0
"""Maximum length of a reservation on the node that was ranked best: a bind follows soon, or not at all."""
Holdings = tuple[Holding, ...]
"""Devices, and shares of devices."""
NONE: Final[Mapping[str, Holdings]] = {}


@dataclass(frozen=True, slots=True)
class _Reservation:
    """The devices that one pod is about to get."""

    node: str
    devices: Holdings
    expires: float


class SoftReservations:
    """The reservations of all pods; safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_uid: dict[str, _Reservation] = {}
        self._ends = inf
        """No reservation ends before that."""

    def reserve(self, uid: str, node: str, devices: Holdings, seconds: float = SECONDS) -> None:
        """Reserve these devices for the pod; replaces an earlier reservation of the pod."""
        expires = self._clock.monotonic() + seconds
        with self._lock:
            self._by_uid[uid] = _Reservation(node, devices, expires)
            self._ends = min(self._ends, expires)

    def release(self, uid: str) -> None:
        """Drop the pod's reservation: from now on the ledger counts its devices."""
        with self._lock:
            self._by_uid.pop(uid, None)

    def of_others(self, uid: str) -> Mapping[str, Holdings]:
        """Node -> devices that are reserved there for other pods than this one."""
        if not self._by_uid:
            return NONE
        now = self._clock.monotonic()
        with self._lock:
            if self._ends <= now:
                self._by_uid = {key: one for key, one in self._by_uid.items() if one.expires > now}
                self._ends = min((one.expires for one in self._by_uid.values()), default=inf)
            found: dict[str, Holdings] = {}
            for key, one in self._by_uid.items():
                if key != uid:
                    found[one.node] = found.get(one.node, ()) + one.devices
        return found
