"""Which pod is being admitted, and which devices the kubelet should give it: the algorithm, pure.

Used by ``allocator`` inside GetPreferredAllocation. The kubelet does not say which pod it asks for, but it
admits one pod at a time, has put it among its Pods API's pods before it asks, and has written the devices
of every container served before into its checkpoint. So the pod that is being admitted is the one live pod
whose first container without devices needs as many as are asked for.

Source: kubelet 1.37.1 (HandlePodAdditions, devicemanager.devicesToAllocate). Laws L1, L6.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain

from cluster.objects.assignment import readable_assignment_of
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError
from deviceplugin.allocation.pod_devices import PodDevices

DeviceOrder = Callable[[Sequence[str], frozenset[str], int], Sequence[str]]
"""Which so many of these devices, all as good as each other by assignment and use, go best with those that
the container gets already: ``(devices in stable order, got already, how many)`` -> exactly so many."""


def in_order(free: Sequence[str], taken: frozenset[str], count: int) -> Sequence[str]:
    """The pick of whoever knows nothing about devices: those that come first."""
    del taken
    return free[:count]


class Verdict(StrEnum):
    """What was found out; each is a label value of the metric."""

    ASSIGNED = "assigned"
    """The pod is known and gets exactly what was assigned to this container."""
    PARTLY_ASSIGNED = "partly-assigned"
    """The pod is known, but not everything that it was assigned can be had: something else fills the gap."""
    UNASSIGNED = "unassigned"
    """The pod is known and nothing was assigned to the container: it gets what is assigned to nobody."""
    NO_MATCH = "no-match"
    """No pod is known that waits for so many devices: what is assigned to nobody."""
    AMBIGUOUS = "ambiguous"
    """More than one pod may be the one: what is assigned to nobody."""
    PODS_UNAVAILABLE = "pods-unavailable"
    """The pods of the node could not be had: what is not in the checkpoint comes first."""
    NO_CHECKPOINT = "no-checkpoint"
    """The checkpoint could not be read: what is assigned to nobody."""
    REFUSED = "refused"
    """The kubelet offers only devices that other living pods hold (its double allocation)."""


@dataclass(frozen=True)
class AllocationRequest:
    """What the kubelet asks for one container."""

    available: frozenset[str]
    """Ids to choose from, ``must_include`` among them."""
    must_include: frozenset[str]
    """Chosen by the kubelet already: taken over from an init container, or aligned by NUMA."""
    size: int
    """Devices that the container needs, ``must_include`` counted."""


@dataclass(frozen=True)
class NodeState:
    """What can be known while the kubelet waits."""

    resource: str
    holdings: PodDevices | None
    """None: the checkpoint could not be read."""
    pods: tuple[Pod, ...] | None
    """The pods that the kubelet knows; None: they could not be had."""
    remembered: bool = False
    """The pods were had for an earlier container: good for its assignment, not for who lives."""
    from_watch: bool = False
    """By our own watch: the one that is being admitted is among them; for who lives nothing is refused."""

    pick: DeviceOrder = in_order
    """Chooses where nobody has decided: links between whole GPUs, packing of MIG devices."""
    other_resources: frozenset[str] = frozenset()
    """Devices of the node that are of another resource: a container's assignment may name both."""

    @cached_property
    def living(self) -> tuple[Pod, ...]:
        """Pods that have not ended; those that are being deleted live as long as their containers do."""
        return tuple(pod for pod in self.pods or () if not is_terminal(pod))

    @cached_property
    def unserved(self) -> tuple[tuple["UnservedContainer", ...], ...]:
        """Of each living pod the containers that need devices and have none, in the kubelet's order."""
        holdings = self.holdings or PodDevices()
        found = (_unserved(pod, self.resource, holdings) for pod in self.living)
        return tuple(waiting for waiting in found if waiting)


@dataclass(frozen=True)
class UnservedContainer:
    """A pod, and its first container that has no devices yet."""

    pod: Pod
    container: str
    count: int

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid


@dataclass(frozen=True)
class Decision:
    """The answer, and how it came about."""

    verdict: Verdict
    devices: tuple[str, ...]
    pod: Pod | None = None
    """The pod that is being admitted, where it is known."""
    container: str | None = None
    message: str = ""
    """For people, where the answer is not simply what was assigned."""


def choose(question: AllocationRequest, view: NodeState) -> Decision:
    """The devices that the container which is being admitted should get.

    Never a device that another living pod holds, where it is known who lives and what they hold. Where it is
    not known who lives (``PODS_UNAVAILABLE``, or pods that are only remembered), everything in the checkpoint
    comes last, but is taken where nothing else is left: its pod may have ended. In ``NO_CHECKPOINT`` nobody's
    devices are known. Before the container starts, PreStartContainer looks again. Apart from ``REFUSED`` the
    answer always has ``size`` devices: a short one would be filled up by the kubelet at random, with a device
    of somebody else perhaps.
    """
    busy = busy_devices(view) - question.must_include
    if _is_certain(view) and len(question.available - busy) < question.size:
        return _refused(question.available & busy, view)
    found = candidates(question, view)
    if len(found) == 1:
        return _for(found[0], question, view)
    free = _by_rank(question.available, (busy, unserved_assignments(view)))
    devices = _filled((), free, question, view.pick)
    return Decision(_unknown(view, found), devices, message=_why_unknown(question, view, found))


def candidates(question: AllocationRequest, view: NodeState) -> tuple[UnservedContainer, ...]:
    """The pods that may be the one that is being admitted: exactly one, as far as ever observed.

    A pod that was admitted while the resource was not registered runs without devices and would be a
    candidate for ever; it has been started, which the one that is being admitted has not. Devices taken over
    from an init container prove the pod by themselves: they are in the checkpoint under its uid.
    """
    if view.holdings is None:
        return ()
    waiting = [first for first, *_ in view.unserved if first.count == question.size]
    owners = view.holdings.holders(question.must_include)
    proven = [w for w in waiting if w.uid in owners]
    waiting = proven if proven or view.remembered else waiting
    if len(waiting) > 1:
        waiting = [w for w in waiting if w.pod.status.start_time is None]
    return tuple(waiting)


def busy_devices(view: NodeState) -> frozenset[str]:
    """Devices of living pods, by the checkpoint; all in the checkpoint where it is unknown who lives."""
    if view.holdings is None:
        return frozenset()
    if not _knows_who_lives(view):
        return view.holdings.devices
    return view.holdings.of_any({pod.metadata.uid for pod in view.living})


def busy_available(question: AllocationRequest, view: NodeState) -> frozenset[str]:
    """Devices of other living pods among those that the kubelet offers: it may (double allocation)."""
    if not _is_certain(view):
        return frozenset()
    return question.available & (busy_devices(view) - question.must_include)


def unserved_assignments(view: NodeState, *, but: tuple[str, str] | None = None) -> frozenset[str]:
    """Devices assigned to containers of living pods that have none yet, but (uid, container) not counted."""
    return frozenset(
        device
        for waiting in chain.from_iterable(view.unserved)
        if (waiting.uid, waiting.container) != but
        for device in readable_assignment_of(waiting.pod).get(waiting.container, ())
    )


def _knows_who_lives(view: NodeState) -> bool:
    return view.pods is not None and not view.remembered


def _is_certain(view: NodeState) -> bool:
    """Whether a pod may be refused for it: that is for good."""
    return _knows_who_lives(view) and not view.from_watch


def _unserved(pod: Pod, resource: str, holdings: PodDevices) -> tuple[UnservedContainer, ...]:
    try:
        needs = container_needs(pod)
    except QuantityError:
        return ()
    return tuple(
        UnservedContainer(pod, need.name, need.count)
        for need in needs
        if need.resource == resource and not holdings.has(pod.metadata.uid, need.name)
    )


def _for(caller: UnservedContainer, question: AllocationRequest, view: NodeState) -> Decision:
    if question.must_include and _is_certain(view):
        others = replace(view, pods=tuple(pod for pod in view.living if pod.metadata.uid != caller.uid))
        if stolen := question.must_include & busy_devices(others):
            return _refused(stolen, others)
    busy = busy_devices(view)
    assigned = tuple(
        device
        for device in readable_assignment_of(caller.pod).get(caller.container, ())
        if device not in view.other_resources
    )
    wanted = [device for device in assigned if device in question.available - busy]
    assigned_to_others = unserved_assignments(view, but=(caller.uid, caller.container))
    free = _by_rank(question.available, (busy, assigned_to_others))
    devices = _filled(wanted, free, question, view.pick)
    verdict = _kept(assigned, devices)
    message = "" if verdict is Verdict.ASSIGNED else _why_other(caller, assigned, devices)
    return Decision(verdict, devices, caller.pod, caller.container, message)


def _kept(assigned: tuple[str, ...], devices: tuple[str, ...]) -> Verdict:
    if not assigned:
        return Verdict.UNASSIGNED
    return Verdict.ASSIGNED if set(assigned) == set(devices) else Verdict.PARTLY_ASSIGNED


def _filled(
    wanted: Iterable[str], tiers: Iterable[Sequence[str]], question: AllocationRequest, pick: DeviceOrder
) -> tuple[str, ...]:
    """What must be in, what is wanted, and then of each tier all, or as many as are missing still."""
    chosen = dict.fromkeys([*sorted(question.must_include), *wanted])
    for tier in tiers:
        left = [device for device in tier if device not in chosen]
        missing = question.size - len(chosen)
        if missing > 0:
            more = left if len(left) <= missing else pick(left, frozenset(chosen), missing)
            chosen.update(dict.fromkeys(more))
    return tuple(chosen)[: question.size]


def _by_rank(available: frozenset[str], avoided: tuple[frozenset[str], ...]) -> list[list[str]]:
    """The devices in tiers: those in the first avoided set last, and so on; each in stable order."""
    tiers: dict[tuple[bool, ...], list[str]] = {}
    for device in sorted(available):
        tiers.setdefault(tuple(device in devices for devices in avoided), []).append(device)
    return [tiers[rank] for rank in sorted(tiers)]


def _unknown(view: NodeState, found: tuple[UnservedContainer, ...]) -> Verdict:
    if view.holdings is None:
        return Verdict.NO_CHECKPOINT
    if not _knows_who_lives(view):
        return Verdict.PODS_UNAVAILABLE
    return Verdict.AMBIGUOUS if found else Verdict.NO_MATCH


def _why_unknown(question: AllocationRequest, view: NodeState, found: tuple[UnservedContainer, ...]) -> str:
    if view.holdings is None:
        return "The kubelet's checkpoint could not be read, so the pod that is being admitted is unknown."
    if not _knows_who_lives(view):
        return "The pods of this node could not be had, so the pod that is being admitted is unknown."
    names = ", ".join(waiting.pod.key for waiting in found) or "none"
    return f"The pod that is being admitted is unknown; waiting for {question.size} devices: {names}."


def _why_other(caller: UnservedContainer, assigned: tuple[str, ...], devices: tuple[str, ...]) -> str:
    whom = f"Container {caller.container} of pod {caller.pod.key}"
    if not assigned:
        return f"{whom} was assigned no devices; it is offered {', '.join(devices)}."
    return f"{whom} was assigned {', '.join(assigned)}, but is offered {', '.join(devices)}."


def _refused(devices: frozenset[str], view: NodeState) -> Decision:
    return Decision(Verdict.REFUSED, (), message=held_message(devices, view))


def held_message(devices: frozenset[str], view: NodeState) -> str:
    """Who holds the devices that may not be given away a second time."""
    holders = view.holdings.holders(devices) if view.holdings else frozenset()
    keys = sorted(pod.key for pod in view.living if pod.metadata.uid in holders)
    return (
        f"The kubelet offers devices that other living pods hold: {', '.join(sorted(devices))}"
        f" (held by {', '.join(keys) or 'pods that cannot be named'})."
        " A device is never given to two pods; create the pod again."
    )
