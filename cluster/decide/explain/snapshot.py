"""The input of an explanation, and its result."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cluster import names
from cluster.decide.booking_plan import PlacementCheck
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.booking_use import example_of
from cluster.decide.entitlement import UserCoverage
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.share_places import SharePlaces
from cluster.objects.bookings import Booking
from cluster.objects.device_usage import OverUser
from cluster.objects.hold import Hold
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

_NODES: Final = 4
"""Number of nodes that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod is in its state."""

    state: str
    """In a few words: ``running, booked``."""
    because: tuple[str, ...]
    """Messages, at least one."""
    would_change: tuple[str, ...] = ()
    """Messages: what a person can do, or what will happen by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationSnapshot:
    """The cluster at one instant: plain values."""

    now: datetime
    pods: Mapping[str, Pod]
    """Uid -> living pod that requests GPUs, terminating ones too."""
    node_snapshots: Mapping[str, tuple[NodeView, AgentState]]
    """Node -> its devices, and the state of its agent."""
    bookings: Mapping[str, Booking]
    cover: Mapping[str, Booking]
    """Pod uid -> the booking that covers it now."""
    barred: AbstractSet[tuple[str, str]] = frozenset()
    """(uid, booking) of running pods that a booking does not cover on their present node."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """Pod uid -> its hold."""
    placement_checks: Mapping[str, PlacementCheck] = field(default_factory=dict)
    """Model -> where booked pods may be placed so that every booking finds a place; if missing, anywhere."""
    permanent_pods: PermanentPods | None = None
    """Which nodes can take a pod that is never evicted; None: all can."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    given: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    """Pod uid -> the GPUs that it really has, where the kubelet chooses and an agent tells it."""
    over_users: Mapping[str, OverUser] = field(default_factory=dict)
    """Pod uid -> what it uses of a GPU beyond its share, where an agent tells it."""
    missing_claims: tuple[str, ...] = ()
    """ResourceClaims that the explained pod names, and that do not exist."""
    evicts_over_users: bool = False
    """Whether such a pod is evicted if it has no booking."""
    home: str = names.NAMESPACE
    """The product's own namespace."""

    def share_places(self) -> SharePlaces:
        """Which GPUs the shares of booked pods may be on."""
        return SharePlaces(
            views={name: view for name, (view, _) in self.node_snapshots.items()},
            cover=self.cover,
            holds=self.holds,
            pods=self.pods,
            namespaces=self.namespaces,
            home=self.home,
        ).of_pods_alone()

    def user_coverage(self, user: str) -> UserCoverage:
        """A user's bookings and pods, and which booking covers which pod."""
        pods = {uid: pod for uid, pod in self.pods.items() if pod.metadata.annotation(names.USER) == user}
        return UserCoverage(
            bookings=tuple(one for one in self.bookings.values() if one.spec.user == user),
            pods=pods,
            covered={uid: self.cover[uid] for uid in pods if uid in self.cover},
            barred=self.barred,
            example=example_of(view for view, _ in self.node_snapshots.values()),
        )

    def holding(self, pod: Pod) -> PodHoldings | None:
        """The holding of a bound pod, including drift."""
        node_snapshot = self.node_snapshots.get(pod.spec.node_name or "")
        return (
            next((one for one in node_snapshot[0].holdings if one.uid == pod.metadata.uid), None)
            if node_snapshot
            else None
        )

    def needed_by(self, uid: str) -> Pod | None:
        """The booked pod for which this one must leave; None if there is none."""
        waiting = sorted(other for other, hold in self.holds.items() if uid in hold.victims)
        return next((self.pods[other] for other in waiting if other in self.pods), None)


def at(moment: datetime) -> str:
    """An instant as text: ``2026-03-02 09:00 UTC``, with seconds unless they are zero."""
    form = "%Y-%m-%d %H:%M:%S UTC" if moment.second else "%Y-%m-%d %H:%M UTC"
    return moment.astimezone(UTC).strftime(form)


def counted(amount: int, noun: str) -> str:
    """A number with its noun, in singular or plural."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def listed(items: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    found = list(items)
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else "".join(found)


def few(nodes: Sequence[str]) -> str:
    """Names of nodes, of which the first ones are named and the others counted."""
    more = len(nodes) - _NODES
    return listed([*nodes[:_NODES], *([f"{more} more"] if more > 0 else [])])


def capital(message: str) -> str:
    """A clause with a capital letter at its start."""
    return f"{message[:1].upper()}{message[1:]}."
