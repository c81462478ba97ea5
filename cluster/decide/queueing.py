"""Which of the pods behind our scheduling gate (``names.QUEUE``) are ungated now. Pure.

After any change of any pod, kube-scheduler retries every pod that an extender has rejected. So pods without a
booking for which no GPU is free wait behind a gate, and are ungated in the order in which the scheduler would
take them (priority, then age): as many as find a free GPU. All waiting pods are considered in that order,
including those already ungated, and each that finds room takes it, so that two are not ungated for one GPU. A
pod that finds no room does not block the next: one that needs eight GPUs does not hold up one that needs one.

It checks only GPUs, as admission does: whatever else keeps a pod from a node (processors, volumes, other
bookings) is known to the scheduler. A pod that was ungated for a node and is not bound there is not expected
there any more, so others are ungated for the GPUs that it does not take; in the end every pod is, as without
a gate.

In addition, a few pods without room are ungated, each the first of those with the same request. They take
GPUs that become free while no controller leads, or before it has seen them. They also show a cluster
autoscaler, which does not see pods behind a gate, what the others wait for.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.node_fit import node_rejection
from cluster.decide.placement import would_hold
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.objects.bookings import Booking
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, first_created, is_live, unmade_claims
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued, other_gates

MOST: Final = 20
"""Maximum number of pods to ungate in one step."""
AHEAD: Final = 2
"""Maximum number of ungated pods without room. Each costs the scheduler a try at every change of a pod, and
two kinds of GPUs that are full at one time are many."""

Order = Callable[[Iterable[Pod]], list[Pod]]
"""Returns the waiting pods in the order in which they get what is free (ADR 79)."""

Unbound = AbstractSet[tuple[str, str]]
"""(uid, node) of pods that were ungated because they had room there, and were not bound."""


def by_priority_and_age(pods: Iterable[Pod]) -> list[Pod]:
    """The pods as kube-scheduler would take them."""
    return sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), first_created(pod), pod.metadata.uid))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQueue:
    """All waiting pods, and the nodes, at one instant."""

    pods: Iterable[Pod]
    """Living pods with GPUs that are not bound."""
    node_snapshots: Mapping[str, tuple[NodeView, AgentState]]
    """Node -> its devices, and the state of its agent."""
    nodes: Mapping[str, Node]
    cover: Mapping[str, Booking] = field(default_factory=dict)
    """Uid -> the booking that covers the pod."""
    unbound: Unbound = frozenset()
    order: Order = by_priority_and_age


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now."""

    ungated: tuple[Pod, ...] = ()
    """The pods whose gate to remove now, in this order."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """Uid of a pod that has been ungated already -> the node to which the scheduler should bind it soon."""


def step(queue: GateQueue) -> Step:
    """The pods to ungate now: covered ones, then those that find room, then the first that find none."""
    found, room = _Found(), _Room(queue)
    for pod, booking in _in_order(queue):
        if len(found.ungated) >= MOST:
            return Step(tuple(found.ungated), found.expected)
        try:
            request = gpu_request_of(pod, booking)
        except QuantityError:
            found.ungated += [pod] if is_queued(pod) else []
            continue
        if pod.claims and pod.claims.is_unclear and not unmade_claims(pod):
            found.ungated += [pod] if is_queued(pod) else []
            continue
        found.add(
            pod, request, None if other_gates(pod) else room.take(pod, request), is_booked=booking is not None
        )
    wanted = [*found.ungated, *_ahead(found.others)]
    return Step(tuple(wanted[:MOST]), found.expected)


@dataclass
class _Found:
    """The results for the pods that have been considered so far."""

    ungated: list[Pod] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    others: list[tuple[Pod, GpuRequest]] = field(default_factory=list)
    """Pods that are not booked and find no room, ungated already or not."""

    def add(self, pod: Pod, request: GpuRequest, node: str | None, *, is_booked: bool) -> None:
        """Add the next pod in line, and the node on which it finds room; None if it finds none."""
        if is_queued(pod) and (is_booked or node is not None):
            self.ungated.append(pod)
        elif node is not None:
            self.expected[pod.metadata.uid] = node
        elif not is_booked:
            self.others.append((pod, request))


def _in_order(queue: GateQueue) -> list[tuple[Pod, Booking | None]]:
    """All pods in line with the booking that covers them; covered pods come first."""
    cover = queue.cover
    line = queue.order(pod for pod in queue.pods if _is_in_line(pod, cover.get(pod.metadata.uid)))
    found = ((pod, cover.get(pod.metadata.uid)) for pod in line)
    return sorted(found, key=lambda one: one[1] is None)


def ungate_all(pods: Iterable[Pod], order: Order = by_priority_and_age) -> Step:
    """As ``step`` where no pod is to wait behind the gate: all of them, as many as a step takes."""
    queue = order(pod for pod in pods if is_queued(pod) and is_live(pod))
    return Step(tuple(queue[:MOST]))


def _is_in_line(pod: Pod, booking: Booking | None) -> bool:
    """Whether the pod waits for us or for the scheduler.

    A pod with another gate keeps ours meanwhile, unless a booking covers it: otherwise it would overtake all
    others when the other gate is removed.
    """
    if pod.spec.node_name or not is_live(pod):
        return False
    return not other_gates(pod) or (booking is not None and is_queued(pod))


def _ahead(others: list[tuple[Pod, GpuRequest]]) -> list[Pod]:
    """The first pod of each request of which none has been ungated, up to ``AHEAD`` in all."""
    kinds: set[RequestKey] = {request.key for pod, request in others if not is_queued(pod)}
    left = AHEAD - sum(not is_queued(pod) for pod, _ in others)
    chosen: list[Pod] = []
    for pod, request in others:
        if is_queued(pod) and request.key not in kinds and len(chosen) < left:
            kinds.add(request.key)
            chosen.append(pod)
    return chosen


class _Room:
    """What is left on each node after the pods before have taken their devices."""

    def __init__(self, queue: GateQueue) -> None:
        self._nodes = queue.nodes
        self._unbound = queue.unbound
        self._left = {
            name: view
            for name, (view, agent) in sorted(queue.node_snapshots.items())
            if agent == "alive" and _has_any(view)
        }
        self._nothing: set[RequestKey] = set()
        """Requests for which no node has enough devices any more."""

    def take(self, pod: Pod, request: GpuRequest) -> str | None:
        """Take devices for the pod on the first suitable node that has them: its name; None without one."""
        is_like_others = request.hold is None and not pod.status.nominated_node_name
        if is_like_others and request.key in self._nothing:
            return None
        has_any = False
        for name, view in self._left.items():
            if rejection(request, view, "alive") is None:
                has_any = True
                if self._suits(pod, name):
                    self._keep(name, _without(view, request))
                    return name
        if is_like_others and not has_any:
            self._nothing.add(request.key)
        return None

    def _keep(self, name: str, view: NodeView) -> None:
        """Record what the node has left; a node with nothing left is not checked again."""
        if _has_any(view):
            self._left[name] = view
        else:
            del self._left[name]

    def _suits(self, pod: Pod, name: str) -> bool:
        node = self._nodes.get(name)
        return (
            node is not None
            and (pod.metadata.uid, name) not in self._unbound
            and not node_rejection(pod, node)
        )


def _has_any(view: NodeView) -> bool:
    """Whether the node has any free device, or one that is shared."""
    return bool(view.open_by_model) or any(any(of_model.values()) for of_model in view.free_by_model.values())


def _without(view: NodeView, request: GpuRequest) -> NodeView:
    """The node after the pod has got its devices."""
    return view.holding(would_hold(request, view))
