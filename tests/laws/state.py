"""The cluster at one moment, as far as the laws are about it: immutable, every change makes another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from cluster import names
from cluster.kube.resources import Object, PodTemplate
from cluster.objects.bookings import Booking
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod
from tests.laws.changes import Change
from tests.laws.groups import Group, grouped, node_of, regrouped, user_of

Key = str
_BY_NAME: Final = frozenset({"nodes", "bookings"})
_RENEWALS: Final = 2
"""By so many in a row a clock is judged."""


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease, and since when it has not been renewed: the moment at which its last renewal was seen.

    ahead: how far the texts of its holder's last renewals, two at most, were ahead of when they were seen.
    """

    lease: Lease
    at: datetime
    ahead: tuple[timedelta, ...] = ()

    @property
    def skew(self) -> timedelta | None:
        """How far the holder's clock is ahead; None where that is unknown.

        The lesser of two: one renewal may have been under way for long.
        """
        return min(self.ahead, key=abs) if len(self.ahead) == _RENEWALS else None


@dataclass(frozen=True, kw_only=True)
class State:
    """All objects of the watched kinds after one write."""

    pods: Mapping[Key, Pod] = field(default_factory=dict)
    """By uid."""
    nodes: Mapping[Key, Node] = field(default_factory=dict)
    """By name."""
    bookings: Mapping[Key, Booking] = field(default_factory=dict)
    """By name."""
    templates: Mapping[Key, PodTemplate] = field(default_factory=dict)
    """PodTemplates by uid."""
    leases: Mapping[Key, ObservedLease] = field(default_factory=dict)
    """Of the product's namespace, by name."""

    def object(self, plural: str, obj: Object) -> Any:
        """This object as it was last seen, None when it was not."""
        found = self._kind(plural).get(key_of(plural, obj))
        return found.lease if isinstance(found, ObservedLease) else found

    def after(self, change: Change) -> "State":
        """The state after one more change."""
        known, key = dict(self._kind(change.plural)), key_of(change.plural, change.object)
        before = known.get(key)
        if change.after is None:
            known.pop(key, None)
        elif isinstance(change.after, Lease):
            if change.after.metadata.namespace != names.NAMESPACE:
                return self
            known[key] = _renewed(change.after, known.get(key), change.instant)
        else:
            known[key] = change.after
        new = replace(self, **{_FIELDS[change.plural]: known})
        self._hand_on(new, before, change.after, is_pod=change.plural == "pods")
        return new

    def knowing(self, plural: str, items: Iterable[Object], now: datetime) -> "State":
        """The state with these and no others of a kind."""
        found: dict[Key, Any] = {}
        for one in items:
            key = key_of(plural, one)
            if not isinstance(one, Lease):
                found[key] = one
            elif one.metadata.namespace == names.NAMESPACE:
                found[key] = _observed(one, self.leases.get(key), now)
        changed: dict[str, Any] = {_FIELDS[plural]: found}
        return replace(self, **changed)

    def with_others(self, **kinds: Mapping[Key, Any]) -> "State":
        """The state with the same pods, and with other objects of these kinds."""
        changed: dict[str, Any] = dict(kinds)
        new = replace(self, **changed)
        self._hand_on(new, None, None, is_pod=False)
        return new

    def silence(self, lease: str, now: datetime) -> timedelta | None:
        """How long a Lease has not been renewed; None where there is none."""
        observed = self.leases.get(lease)
        return None if observed is None else now - observed.at

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str], Pod]:
        """(Namespace, name) -> pod."""
        return {(p.metadata.namespace, p.metadata.name): p for p in self.pods.values()}

    @cached_property
    def by_node(self) -> Mapping[str, Group]:
        """Node -> its pods, whatever has become of them; empty name -> those that are not bound."""
        return grouped(self.pods.values(), node_of)

    @cached_property
    def by_user(self) -> Mapping[str, Group]:
        """User -> their pods; empty name -> pods that belong to no user."""
        return grouped(self.pods.values(), user_of)

    def _hand_on(self, new: "State", before: Any, after: Any, *, is_pod: bool) -> None:
        """Groups that are known need not be made again."""
        for name, by in (("by_node", node_of), ("by_user", user_of)):
            if name in self.__dict__:
                groups = self.__dict__[name]
                new.__dict__[name] = regrouped(groups, before, after, by) if is_pod else groups

    def _kind(self, plural: str) -> Mapping[Key, Any]:
        kind: Mapping[Key, Any] = getattr(self, _FIELDS[plural])
        return kind


_FIELDS: Final = {
    "pods": "pods",
    "nodes": "nodes",
    "bookings": "bookings",
    "podtemplates": "templates",
    "leases": "leases",
}


def key_of(plural: str, obj: Object) -> Key:
    """Under which key an object of a kind is known."""
    by_name = plural in _BY_NAME or plural == "leases"
    return obj.metadata.name if by_name else obj.metadata.uid


def _renewed(lease: Lease, known: ObservedLease | None, now: datetime) -> ObservedLease:
    """A Lease at the moment at which it was written."""
    observed, renewed = _observed(lease, known, now), lease.spec.renew_time
    if known is None or renewed is None or lease.metadata.uid != known.lease.metadata.uid:
        return observed
    before = known.ahead if lease.spec.holder_identity == known.lease.spec.holder_identity else ()
    if renewed == known.lease.spec.renew_time:
        return replace(observed, ahead=before)
    return replace(observed, ahead=(*before, renewed - now)[-_RENEWALS:])


def _observed(lease: Lease, known: ObservedLease | None, now: datetime) -> ObservedLease:
    """A renewal counts from the moment at which it is seen; at first sight by its own text."""
    renewed = lease.spec.renew_time
    if known is None or known.lease.metadata.uid != lease.metadata.uid:
        return ObservedLease(lease, min(renewed, now) if renewed else now)
    return ObservedLease(lease, known.at if renewed == known.lease.spec.renew_time else now)
