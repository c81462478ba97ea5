"""The algorithm that finds the pod being admitted and chooses devices for the kubelet to allocate. Pure.

Used by ``allocator`` inside GetPreferredAllocation. The kubelet does not say which pod a call is for. But it
admits one pod at a time, lists it in its Pods API before it calls, and has written the devices of every
earlier container into its checkpoint. So the pod that is being admitted is the one live pod whose first
container without devices needs as many as the call asks for.

Source: kubelet 1.37.1 (HandlePodAdditions, devicemanager.devicesToAllocate). Laws L1, L6.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Final

from cluster import names
from cluster.objects.assignment import readable_assignment_of
from cluster.objects.pods import ContainerNeed, Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.objects.slots import in_order as by_slot
from cluster.objects.slots import physical
from deviceplugin.allocation.pod_devices import Entries, PodDevices, excluded

Pick = Callable[[Sequence[str], frozenset[str], int], Sequence[str]]
"""Picks among devices that are equal by assignment and use those that go best with the ones that the
container gets already: ``(ids in stable order, ids chosen already, count)`` -> exactly ``count`` ids."""


_SAME_GPUS: Final = {
    names.GPU_RESOURCE: names.SHARED_RESOURCE,
    names.SHARED_RESOURCE: names.GPU_RESOURCE,
}
"""The two resources under which whole GPUs are advertised: by their UUIDs, and by their slots."""


def in_order(free: Sequence[str], taken: frozenset[str], count: int) -> Sequence[str]:
    """The pick without any knowledge of the devices: the first ones."""
    del taken
    return free[:count]


class Verdict(StrEnum):
    """The outcome; each is a label value of the metric."""

    ASSIGNED = "assigned"
    """The pod is known and gets exactly what was assigned to this container."""
    PARTLY_ASSIGNED = "partly-assigned"
    """The pod is known, but some devices assigned to it are unavailable: others fill the gap."""
    UNASSIGNED = "unassigned"
    """The pod is known and the container has no assignment: devices assigned to no pod come first."""
    NO_MATCH = "no-match"
    """No known pod waits for so many devices: devices assigned to no pod come first."""
    AMBIGUOUS = "ambiguous"
    """More than one pod matches. None are chosen if something was assigned to one of them; else devices
    assigned to no pod come first."""
    PODS_UNAVAILABLE = "pods-unavailable"
    """The pods of the node could not be read, so nobody knows what was assigned: none are chosen."""
    NO_CHECKPOINT = "no-checkpoint"
    """The checkpoint could not be read, and nothing was assigned to any pod that may be meant: devices
    assigned to no pod come first. If something was, none are chosen."""
    REFUSED = "refused"
    """Too few of the offered devices are free of other live pods, or the kubelet has already chosen one of
    theirs (its double allocation)."""


@dataclass(frozen=True)
class AllocationRequest:
    """The kubelet's request for one container."""

    available: frozenset[str]
    """Ids to choose from, including ``must_include``."""
    must_include: frozenset[str]
    """Chosen by the kubelet already: taken over from an init container, or aligned by NUMA."""
    size: int
    """Number of devices that the container needs, including ``must_include``."""


@dataclass(frozen=True)
class NodeState:
    """What is known while the kubelet waits."""

    resource: str
    holdings: PodDevices | None
    """None: the checkpoint could not be read."""
    pods: tuple[Pod, ...] | None
    """The pods that the kubelet knows; None: they could not be read."""
    remembered: bool = False
    """The pods were read for an earlier container: their assignments hold, but some may have ended."""
    from_watch: bool = False
    """The pods come from our own watch, or from the API server. The pod that is being admitted is among them,
    but no pod is refused because another one seems to be alive."""

    settled: frozenset[str] = frozenset()
    """Uids of pods that are certainly not being admitted: they were before, and may have been rejected."""
    bindings: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Uid -> the first and the last revision at which the pod may have been bound; the first is 0 where that
    is unknown, or where it is not certain that the kubelet has the pod already."""

    pick: Pick = in_order
    """Chooses without an assignment: by links between whole GPUs, by packing of MIG devices."""
    other_resources: frozenset[str] = frozenset()
    """Devices of the node under another resource: a container's assignment may name both."""

    @cached_property
    def living(self) -> tuple[Pod, ...]:
        """Pods that have not ended; a pod that is being deleted is alive as long as its containers are."""
        return tuple(pod for pod in self.pods or () if not is_terminal(pod))

    @cached_property
    def unserved(self) -> tuple[tuple["UnservedContainer", ...], ...]:
        """For each live pod the containers that need devices and have none, in the kubelet's order."""
        holdings = self.holdings or PodDevices()
        return self._unserved(self.resource, holdings.entries)

    @cached_property
    def unserved_otherwise(self) -> tuple[tuple["UnservedContainer", ...], ...]:
        """As ``unserved``, for the other resource under which the same GPUs are advertised."""
        holdings = self.holdings or PodDevices()
        other = _SAME_GPUS.get(self.resource, "")
        return self._unserved(other, holdings.others.get(other, {})) if other else ()

    def _unserved(self, resource: str, served: Entries) -> tuple[tuple["UnservedContainer", ...], ...]:
        found = (_unserved(pod, needs, resource, served) for pod, needs in self._needs)
        return tuple(waiting for waiting in found if waiting)

    @cached_property
    def _needs(self) -> tuple[tuple[Pod, tuple[ContainerNeed, ...]], ...]:
        return tuple((pod, _needs(pod)) for pod in self.living)


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
    """None: the pod is refused."""
    pod: Pod | None = None
    """The pod that is being admitted, if it is known."""
    container: str | None = None
    message: str = ""
    """For people, if the answer is not just the assignment."""
    busy: frozenset[str] = frozenset()
    """Devices that the kubelet offers although other live pods hold them."""
    has_candidate: bool = True
    """Whether any pod waits for so many devices."""


def choose(request: AllocationRequest, state: NodeState) -> Decision:
    """The devices that the container which is being admitted should get.

    If it is known which pods are alive and what they hold, a device of another live pod is never chosen.
    Where a pod might get other devices than those assigned to it, because the pods of the node could not be
    read, it is refused (law L6). With ``NO_CHECKPOINT`` no pod's devices are known. PreStartContainer checks
    again before the container starts. An answer has ``size`` devices, or none, which is a refusal: the
    kubelet would fill up a shorter one at random, perhaps with a device of another pod.
    """
    found = candidates(request, state)
    decision = _decided(found, request, state)
    return replace(decision, busy=_busy_available(request, state), has_candidate=bool(found))


def _decided(found: tuple[UnservedContainer, ...], request: AllocationRequest, state: NodeState) -> Decision:
    busy = busy_devices(state, request.available) - request.must_include
    if _is_certain(state) and len(request.available - busy) < request.size:
        return _refused(request.available & busy, state)
    if len(found) == 1 and (state.holdings is not None or _is_only_container(found[0], state)):
        return _for(found[0], request, state)
    if _is_a_guess(found, state):
        return Decision(_unknown(state, found), (), message=_why_unknown(request, state, found))
    devices = _filled((), _ranked(request, busy, unserved_assignments(state)), request, state.pick)
    return Decision(_unknown(state, found), devices, message=_why_unknown(request, state, found))


def candidates(request: AllocationRequest, state: NodeState) -> tuple[UnservedContainer, ...]:
    """The pods that may be the one being admitted: in almost all observations exactly one.

    A pod that was admitted while the resource was not registered runs without devices and would remain a
    candidate indefinitely; but it has started, and the pod that is being admitted has not. Devices taken over
    from an init container identify the pod by themselves: they are in the checkpoint under its uid.
    """
    if state.holdings is None:
        return _candidates_without_checkpoint(request, state)
    waiting = [
        first
        for first, *_ in state.unserved
        if first.count == request.size and first.uid not in state.settled
    ]
    owners = state.holdings.holders(request.must_include)
    proven = [w for w in waiting if w.uid in owners]
    waiting = proven if proven or state.remembered else waiting
    if len(waiting) > 1:
        waiting = [w for w in waiting if w.pod.status.start_time is None]
    return _last(waiting, state) or tuple(waiting)


def _last(waiting: Sequence[UnservedContainer], state: NodeState) -> tuple[UnservedContainer, ...]:
    """The one that certainly came after all others, if there is one: it is being admitted, they were.

    The kubelet admits pods in the order of their Bindings. Those that it finds at once, after its own start
    or when it must list its pods again, it admits in the order of their creation, which counts in seconds.
    """
    return tuple(
        one for one in waiting if all(_is_before(other, one, state) for other in waiting if other is not one)
    )


def _is_before(earlier: UnservedContainer, later: UnservedContainer, state: NodeState) -> bool:
    created = earlier.pod.metadata.creation_timestamp, later.pod.metadata.creation_timestamp
    if created[0] is None or created[1] is None or earlier.uid not in state.bindings:
        return False
    first, _ = state.bindings.get(later.uid, (0, 0))
    return created[0] < created[1] and state.bindings[earlier.uid][1] < first


def _candidates_without_checkpoint(
    request: AllocationRequest, state: NodeState
) -> tuple[UnservedContainer, ...]:
    """Of each pod that has not started a container that needs as many, and can get what it was assigned.

    Which of several containers of a pod is next is unknown.
    """
    if not _knows_who_lives(state):
        return ()
    available = frozenset(map(physical, request.available))
    fitting = (
        [one for one in waiting if one.count == request.size and available.issuperset(_assigned(one, state))]
        for waiting in state.unserved
        if waiting[0].pod.status.start_time is None
    )
    return tuple(found[0] for found in fitting if found)


def _is_a_guess(found: tuple[UnservedContainer, ...], state: NodeState) -> bool:
    """Whether something may have been assigned to the pod that is being admitted, and it is unknown what."""
    return not _knows_who_lives(state) or any(readable_assignment_of(waiting.pod) for waiting in found)


def busy_devices(state: NodeState, among: AbstractSet[str]) -> frozenset[str]:
    """Those of the ids that live pods have by the checkpoint, or exclude (a whole GPU and its slots).

    All that are in it if it is unknown which pods are alive.
    """
    if state.holdings is None:
        return frozenset()
    if not _knows_who_lives(state):
        return excluded(among, state.holdings.devices)
    return excluded(among, state.holdings.of_any({pod.metadata.uid for pod in state.living}))


def _busy_available(request: AllocationRequest, state: NodeState) -> frozenset[str]:
    """Devices of other live pods among those that the kubelet offers: it may do so (double allocation)."""
    if not _is_certain(state):
        return frozenset()
    return busy_devices(state, request.available) - request.must_include


def unserved_assignments(state: NodeState, *, but: tuple[str, str] | None = None) -> frozenset[str]:
    """UUIDs assigned to containers of live pods that have none yet, except ``but`` (uid, container)."""
    return frozenset(
        device
        for waiting in chain.from_iterable((*state.unserved, *state.unserved_otherwise))
        if (waiting.uid, waiting.container) != but
        for device in readable_assignment_of(waiting.pod).get(waiting.container, ())
    )


def _knows_who_lives(state: NodeState) -> bool:
    return state.pods is not None and not state.remembered


def _is_certain(state: NodeState) -> bool:
    """Whether the knowledge is good enough to refuse a pod: a refusal is final."""
    return _knows_who_lives(state) and not state.from_watch


def _needs(pod: Pod) -> tuple[ContainerNeed, ...]:
    try:
        return container_needs(pod)
    except QuantityError:
        return ()  # no such pod can be created


def _unserved(
    pod: Pod, needs: tuple[ContainerNeed, ...], resource: str, served: Entries
) -> tuple[UnservedContainer, ...]:
    return tuple(
        UnservedContainer(pod, need.name, need.count)
        for need in needs
        if need.resource == resource and (pod.metadata.uid, need.name) not in served
    )


def _for(container: UnservedContainer, request: AllocationRequest, state: NodeState) -> Decision:
    if request.must_include and _is_certain(state):
        others = replace(state, pods=tuple(pod for pod in state.living if pod.metadata.uid != container.uid))
        if stolen := busy_devices(others, request.must_include):
            return _refused(stolen, others)
    busy = busy_devices(state, request.available)
    assigned = _assigned(container, state)
    free_ids = _one_of_each(by_slot(request.available - busy), request.must_include)
    wanted = [free_ids[uuid] for uuid in assigned if uuid in free_ids]
    assigned_to_others = unserved_assignments(state, but=(container.uid, container.container))
    devices = _filled(wanted, _ranked(request, busy, assigned_to_others), request, state.pick)
    verdict = _kept(assigned, devices)
    message = "" if verdict is Verdict.ASSIGNED else _why_other(container, assigned, devices)
    return Decision(verdict, devices, container.pod, container.container, message)


def _assigned(container: UnservedContainer, state: NodeState) -> tuple[str, ...]:
    """What was assigned to a container of the resource that is asked for."""
    return tuple(
        device
        for device in readable_assignment_of(container.pod).get(container.container, ())
        if device not in state.other_resources
    )


def _is_only_container(container: UnservedContainer, state: NodeState) -> bool:
    return any(waiting == (container,) for waiting in state.unserved)


def _kept(assigned: tuple[str, ...], devices: tuple[str, ...]) -> Verdict:
    if not assigned:
        return Verdict.UNASSIGNED
    is_kept = sorted(assigned) == sorted(map(physical, devices))
    return Verdict.ASSIGNED if is_kept else Verdict.PARTLY_ASSIGNED


def _filled(
    wanted: Iterable[str], ranked: Iterable[Sequence[Sequence[str]]], request: AllocationRequest, pick: Pick
) -> tuple[str, ...]:
    """The required ids, the wanted ones, then tier by tier as many as are still missing.

    Slots are taken of different GPUs, as long as there are any.
    """
    chosen = dict.fromkeys([*sorted(request.must_include), *wanted])
    for tiers in ranked:
        for tier in tiers:
            left = list(_one_of_each(tier, chosen).values())
            missing = request.size - len(chosen)
            if missing > 0:
                more = left if len(left) <= missing else pick(left, frozenset(chosen), missing)
                chosen.update(dict.fromkeys(more))
        chosen.update(dict.fromkeys(chain.from_iterable(tiers)))
    return tuple(chosen)[: request.size]


def _one_of_each(ids: Iterable[str], chosen: Iterable[str]) -> dict[str, str]:
    """UUID -> its first id, for devices of which none is chosen: a whole GPU's only one, or a slot."""
    taken = frozenset(map(physical, chosen))
    found: dict[str, str] = {}
    for device in ids:
        if physical(device) not in taken:
            found.setdefault(physical(device), device)
    return found


def _ranked(
    request: AllocationRequest, busy: frozenset[str], assigned: frozenset[str]
) -> Iterator[list[list[str]]]:
    """The ids in tiers, in stable order: those that are free, and then the others.

    Devices assigned to other containers (UUIDs) come last each time.
    """
    for ids in (request.available - busy, request.available & busy):
        ordered = by_slot(ids)
        yield [[one for one in ordered if (physical(one) in assigned) is late] for late in (False, True)]


def _unknown(state: NodeState, found: tuple[UnservedContainer, ...]) -> Verdict:
    if not _knows_who_lives(state):
        return Verdict.PODS_UNAVAILABLE
    if state.holdings is None:
        return Verdict.NO_CHECKPOINT
    return Verdict.AMBIGUOUS if found else Verdict.NO_MATCH


def _why_unknown(request: AllocationRequest, state: NodeState, found: tuple[UnservedContainer, ...]) -> str:
    if state.holdings is None and _knows_who_lives(state):
        return "The kubelet's checkpoint could not be read, so the pod that is being admitted is unknown."
    if not _knows_who_lives(state):
        return (
            "The pods of this node could not be read, so it is unknown which pod is being admitted and which"
            " devices were assigned to it; create the pod again."
        )
    names = ", ".join(waiting.pod.key for waiting in found) or "none"
    advice = " Create the pod again." if _is_a_guess(found, state) else ""
    return f"The pod that is being admitted is unknown; waiting for {request.size} devices: {names}.{advice}"


def _why_other(container: UnservedContainer, assigned: tuple[str, ...], devices: tuple[str, ...]) -> str:
    whom = f"Container {container.container} of pod {container.pod.key}"
    if not assigned:
        return f"{whom} was assigned no devices; it is offered {', '.join(devices)}."
    return f"{whom} was assigned {', '.join(assigned)}, but is offered {', '.join(devices)}."


def _refused(devices: frozenset[str], state: NodeState) -> Decision:
    return Decision(Verdict.REFUSED, (), message=held_message(devices, state))


def held_message(devices: frozenset[str], state: NodeState) -> str:
    """Which pods hold the devices that may not be allocated a second time."""
    holders = state.holdings.holders(devices) if state.holdings else frozenset()
    keys = sorted(pod.key for pod in state.living if pod.metadata.uid in holders)
    return (
        f"The kubelet offers devices that other living pods hold: {', '.join(sorted(devices))}"
        f" (held by {', '.join(keys) or 'pods that cannot be named'})."
        " A device is never given to two pods; create the pod again."
    )
