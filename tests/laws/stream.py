"""From five watches to one stream of changes: what followers see, in order, for the watcher of the laws."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from cluster.kube.resources import Object
from cluster.objects.meta import Meta
from cluster.process.clock import Clock
from tests.laws.broken import LawBrokenError
from tests.laws.changes import Change
from tests.laws.ordering import Ordering
from tests.laws.watcher import LawWatcher


@dataclass(frozen=True, slots=True)
class _Event:
    """One event of a watch."""

    plural: str
    obj: Object
    is_gone: bool
    instant: datetime


@dataclass(frozen=True, slots=True)
class _Listed:
    """A whole list: the writes that led to it are unknown."""

    plural: str
    items: tuple[Object, ...]


class Stream:
    """The listener of all followers. ``turn`` is called again and again by one thread."""

    def __init__(self, watcher: LawWatcher, clock: Clock) -> None:
        self._watcher = watcher
        self._clock = clock
        self._ordering = Ordering(watcher.kinds)
        self._lock = threading.RLock()
        self._listed: set[str] = set()
        self._down: set[str] = set()
        self._at: datetime | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every kind has been listed."""
        return self._listed == set(self._watcher.kinds)

    @property
    def seen_until(self) -> datetime:
        """Up to which instant the watcher has seen what happened: now, unless it has fallen behind."""
        return self._at or self._clock.now()

    def has_passed_on(self, version: int) -> bool:
        """Whether everything that came up to this version has reached the watcher."""
        with self._lock:
            return self._ordering.has_let_out(version)

    # --- what followers report -------------------------------------------------------------------------
    def listed(self, plural: str, items: tuple[Object, ...], version: int) -> None:
        """Every object of a kind as of this version."""
        with self._lock:
            self._listed.add(plural)
            self._ordering.put(plural, version, _Listed(plural, items), self._clock.monotonic())

    def changed(self, plural: str, obj: Object, *, is_gone: bool) -> None:
        """One object is new, has changed, or is gone."""
        with self._lock:
            event = _Event(plural, obj, is_gone, self._clock.now())
            if not self._ordering.put(plural, _version(obj.metadata), event, self._clock.monotonic()):
                self._watcher.note(f"what follows came late: {plural} {obj.metadata.name}")

    def is_up(self, plural: str) -> None:
        """A watch is there."""
        with self._lock:
            self._ordering.up(plural, self._clock.monotonic())
            if plural in self._down:
                self._down.discard(plural)
                self._watcher.fault(f"{plural} are watched again")

    def is_down(self, plural: str, why: str) -> None:
        """A watch is broken."""
        with self._lock:
            self._ordering.down(plural)
            if plural not in self._down:
                self._down.add(plural)
                self._watcher.fault(f"{plural} cannot be watched: {why}")

    # --- what the watcher receives ---------------------------------------------------------------------
    def turn(self) -> None:
        """Let out all that is ready. A law that is broken is remembered by the watcher."""
        with self._lock:
            ready = [*self._ordering.ready(self._clock.monotonic())]
        if not ready:
            self._at = None
        for event in ready:
            if isinstance(event, _Listed):
                self._watcher.know(event.plural, event.items)
                continue
            self._at = event.instant
            for change in self._changes(event):
                with suppress(LawBrokenError):
                    self._watcher.see(change)

    def _changes(self, event: _Event) -> Iterator[Change]:
        """The change that an event is; a deletion may show the beginning of the termination as well."""
        known: Object | None = self._watcher.known(event.plural, event.obj)
        meta = event.obj.metadata
        if known is not None and _version(meta) <= _version(known.metadata):
            return  # a list has shown it already
        if not event.is_gone:
            yield _change(event, known, event.obj)
        elif known is not None:
            if meta.deletion_timestamp and not known.metadata.deletion_timestamp:
                yield _change(event, known, event.obj)
            yield _change(event, event.obj, None)


def _change(event: _Event, before: Object | None, after: Object | None) -> Change:
    return Change(
        plural=event.plural,
        before=before,
        after=after,
        version=_version(event.obj.metadata),
        instant=event.instant,
    )


def _version(meta: Meta) -> int:
    return int(meta.resource_version)
