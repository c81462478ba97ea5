"""What the booking server promises from: the capacity of the cluster, out of the picture that it follows."""

import threading
from collections.abc import Callable, Mapping

from booking.capacity import Capacity
from booking.promises.supply import supply
from booking.terms import Terms
from cluster.decide.witness.supply import Instant
from cluster.objects.bookings import Booking
from cluster.picture import Picture
from cluster.runtime.clock import Clock


class NodeCapacity:
    """What can be booked now. Any thread may ask; it is made anew only when something has changed."""

    def __init__(
        self, picture: Picture, clock: Clock, terms: Terms, *, obstacle: Callable[[], str | None]
    ) -> None:
        """Before anything is told to the picture; obstacle: why the picture is not to be trusted."""
        self._picture, self._clock, self._terms = picture, clock, terms
        self.obstacle = obstacle
        """Why the capacity is not known now, None when it is."""
        self._lock = threading.Lock()
        self._news = 0
        self._known: tuple[object, ...] = ()
        self._capacity = Capacity()
        picture.on_change(self._changed)

    def capacity(self) -> Capacity:
        """What can be booked now; nothing while ``obstacle`` says something."""
        with self._lock:
            news, instant = self._news, self._instant()
            minute = instant.now.replace(second=0, microsecond=0)
            # A pod that is told to go begins to hang, and a grant ends, by themselves: minutes are enough.
            known = (news, instant.quiet, instant.gone, minute, _covered(instant.cover))
            if known != self._known:
                self._capacity, self._known = supply(instant, self._terms), known
            return self._capacity

    def blocked(self) -> Mapping[str, str]:
        """Node -> what stands on it of maintenance, of every node."""
        with self._picture.locked():
            return {name: self._picture.blocked.get(name, "") for name in self._picture.nodes}

    def attached(self) -> Mapping[str, tuple[str, ...]] | None:
        """Booking id -> ``namespace/name`` of the pods that it covers now; None while that is not known."""
        if self.obstacle() is not None:
            return None
        found: dict[str, list[str]] = {}
        with self._picture.locked():
            for uid, booking in self._picture.cover(self._clock.now()).items():
                if pod := self._picture.pods.get(uid):
                    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    found.setdefault(booking.metadata.name, []).append(name)
        return {booking: tuple(sorted(pods)) for booking, pods in found.items()}

    def _instant(self) -> Instant:
        now = self._clock.now()
        with self._picture.locked():
            return self._picture.instant(now, self._picture.cover(now))

    def _changed(self) -> None:
        self._news += 1


def _covered(cover: Mapping[str, Booking]) -> frozenset[tuple[str, str]]:
    """Which pods are booked, by which booking: that changes with the time, too."""
    return frozenset((uid, booking.name) for uid, booking in cover.items())
