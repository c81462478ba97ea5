"""What an eviction destroys: the GPU time that a pod has worked since it started or saved its state.

Costs grow with time. The instants that they are counted from do not, and are read from a pod once (``Work``).
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from cluster import names
from cluster.objects.pods import Pod, container_needs
from cluster.objects.quantity import QuantityError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
SECOND: Final = 1_000_000
"""A second in microseconds. They are whole numbers, so sums can be compared exactly."""


def microseconds(instant: datetime) -> int:
    """Whole microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


class Work(msgspec.Struct, frozen=True, gc=False):
    """What a pod says about its work. Instants are microseconds since 1970, None if the pod names none."""

    start: int | None = None
    checkpoint: int | None = None
    done: int | None = None
    evictions: int = 0
    """How often it was evicted before."""

    def since(self, now: int) -> int:
        """When it started; ``now`` if it has not started, or its clock puts the start into the future."""
        return now if self.start is None else min(self.start, now)

    def saved(self, now: int) -> int:
        """The instant up to which its work is saved: its newest checkpoint, clamped to what is possible.

        An answer to the notice (``done``) that lies in the future does not count.
        """
        start = self.since(now)
        instants = [start] if self.checkpoint is None else [start, min(self.checkpoint, now)]
        if self.done is not None and self.done <= now:
            instants.append(self.done)
        return max(instants)

    def lost(self, gpus: int, now: int, restart: int) -> int:
        """GPU-microseconds that its eviction destroys; ``restart``: microseconds of a restart per GPU."""
        return gpus * (now - self.saved(now) + restart)

    @property
    def unsaved(self) -> "Work":
        """The same, if nobody continues from what was saved: then all of it is lost."""
        return Work(start=self.start, evictions=self.evictions)

    @property
    def latest(self) -> int | None:
        """``saved`` is never later than this, at any time; None if it may be as late as now."""
        if self.start is None:
            return None
        return max(self.start, self.checkpoint or self.start, self.done or self.start)


def work_of(pod: Pod) -> Work:
    """What a bound pod says about its work."""
    start = _started(pod)
    return Work(
        start=None if start is None else microseconds(start),
        checkpoint=_instant(pod.metadata.annotation(names.CHECKPOINT_AT)),
        done=_instant(pod.metadata.annotation(names.CHECKPOINT_DONE)),
        evictions=pod.metadata.count(names.EVICTIONS),
    )


def saved_at_most(pod: Pod) -> int | None:
    """An instant that ``Work.latest`` is not after, quicker to read; None if its work may be saved now."""
    latest = pod.status.start_time
    if latest is None:
        return None
    for status in pod.status.container_statuses or ():
        running = status.state.running if status.state else None
        if running and running.started_at and running.started_at > latest:
            latest = running.started_at
    notes = pod.metadata.annotations or {}
    saved = (_instant(notes[key]) for key in (names.CHECKPOINT_AT, names.CHECKPOINT_DONE) if key in notes)
    return max([microseconds(latest), *(instant for instant in saved if instant is not None)])


def _started(pod: Pod) -> datetime | None:
    """When the first container with GPUs began to run; if none runs, when the kubelet accepted the pod."""
    running = [
        (status.name, status.state.running.started_at)
        for status in pod.status.container_statuses or ()
        if status.state and status.state.running and status.state.running.started_at
    ]
    if not running:
        return pod.status.start_time
    try:
        working = {need.name for need in container_needs(pod)}
    except QuantityError:
        working = set()
    return min((start for name, start in running if name in working), default=pod.status.start_time)


def _instant(text: str | None) -> int | None:
    if not text:
        return None
    try:
        found = msgspec.convert(text.strip(), datetime, strict=False)
    except msgspec.ValidationError:
        return None
    # Without a time zone the instant is ambiguous: it is ignored.
    return microseconds(found) if found.tzinfo is not None else None
