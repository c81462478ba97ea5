"""The right by which a pod holds its GPUs. Pure."""

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import msgspec

from booking.eviction.maia_grants import granted_until
from booking.eviction.past_coverage import covered_to_the_end
from booking.server.cluster_status.snapshot import StatusSnapshot
from cluster import names
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import lasting_protection, never_evicted_reason
from cluster.objects.bookings import Booking
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.pods import Pod

HolderClass = Literal["booked", "protected", "granted", "expired", "opportunistic"]
"""A booking covers the pod; the pod is never evicted for bookings; MAIA has granted it its GPUs; its booking,
or what MAIA has granted, is over; none of these. The last two may be evicted for a booked pod."""


class Classes:
    """The holder classes of the pods of one snapshot."""

    def __init__(self, snapshot: StatusSnapshot) -> None:
        self._snapshot = snapshot
        self._lost: dict[str, frozenset[str]] = {}

    def of(self, pod: Pod, holding: PodHoldings | None) -> HolderClass:
        """The right by which a pod holds its devices.

        Args:
            pod: any living pod.
            holding: what it holds; None for a pod that a device is only reserved for.
        """
        snapshot = self._snapshot
        if pod.metadata.uid in snapshot.cover:
            return "booked"
        if self._stays(pod, holding):
            return "protected"
        granted = granted_until(pod, snapshot.terms)
        if granted is not None and granted > snapshot.now:
            return "granted"
        return "expired" if self._is_over(pod) or self._has_lost(pod) else "opportunistic"

    def _stays(self, pod: Pod, holding: PodHoldings | None) -> bool:
        namespaces, home = self._snapshot.namespaces, self._snapshot.terms.namespace
        if holding is None:
            return never_evicted_reason(pod, namespaces=namespaces, home=home) is not None
        return lasting_protection(pod, holding, namespaces=namespaces, home=home) is not None

    def _is_over(self, pod: Pod) -> bool:
        """Whether the end written on the pod has passed; one before the pod's creation does not count."""
        counts = self._snapshot.terms.maia or pod.metadata.annotation(names.BOOKING)
        until, created = terminate_at(pod), pod.metadata.creation_timestamp
        if not counts or until is None or until > self._snapshot.now:
            return False
        return created is None or created < until

    def _has_lost(self, pod: Pod) -> bool:
        """Whether a booking covered the pod to its end: a pod that stays has lost the annotation of it."""
        user = pod.metadata.annotation(names.USER)
        if not user:
            return False
        if user not in self._lost:
            self._lost[user] = frozenset(self._uids_without_cover_now(user))
        return pod.metadata.uid in self._lost[user]

    def _uids_without_cover_now(self, user: str) -> Iterator[str]:
        """Uids of the user's pods that a booking covered which is over; those of the last days are known."""
        found = covered_to_the_end(
            self._bookings.get(user, []),
            self._pods.get(user, []),
            self._snapshot.node_snapshots.views,
            now=self._snapshot.now,
            left=self._left,
        )
        return (uid for _, uid in found)

    def _left(self, booking: Booking) -> Booking:
        """The booking without the GPUs of pods that have ended with it, counted as one each."""
        gone = sum(uid not in self._snapshot.pods for uid in booking.status.ending or ())
        spec = msgspec.structs.replace(booking.spec, count=booking.spec.count - gone)
        return msgspec.structs.replace(booking, spec=spec)

    @cached_property
    def _pods(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._snapshot.pods.values():
            found.setdefault(pod.metadata.annotation(names.USER) or "", []).append(pod)
        return found

    @cached_property
    def _bookings(self) -> dict[str, list[Booking]]:
        found: dict[str, list[Booking]] = {}
        for booking in self._snapshot.bookings.values():
            found.setdefault(booking.spec.user, []).append(booking)
        return found
