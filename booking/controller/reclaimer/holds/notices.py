"""Giving a victim its notice, which names the beneficiary and the deadline, and withdrawing it.

The notice is an Event and the annotation ``names.NOTICE``, which a pod can read by a downward-API volume.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from booking.controller.reclaimer.context import WriteEvent
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.wording import iso
from cluster import event_reasons, names
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live
from cluster.process.clock import Clock

WITHDRAWN: Final = "This pod may stay: its GPUs are not needed any more."
_BEGINS: Final = "This pod is evicted at "
_INSTANT: Final = len("2026-11-23T09:00:00Z")


def message(
    beneficiary: Pod, until: datetime, *, is_booked: bool = True, protected: str | None = None
) -> str:
    """The notice: for whom, and the instant to the whole second, never too early.

    Args:
        beneficiary: the pod that gets its GPUs.
        until: when the victim must leave.
        is_booked: whether a booking gives the beneficiary a right to them, or a fair share.
        protected: the clause that says what protects the victim until then.
    """
    needed = f"its GPUs are needed by the booked pod {beneficiary.key}"
    if not is_booked:
        needed = f"its GPUs are needed by the pod {beneficiary.key}, whose user has less than a fair share"
    return f"{notice(until, needed)}{f' Until then {protected}.' if protected else ''}"


def until_in(text: str | None) -> datetime | None:
    """The instant that a notice names; None where the text is no notice."""
    try:
        until = msgspec.convert((text or "")[len(_BEGINS) :][:_INSTANT], datetime)
    except msgspec.ValidationError:
        return None
    return until if until.tzinfo and (text or "").startswith(_BEGINS) else None


def notice(until: datetime, why: str) -> str:
    """A notice: the instant to the whole second, never too early, and why, in a clause."""
    whole = until.astimezone(UTC).replace(microsecond=0)
    at = whole if whole == until else whole + timedelta(seconds=1)
    return f"{_BEGINS}{iso(at)} or soon after: {why}."


def notice_until(text: str | None, beneficiary: Pod, *, is_booked: bool = True) -> datetime | None:
    """Until when a notice for this beneficiary lets its pod work; None where it is not such a notice.

    From it a process that restarts, or another leader, continues with the notice that was given.
    """
    until = until_in(text)
    return until if until and message(beneficiary, until, is_booked=is_booked) == text else None


def afterwards(beneficiary: Pod, *, is_booked: bool = True) -> str:
    """Why a pod had to leave, as its owner reads it on the pod that came back: it is still true then."""
    if not is_booked:
        return (
            f"The pod {beneficiary.key}, whose user had less than a fair share of GPUs, got the GPUs of this"
            " pod, whose owner had more."
        )
    return f"The booked pod {beneficiary.key} needed the GPUs of this pod."


class Notices:
    """Writes notices and takes them back."""

    def __init__(self, kube: Kube, clock: Clock, write_event: WriteEvent) -> None:
        self._kube = kube
        self._write_event = write_event
        self._recent_requests = RecentRequests(clock)
        self._given: dict[str, Pod] = {}

    def give(self, victim: Pod, text: str) -> Pod:
        """Write the notice on the victim, unless it has it; returns the pod with it.

        Raises:
            ApiError: it could not be written.
        """
        uid = victim.metadata.uid
        if victim.metadata.annotation(names.NOTICE) == text:
            self._given.pop(uid, None)
            return victim
        given = self._given.get(uid)
        if given is not None and given.metadata.annotation(names.NOTICE) == text:
            return given
        given = self._given[uid] = self._write(victim, text)
        self._write_event(victim, event_reasons.EVICTION_NOTICE, text)
        return given

    def stale(self, snapshot: ReclaimerSnapshot) -> list[Pod]:
        """Live pods that carry a notice though nothing wants them to leave any more."""
        needed = snapshot.victims | snapshot.over_users.keys()
        return [
            pod
            for uid, pod in snapshot.annotated.items()
            if uid not in needed and is_live(pod) and pod.metadata.annotation(names.NOTICE)
        ]

    def take_back(self, victim: Pod, *, blocker: str | None = None) -> bool:
        """Remove a notice; False if its removal was requested a moment ago.

        Args:
            victim: the pod.
            blocker: the clause that says what keeps it from being evicted; None: its GPUs are not needed.

        Raises:
            ApiError: it could not be removed.
        """
        self._given.pop(victim.metadata.uid, None)
        if not self._recent_requests.is_due(victim.metadata.uid):
            return False
        self._write(victim, None)
        spared = f"This pod may stay for now: {blocker.rstrip('.')}." if blocker else WITHDRAWN
        self._write_event(victim, event_reasons.EVICTION_WITHDRAWN, spared)
        return True

    def forget_all_but(self, uids: frozenset[str]) -> None:
        """Drop what is remembered about pods that are gone."""
        self._given = {uid: pod for uid, pod in self._given.items() if uid in uids}

    def _write(self, victim: Pod, text: str | None) -> Pod:
        meta = victim.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": {names.NOTICE: text}}}
        return self._kube.patch(PODS, meta.name, body, namespace=meta.namespace)
