"""Which of today's pods a user's bookings covered at an instant near the end of one of them. Pure."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.entitlement import (
    Candidate,
    candidate_on,
    entitlement,
    is_of_model,
)
from cluster.decide.ledger import NodeView
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

_WRITTEN_TO: Final = timedelta(seconds=1)
"""Kubernetes truncates creation timestamps to whole seconds."""
ANY_NUMBER: Final = 0
"""The size of pods with shares: of how many there is room does not follow from a count."""
_LAST_INSTANT: Final = timedelta(microseconds=1)


def covered_at(
    at: datetime,
    booking: Booking,
    *,
    bookings: Iterable[Booking],
    pods: Iterable[Pod],
    views: Mapping[str, NodeView],
) -> dict[str, Booking]:
    """Uid -> the booking that covers it, of the user's pods that are older than the end of ``booking``.

    Args:
        at: the instant.
        booking: the booking whose end and user count.
        bookings: all bookings; ``booking`` replaces the one of its name.
        pods: living pods of all users.
        views: name -> node, with what pods hold.
    """
    user, found = booking.spec.user, []
    for pod in pods:
        is_theirs, older = pod.metadata.annotation(names.USER) == user, _older_than(pod)
        if is_theirs and older is not None and older <= booking.spec.end and (one := _candidate(pod, views)):
            found.append(one)
    theirs = [b for b in bookings if b.spec.user == user and b.name != booking.name]
    return entitlement([*theirs, booking], found, at)


def covered_to_the_end(
    bookings: Collection[Booking],
    pods: Iterable[Pod],
    views: Mapping[str, NodeView],
    *,
    now: datetime,
    left: Callable[[Booking], Booking],
) -> Iterator[tuple[Booking, str]]:
    """Each of a user's bookings that is over, with the uid of each pod that it covered at its last instant.

    Gives the same as ``covered_at`` for each booking, without checking every pod against every booking.

    Args:
        bookings: the user's.
        pods: the user's living pods.
        views: name -> node, with what pods hold.
        now: bookings that end by then are over.
        left: returns a booking that is over with only those of its GPUs that still count.
    """
    over = sorted((b for b in bookings if b.spec.start < b.spec.end <= now), key=lambda b: b.spec.end)
    if not over:
        return
    starting = sorted(bookings, key=lambda b: b.spec.start, reverse=True)
    older_pods, running = _OlderPods(bookings, pods, views), list[Booking]()
    for booking in over:
        at = booking.spec.end - _LAST_INSTANT
        while starting and starting[-1].spec.start <= at:
            running.append(starting.pop())
        running = [each for each in running if each.is_running(at)]
        covering = [left(each) if each.name == booking.name else each for each in running]
        older_pods.add_until(booking.spec.end)
        covered = entitlement(covering, older_pods.first_of(covering), at)
        yield from ((booking, uid) for uid, by in covered.items() if by.name == booking.name)


class _OlderPods:
    """A user's pods that are older than an instant, by what bookings they suit, in their order there."""

    def __init__(
        self, bookings: Iterable[Booking], pods: Iterable[Pod], views: Mapping[str, NodeView]
    ) -> None:
        self._like: dict[str | None, dict[str, Booking]] = {}
        """Namespace -> model -> one of the bookings with both: all of them can cover the same pods."""
        for booking in bookings:
            self._like.setdefault(booking.spec.namespace, {})[booking.spec.model] = booking
        self._suiting: dict[tuple[str | None, str], dict[int, list[Candidate]]] = {}
        """Namespace and model -> GPUs of a pod, or ``ANY_NUMBER`` -> pods, in the order of their cover."""
        self._annotated: dict[str | None, list[Candidate]] = {}
        found = ((_older_than(pod), _candidate(pod, views)) for pod in pods)
        self._upcoming = sorted(
            ((older, one) for older, one in found if older is not None and one is not None),
            key=lambda each: each[0],
            reverse=True,
        )

    def add_until(self, end: datetime) -> None:
        """Add the pods that are older than an instant, which is no earlier than the last one."""
        while self._upcoming and self._upcoming[-1][0] <= end:
            _, pod = self._upcoming.pop()
            self._annotated.setdefault(pod.annotated_booking, []).append(pod)
            for namespace in (None, pod.namespace):
                for model, booking in self._like.get(namespace, {}).items():
                    if is_of_model(pod, booking):
                        sizes = self._suiting.setdefault((namespace, model), {})
                        size = ANY_NUMBER if pod.wants.shares or pod.claims else pod.gpus
                        insort(sizes.setdefault(size, []), pod, key=_age)

    def first_of(self, covering: Sequence[Booking]) -> Iterable[Candidate]:
        """Pods among which are all that these bookings cover together.

        Bookings cover the first pods that suit, after those that carry their annotation. No more pods of one
        size are covered than all of the bookings together have room for, so later ones are left out.
        """
        found: dict[str, Candidate] = {}
        for booking in covering:
            annotated = self._annotated.get(booking.name, [])
            found.update((pod.uid, pod) for pod in annotated)
            for size, pods in self._suiting.get((booking.spec.namespace, booking.spec.model), {}).items():
                room = sum(max(0, each.spec.count) // size for each in covering) if size else len(pods)
                found.update((pod.uid, pod) for pod in pods[:room])
        return found.values()


def _age(pod: Candidate) -> tuple[datetime, str, str]:
    return pod.first_created, pod.name, pod.uid


def _older_than(pod: Pod) -> datetime | None:
    """The earliest end of a booking that the pod is certainly older than; None if that is unknown."""
    created = pod.metadata.creation_timestamp
    return None if created is None else created + _WRITTEN_TO


def _candidate(pod: Pod, views: Mapping[str, NodeView]) -> Candidate | None:
    """The pod with the devices that it holds, drift included."""
    return candidate_on(pod, views.get(pod.spec.node_name or ""))
