"""Which booking covers which pods in the cache: entitlement over the present state.

Owned and guarded by ``ClusterCache``. The candidates read from pods are kept between calls, so a call for one
pod looks only at its user's pods, and costs little for each of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster import names
from cluster.cache.store import Store
from cluster.decide.adoption import Pair
from cluster.decide.booking_use import smallest
from cluster.decide.entitlement import Candidate, UserCoverage, candidate_on, entitlement
from cluster.decide.ledger import Ledger, NodeView
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod


class Examples:
    """Of each model the device with the least memory for shares. Only nodes that have changed are read."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._generation = -1
        self._on: dict[str, dict[str, Device]] = {}
        """Node -> model -> its device with the least."""
        self._known: dict[str, Device | None] = {}

    def of(self, model: str) -> Device | None:
        """The device; None if no node offers shares of the model."""
        if self._ledger.generation != self._generation:
            self._follow()
        if model not in self._known:
            self._known[model] = smallest(on[model] for on in self._on.values() if model in on)
        return self._known[model]

    def _follow(self) -> None:
        changed = self._ledger.changed_since(self._generation)
        if changed is None:
            self._on, self._known = {}, {}
            changed = list(self._ledger.all_views())
        self._generation = self._ledger.generation
        for node in changed:
            groups = self._ledger.view(node).shareable_by_model if self._ledger.exists(node) else {}
            found = {model: one for model, devices in groups.items() if (one := smallest(devices))}
            if found != self._on.pop(node, {}):
                self._known = {}
            if found:
                self._on[node] = found


@dataclass(frozen=True, slots=True)
class _Read:
    """A pod as a candidate, and what it was read from."""

    pod: Pod
    view: NodeView | None
    candidate: Candidate | None


@dataclass(frozen=True, slots=True)
class _Covered:
    """One user's cover, and the bookings considered: valid until the user's pods or nodes change."""

    running: list[Booking]
    barred: frozenset[Pair]
    found: dict[str, Booking]


class Cover:
    """Bookings, and the pods of their users."""

    def __init__(self, ledger: Ledger, bookings: Store[Booking]) -> None:
        self._ledger = ledger
        self._bookings = bookings
        self._grouped: Mapping[str, Booking] = {}
        """The bookings of ``_by_user``."""
        self._by_user: dict[str, list[Booking]] = {}
        self._pods_of: dict[str, dict[str, Pod]] = {}
        self._read: dict[str, _Read] = {}
        self._covered: dict[str, _Covered] = {}
        self._users_on: dict[str, set[str]] = {}
        """Node -> users whose pods were read there."""
        self._examples = Examples(ledger)
        self._user_of: dict[str, str] = {}

    # --- reading -------------------------------------------------------------------------------------
    @property
    def bookings(self) -> Mapping[str, Booking]:
        """Name -> Booking; replaced, never changed."""
        return self._bookings.all()

    def _bookings_of(self, user: str) -> list[Booking]:
        if self.bookings is not self._grouped:
            self._grouped, self._by_user = self.bookings, {}
            for booking in self._grouped.values():
                self._by_user.setdefault(booking.spec.user, []).append(booking)
        return self._by_user.get(user, [])

    def all(self, now: datetime, barred: frozenset[Pair] = frozenset()) -> dict[str, Booking]:
        """Pod uid -> the booking that covers it; considers pods of users with a running booking.

        Args:
            now: the instant.
            barred: pods that a booking does not cover on their present node.
        """
        running: dict[str, list[Booking]] = {}
        for booking in self.bookings.values():
            if booking.is_running(now):
                running.setdefault(booking.spec.user, []).append(booking)
        self._forget_what_changed()
        self._covered = {user: self._of_user(user, some, now, barred) for user, some in running.items()}
        return {uid: by for one in self._covered.values() for uid, by in one.found.items()}

    def _of_user(self, user: str, running: list[Booking], now: datetime, barred: frozenset[Pair]) -> _Covered:
        """One user's cover: the last result if nothing has changed since. Users do not affect each other."""
        known, pods = self._covered.get(user), self._pods_of.get(user, {})
        barred = frozenset(pair for pair in barred if pair[0] in pods)
        if known and known.running == running and known.barred == barred:
            return known
        found = entitlement(
            running, self._candidates(pods.values()), now, barred=barred, example=self._examples.of
        )
        return _Covered(running=running, barred=barred, found=found)

    def _forget_what_changed(self) -> None:
        """Drop the cover of users with a pod on a changed node: holdings count, even of assumed binds."""
        for node in self._ledger.changed_nodes():
            for user in self._users_on.pop(node, ()):
                self._covered.pop(user, None)
            for holding in self._ledger.view(node).holdings:
                self._covered.pop(self._user_of.get(holding.uid, ""), None)

    def may_cover(self, pod: Pod, now: datetime) -> bool:
        """Whether its user has a running booking at all."""
        user = pod.metadata.annotation(names.USER)
        return any(booking.is_running(now) for booking in self._bookings_of(user or ""))

    def user_coverage(self, pod: Pod, now: datetime, barred: frozenset[Pair] = frozenset()) -> UserCoverage:
        """The bookings and pods of this pod's user, including the pod, which may not be known yet."""
        user = pod.metadata.annotation(names.USER)
        if not user:
            return UserCoverage(pods={pod.metadata.uid: pod})
        bookings = tuple(self._bookings_of(user))
        pods = {pod.metadata.uid: pod, **self._pods_of.get(user, {})}
        candidates = self._candidates(pods.values())
        covered = entitlement(bookings, candidates, now, barred=barred, example=self._examples.of)
        return UserCoverage(
            bookings=bookings, pods=pods, covered=covered, barred=barred, example=self._examples.of
        )

    def _candidates(self, pods: Iterable[Pod]) -> Iterator[Candidate]:
        return (found for pod in pods if (found := self._candidate(pod)))

    def _candidate(self, pod: Pod) -> Candidate | None:
        holding = self._ledger.holding(pod.metadata.uid)
        where = pod.spec.node_name or (holding.node if holding else None)
        view = self._ledger.view(where) if where else None
        if where:
            self._users_on.setdefault(where, set()).add(pod.metadata.annotation(names.USER) or "")
        known = self._read.get(pod.metadata.uid)
        if known and known.pod is pod and known.view is view:
            return known.candidate
        found = candidate_on(pod, view)
        if self._is_listed(pod):
            self._read[pod.metadata.uid] = _Read(pod=pod, view=view, candidate=found)
        return found

    def _is_listed(self, pod: Pod) -> bool:
        user = pod.metadata.annotation(names.USER) or ""
        return self._pods_of.get(user, {}).get(pod.metadata.uid) is pod

    # --- updating ------------------------------------------------------------------------------------
    def list_pod(self, pod: Pod) -> None:
        """A living pod that requests GPUs is new or has changed."""
        user = pod.metadata.annotation(names.USER)
        if user:
            self._pods_of.setdefault(user, {})[pod.metadata.uid] = pod
            self._user_of[pod.metadata.uid] = user
            self._covered.pop(user, None)

    def unlist_pod(self, pod: Pod) -> None:
        """A listed pod is gone, has ended, or has changed."""
        user = pod.metadata.annotation(names.USER) or ""
        self._read.pop(pod.metadata.uid, None)
        self._user_of.pop(pod.metadata.uid, None)
        self._covered.pop(user, None)
        if self._pods_of.get(user, {}).pop(pod.metadata.uid, None) and not self._pods_of[user]:
            del self._pods_of[user]
