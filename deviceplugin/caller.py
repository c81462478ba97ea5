"""Which pod is being admitted, and which devices the kubelet should give it: the algorithm, pure.

Used by ``admission`` inside GetPreferredAllocation. The kubelet does not say which pod it asks for, but it
admits one pod at a time, has put it among its Pods API's pods before it asks, and has written the devices
of every container served before into its checkpoint. So the pod that is being admitted is the one live pod
whose first container without devices needs as many as are asked for.

Source: kubelet 1.37.1 (HandlePodAdditions, devicemanager.devicesToAllocate). Laws L1, L6.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from cluster.objects.assignment import Assignment, AssignmentError, assignment_of
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError
from deviceplugin.checkpoint import Holdings


class Verdict(StrEnum):
    """What was found out; each is a label value of the metric."""

    PROMISED = "promised"
    """The pod is known and gets exactly what was promised to this container."""
    PARTLY = "partly"
    """The pod is known, but not everything that it was promised can be had: something else fills the gap."""
    UNPROMISED = "unpromised"
    """The pod is known and nothing was promised to the container: it gets what is promised to nobody."""
    NOBODY = "nobody"
    """No pod is known that waits for so many devices: what is promised to nobody."""
    SEVERAL = "several"
    """More than one pod may be the one: what is promised to nobody."""
    BLIND = "blind"
    """The pods of the node could not be had: what is not in the checkpoint comes first."""
    NO_CHECKPOINT = "no-checkpoint"
    """The checkpoint could not be read: what is promised to nobody."""
    REFUSED = "refused"
    """The kubelet offers only devices that other living pods hold (its double allocation)."""


@dataclass(frozen=True)
class Question:
    """What the kubelet asks for one container."""

    available: frozenset[str]
    """Ids to choose from, ``must_include`` among them."""
    must_include: frozenset[str]
    """Chosen by the kubelet already: taken over from an init container, or aligned by NUMA."""
    size: int
    """Devices that the container needs, ``must_include`` counted."""


@dataclass(frozen=True)
class View:
    """What can be known while the kubelet waits."""

    resource: str
    holdings: Holdings | None
    """None: the checkpoint could not be read."""
    pods: tuple[Pod, ...] | None
    """The pods that the kubelet knows; None: they could not be had."""
    remembered: bool = False
    """The pods were had for an earlier container: good for its promise, not for who lives."""

    @property
    def living(self) -> tuple[Pod, ...]:
        """Pods that have not ended; those that are being deleted live as long as their containers do."""
        return tuple(pod for pod in self.pods or () if not is_terminal(pod))


@dataclass(frozen=True)
class Waiting:
    """A pod, and its first container that has no devices yet."""

    pod: Pod
    container: str
    count: int

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid


@dataclass(frozen=True)
class Choice:
    """The answer, and how it came about."""

    verdict: Verdict
    devices: tuple[str, ...]
    pod: Pod | None = None
    """The pod that is being admitted, where it is known."""
    container: str | None = None
    sentence: str = ""
    """For people, where the answer is not simply what was promised."""


def choose(question: Question, view: View) -> Choice:
    """The devices that the container which is being admitted should get.

    Never a device that another living pod holds, where it is known who lives and what they hold. Where it is
    not known who lives (``BLIND``, or pods that are only remembered), everything in the checkpoint comes
    last, but is taken where nothing else is left: its pod may have ended. In ``NO_CHECKPOINT`` nobody's
    devices are known. Before the container starts, PreStartContainer looks again. Apart from ``REFUSED`` the
    answer always has ``size`` devices: a short one would be filled up by the kubelet at random, with a device
    of somebody else perhaps.
    """
    busy = busy_devices(view) - question.must_include
    if _knows_who_lives(view) and len(question.available - busy) < question.size:
        return _refused(question.available & busy, view)
    found = candidates(question, view)
    if len(found) == 1:
        return _for(found[0], question, view)
    free = _by_rank(question.available, (busy, unserved_promises(view)))
    return Choice(
        _unknown(view, found), _filled((), free, question), sentence=_why_unknown(question, view, found)
    )


def candidates(question: Question, view: View) -> tuple[Waiting, ...]:
    """The pods that may be the one that is being admitted: exactly one, as far as ever observed.

    A pod that was admitted while the resource was not registered runs without devices and would be a
    candidate for ever; it has been started, which the one that is being admitted has not. Devices taken over
    from an init container prove the pod by themselves: they are in the checkpoint under its uid.
    """
    if view.holdings is None:
        return ()
    waiting = [w for pod in view.living if (w := first_unserved(pod, view)) and w.count == question.size]
    owners = view.holdings.holders(question.must_include)
    proven = [w for w in waiting if w.uid in owners]
    waiting = proven if proven or view.remembered else waiting
    if len(waiting) > 1:
        waiting = [w for w in waiting if w.pod.status.start_time is None]
    return tuple(waiting)


def first_unserved(pod: Pod, view: View) -> Waiting | None:
    """The pod's first container, in the kubelet's order, that needs devices and has none."""
    return next(iter(_unserved(pod, view)), None)


def busy_devices(view: View) -> frozenset[str]:
    """Devices of living pods, by the checkpoint; all in the checkpoint where it is unknown who lives."""
    if view.holdings is None:
        return frozenset()
    uids = {pod.metadata.uid for pod in view.living} if _knows_who_lives(view) else view.holdings.uids
    return frozenset[str]().union(*(view.holdings.of(uid) for uid in uids))


def busy_offered(question: Question, view: View) -> frozenset[str]:
    """Devices of other living pods among those that the kubelet offers: it may (double allocation)."""
    if not _knows_who_lives(view):
        return frozenset()
    return question.available & (busy_devices(view) - question.must_include)


def promise_of(pod: Pod) -> Assignment:
    """Devices promised to the pod, per container; nothing where the annotation is missing or unreadable."""
    try:
        return assignment_of(pod) or {}
    except AssignmentError:
        return {}


def unserved_promises(view: View, *, but: tuple[str, str] | None = None) -> frozenset[str]:
    """Devices promised to containers of living pods that have none yet, but (uid, container) not counted."""
    return frozenset(
        device
        for pod in view.living
        for waiting in _unserved(pod, view)
        if (waiting.uid, waiting.container) != but
        for device in promise_of(pod).get(waiting.container, ())
    )


def _knows_who_lives(view: View) -> bool:
    return view.pods is not None and not view.remembered


def _unserved(pod: Pod, view: View) -> list[Waiting]:
    try:
        needs = container_needs(pod)
    except QuantityError:
        return []
    holdings = view.holdings or Holdings()
    return [
        Waiting(pod, need.name, need.count)
        for need in needs
        if need.resource == view.resource and not holdings.has(pod.metadata.uid, need.name)
    ]


def _for(caller: Waiting, question: Question, view: View) -> Choice:
    others = replace(view, pods=tuple(pod for pod in view.living if pod.metadata.uid != caller.uid))
    if _knows_who_lives(view) and (stolen := question.must_include & busy_devices(others)):
        return _refused(stolen, others)
    busy = busy_devices(view)
    promised = promise_of(caller.pod).get(caller.container, ())
    wanted = [device for device in promised if device in question.available - busy]
    promised_to_others = unserved_promises(view, but=(caller.uid, caller.container))
    free = _by_rank(question.available, (busy, promised_to_others))
    devices = _filled(wanted, free, question)
    verdict = _kept(promised, devices)
    sentence = "" if verdict is Verdict.PROMISED else _why_other(caller, promised, devices)
    return Choice(verdict, devices, caller.pod, caller.container, sentence)


def _kept(promised: tuple[str, ...], devices: tuple[str, ...]) -> Verdict:
    if not promised:
        return Verdict.UNPROMISED
    return Verdict.PROMISED if set(promised) == set(devices) else Verdict.PARTLY


def _filled(wanted: Iterable[str], free: list[str], question: Question) -> tuple[str, ...]:
    ordered = dict.fromkeys([*sorted(question.must_include), *wanted, *free])
    return tuple(ordered)[: question.size]


def _by_rank(available: frozenset[str], avoided: tuple[frozenset[str], ...]) -> list[str]:
    """The devices in stable order: those in the first avoided set last, and so on."""
    return sorted(available, key=lambda device: (*(device in devices for devices in avoided), device))


def _unknown(view: View, found: tuple[Waiting, ...]) -> Verdict:
    if view.holdings is None:
        return Verdict.NO_CHECKPOINT
    if not _knows_who_lives(view):
        return Verdict.BLIND
    return Verdict.SEVERAL if found else Verdict.NOBODY


def _why_unknown(question: Question, view: View, found: tuple[Waiting, ...]) -> str:
    if view.holdings is None:
        return "The kubelet's checkpoint could not be read, so the pod that is being admitted is unknown."
    if not _knows_who_lives(view):
        return "The pods of this node could not be had, so the pod that is being admitted is unknown."
    names = ", ".join(waiting.pod.key for waiting in found) or "none"
    return f"The pod that is being admitted is unknown; waiting for {question.size} devices: {names}."


def _why_other(caller: Waiting, promised: tuple[str, ...], devices: tuple[str, ...]) -> str:
    whom = f"Container {caller.container} of pod {caller.pod.key}"
    if not promised:
        return f"{whom} was promised no devices; it is offered {', '.join(devices)}."
    return f"{whom} was promised {', '.join(promised)}, but is offered {', '.join(devices)}."


def _refused(devices: frozenset[str], view: View) -> Choice:
    return Choice(Verdict.REFUSED, (), sentence=held_sentence(devices, view))


def held_sentence(devices: frozenset[str], view: View) -> str:
    """Who holds the devices that may not be given away a second time."""
    holders = view.holdings.holders(devices) if view.holdings else frozenset()
    keys = sorted(pod.key for pod in view.living if pod.metadata.uid in holders)
    return (
        f"The kubelet offers devices that other living pods hold: {', '.join(sorted(devices))}"
        f" (held by {', '.join(keys) or 'pods that cannot be named'})."
        " A device is never given to two pods; create the pod again."
    )
