"""The full explanation of one pod."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from cluster import names
from cluster.decide.explain import bound, cover
from cluster.decide.explain.cover import Covered
from cluster.decide.explain.holders import MayName
from cluster.decide.explain.snapshot import Explanation, ExplanationSnapshot, listed
from cluster.decide.explain.unbound import Waits, waits
from cluster.objects.pods import Pod, asks_for_gpus, is_terminal, is_terminating, unmade_claims
from cluster.objects.quantity import QuantityError

_BOOKED_WAITS: Final = (
    "Its booking makes room for it by itself: pods without a booking are evicted where that helps."
    " Deleting its pods that it does not need is quicker."
)

_BLOCKED_WAITS: Final = (
    "Its booking makes room for it as soon as the pods in its way may leave: that is tried again by itself."
    " Deleting its pods that it does not need is quicker."
)


def explain_pod(
    pod: Pod,
    snapshot: ExplanationSnapshot,
    *,
    granted: datetime | None = None,
    may_name: MayName | None = None,
) -> Explanation:
    """Why a pod is in its state, and what would change it.

    Args:
        pod: any pod, including one that has ended or requests no GPU.
        snapshot: the cluster.
        granted: until when another system has granted the pod its GPUs.
        may_name: which other pods may be named; by default those of the same user.
    """
    if is_terminal(pod):
        return Explanation("finished", (*_origin(pod), "It has ended, and holds no GPU any more."))
    if not _asks(pod):
        return _without(pod, snapshot.missing_claims)
    if is_terminating(pod):
        booking = snapshot.cover.get(pod.metadata.uid)
        because = (*_origin(pod), *bound.where(pod, snapshot, booking), *bound.leaving(pod, snapshot))
        return Explanation("leaving", because)
    known = cover.covered(pod, snapshot)
    if pod.spec.node_name:
        return _running(pod, snapshot, known, granted)
    return _waiting(pod, snapshot, known, may_name or _same_user(pod))


def _same_user(pod: Pod) -> MayName:
    user = pod.metadata.annotation(names.USER)
    return lambda other: bool(user) and other.metadata.annotation(names.USER) == user


def _running(
    pod: Pod, snapshot: ExplanationSnapshot, known: Covered, granted: datetime | None
) -> Explanation:
    is_noticed = bool(pod.metadata.annotation(names.NOTICE) or snapshot.needed_by(pod.metadata.uid))
    state = "running, booked" if known.booking else "running, not booked"
    because = (
        *_origin(pod),
        *cover.messages(pod, known),
        *bound.where(pod, snapshot, known.booking),
        *bound.taking(pod, snapshot, known.booking, granted),
    )
    if is_noticed and not known.booking:
        state = "to be evicted"
    return Explanation(state, because, tuple(cover.changes(known)))


def _waiting(pod: Pod, snapshot: ExplanationSnapshot, known: Covered, may_name: MayName) -> Explanation:
    state = "waiting, booked" if known.booking else "waiting, not booked"
    found = waits(pod, snapshot, known.booking, may_name)
    because = (*_origin(pod), *cover.messages(pod, known), *found.because)
    return Explanation(state, because, tuple(_changes_of_waiting(pod, known, found)))


def _changes_of_waiting(pod: Pod, known: Covered, found: Waits) -> Iterator[str]:
    if not found.is_settled:
        is_blocked = bool(pod.metadata.annotation(names.BLOCKED))
        booked = _BLOCKED_WAITS if is_blocked else _BOOKED_WAITS
        yield booked if known.booking else "It is bound by itself when enough GPUs become free."
    yield from found.would_change
    if not known.booking and not found.is_hopeless:
        yield from cover.changes(known)


def _without(pod: Pod, missing_claims: Sequence[str]) -> Explanation:
    """The pod requests no GPU: by its own spec, or because admission has removed the request."""
    message = pod.metadata.annotation(names.STRIPPED)
    if message:
        change = "Create it again once the reason is gone: a pod's request for GPUs cannot be changed later."
        return Explanation("without its GPU", (*_origin(pod), message), (change,))
    if missing := unmade_claims(pod):
        many = f"Its claims {listed(missing)} have" if len(missing) > 1 else f"Its claim {missing[0]} has"
        message = f"{many} not been made from a template yet: until then it is not known what it asks for."
        change = "Kubernetes makes claims by itself; where it cannot, Events of the pod say why."
        return Explanation("without GPU", (*_origin(pod), message), (change,))
    if missing_claims:
        many = "ResourceClaims" if len(missing_claims) > 1 else "ResourceClaim"
        there = "there are none" if len(missing_claims) > 1 else "there is none"
        message = (
            f"It names the {many} {listed(missing_claims)}, but {there}: it is not known what it asks for."
        )
        return Explanation("without GPU", (*_origin(pod), message), (f"Create the {many}.",))
    return Explanation("without GPU", (*_origin(pod), "It asks for no GPU."))


def _origin(pod: Pod) -> Iterator[str]:
    notes = pod.metadata.annotations or ()
    if _asks(pod) or names.USER in notes or names.NO_USER in notes:
        yield cover.whose(pod)
    came_back = pod.metadata.annotation(names.COMEBACK_MESSAGE)
    if came_back:
        yield f"It replaces a pod that had to go: {came_back}"


def _asks(pod: Pod) -> bool:
    try:
        return asks_for_gpus(pod)
    except QuantityError:
        return True
