"""Watches: the effect of a change on the watch of a selection, and where a watch resumes.

As on the real server a watch without a resourceVersion begins with the present objects, and one with a
version that history no longer has ends with 410. An object that comes into a selection is ADDED, one that
leaves it is DELETED (with the last state that was selected and the version of the change). Only tests send
bookmarks and end watches.
"""

import queue
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final, Generic

import msgspec

from cluster.fake.errors import refusal
from cluster.fake.history import StoredChange
from cluster.fake.kinds import PODS
from cluster.fake.selecting import Selector, selector_of
from cluster.fake.state import Json
from cluster.fake.store import Store
from cluster.kube.errors import ApiError, Request
from cluster.kube.interface import INITIAL_EVENTS_END, Selection, WatchEvent, WatchEventType, WatchOptions
from cluster.kube.resources import Resource, T

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class FakeWatch(Generic[T]):
    """One watch, from its start to its end, as a client sees it."""

    def __init__(
        self, resource: Resource[T], selector: Selector, ended: "Callable[[FakeWatch[T]], None]"
    ) -> None:
        self.resource = resource
        self._selector = selector
        self._ended = ended
        self.over = False
        """Whether its end has been read."""
        self._events: queue.SimpleQueue[WatchEvent[T] | ApiError | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """The events as they come."""
        while not self.over:
            yield from self._next()

    def ready(self) -> Iterator[WatchEvent[T]]:
        """The events that have come, without waiting for more: for callers without a thread to wait in."""
        while not (self.over or self._events.empty()):
            yield from self._next()

    def close(self) -> None:
        """End the watch, as its client."""
        self._ended(self)
        self.end(None)

    def end(self, error: ApiError | None) -> None:
        """End the watch, as the server: normally (None), or with an error."""
        self._events.put(error)

    def _next(self) -> Iterator[WatchEvent[T]]:
        """The next event; nothing at the end."""
        event = self._events.get()
        self.over = not isinstance(event, WatchEvent)
        if isinstance(event, ApiError):
            raise event
        if event is not None:
            yield event

    def notify(self, change: StoredChange) -> None:
        """Send the event that a change means for this selection, if any."""
        if change.plural != self.resource.plural:
            return
        was = change.was is not None and self._selector.selects(change.was.obj)
        now = change.now is not None and self._selector.selects(change.now.obj)
        if now and change.now is not None:
            self.send("MODIFIED" if was else "ADDED", change.now.typed(self.resource))
        elif was and change.was is not None:
            last = change.was.copy()
            last["metadata"]["resourceVersion"] = str(change.version)
            self.send("DELETED", msgspec.convert(last, self.resource.type))

    def send(self, kind: WatchEventType, obj: T) -> None:
        """Put an event into the stream."""
        self._events.put(WatchEvent(kind, obj))

    def bookmark(self, version: int, annotations: Mapping[str, str] = _NONE) -> None:
        """Send a bookmark: the empty object of the kind, which for a pod is one with ``containers: null``."""
        empty: Json = {"metadata": {"resourceVersion": str(version), "annotations": dict(annotations)}}
        if self.resource.plural == PODS:
            empty |= {"spec": {"containers": None}, "status": {}}
        self.send("BOOKMARK", msgspec.convert(empty, self.resource.type))


class Watches:
    """All watches that are running; each change of the store goes to those that select it."""

    def __init__(self, store: Store, lock: AbstractContextManager[object], *, streams_lists: bool) -> None:
        self._store = store
        self._lock = lock
        self._streams_lists = streams_lists
        self._running: list[FakeWatch[Any]] = []
        store.watches.append(self._notify)

    def __len__(self) -> int:
        return len(self._running)

    def begin(
        self, request: Request, resource: Resource[T], selection: Selection, options: WatchOptions
    ) -> FakeWatch[T]:
        """Start a watch; the first events, if ``options`` ask for any, are in it already."""
        selector = selector_of(request, resource.plural, selection)
        watch = FakeWatch(resource, selector, self._forget)
        if options.initial_events and not self._streams_lists:
            raise refusal(request, 422, "Invalid", "sendInitialEvents is forbidden for watch")
        if options.initial_events or options.resource_version is None:
            for state in self._store.select(resource.plural, selector):
                watch.send("ADDED", state.typed(resource))
            if options.initial_events:
                watch.bookmark(self._store.version, {INITIAL_EVENTS_END: "true"})
        elif (since := int(options.resource_version)) < (oldest := self._store.history.oldest):
            watch.end(refusal(request, 410, "Expired", f"too old resource version: {since} ({oldest})"))
            return watch
        else:
            for change in self._store.history.since(since):
                watch.notify(change)
        self._running.append(watch)
        return watch

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        for watch in self._running:
            watch.bookmark(self._store.version)

    def end(self, error: ApiError | None) -> None:
        """End every watch, normally (None) or with an error."""
        for watch in self._running:
            watch.end(error)
        self._running.clear()

    def _notify(self, change: StoredChange) -> None:
        for watch in self._running:
            watch.notify(change)

    def _forget(self, watch: FakeWatch[T]) -> None:
        with self._lock:
            self._running = [other for other in self._running if other is not watch]
