"""Keeps a handler equal to the API server's objects of one kind: list, then watch, indefinitely.

The caches of the extender and the node agent are fed by this. It streams the list (KEP-3157) and falls back
to pages if the server does not offer that. Its guarantees to the handler: ``replace`` has the complete state
of one instant; every later change arrives once, in order; whenever a change could have been missed, there is
another ``replace``. A deletion during a gap shows as absence from that ``replace``.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog

from cluster.kube.backoff import Backoff, Random, unpredictable
from cluster.kube.errors import ApiError, BadRequest, Gone, Request, Unprocessable, Unreachable
from cluster.kube.interface import INITIAL_EVENTS_END, Kube, Selection, Watch, WatchEvent, WatchOptions
from cluster.kube.resources import Object, Resource, T
from cluster.process.clock import Clock
from cluster.process.stop_events import call_at, nothing

log = structlog.get_logger(__name__)

_Object_contra = TypeVar("_Object_contra", bound=Object, contravariant=True)
_Argument = TypeVar("_Argument")


class Handler(Protocol[_Object_contra]):
    """Takes the objects. Called by the reflector's thread only; an exception leads to a new ``replace``."""

    def replace(self, items: Sequence[_Object_contra], version: str, /) -> None:
        """The complete state at this resourceVersion: an object that is not among the items did not exist.

        A handler that also reads single objects may know a newer state of one than this list has.
        """
        ...

    def upsert(self, obj: _Object_contra, /) -> None:
        """The object is new or has changed. A known state may be repeated."""
        ...

    def remove(self, obj: _Object_contra, /) -> None:
        """The object is gone, or no longer selected; this was its last state."""
        ...


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Settings of a reflector's requests; the defaults are for production."""

    stream: bool = True
    """Try a streamed list first; False for pages from the start."""
    page_size: int = 500
    watch_seconds: tuple[float, float] = (240.0, 480.0)
    """The server ends a watch after a random time between these, so that not all watches end together."""
    silence_seconds: float = 70.0
    """A watch without a byte for this long is dead: bookmarks come about every minute."""
    shortest_watch: float = 1.0
    """A watch that ends sooner without any event counts as failed."""
    random: Random = field(default_factory=unpredictable)


class _HandlerError(Exception):
    """The handler raised; its state is unknown."""


class Reflector(Generic[T]):
    """Keeps one handler current. ``run`` is the body of a thread."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource[T],
        handler: Handler[T],
        clock: Clock,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        tuning: Tuning | None = None,
        give_way: Callable[[], None] = nothing,
    ) -> None:
        """Args: give_way: called before each event; may wait while more urgent work is done."""
        self._kube = kube
        self._resource = resource
        self._handler = handler
        self._clock = clock
        self._selection = Selection(
            namespace=namespace, field_selector=field_selector, label_selector=label_selector
        )
        self._tuning = tuning or Tuning()
        self._give_way = give_way
        self._backoff = Backoff(random=self._tuning.random)
        self._streams = self._tuning.stream
        self._version: str | None = None
        self._last_event_at: float | None = None
        self._is_synced = False
        self.on_list: Callable[[], None] = nothing
        """Called by the reflector's thread after each list that the handler has taken."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watch: Watch[T] | None = None
        self._lists = 0
        self._opened = False
        """Whether the watch of this round was open."""
        self._log = log.bind(kind=resource.kind)

    @property
    def resource(self) -> Resource[T]:
        """The kind that it follows."""
        return self._resource

    @property
    def selection(self) -> Selection:
        """Which objects of the kind it follows."""
        return self._selection

    @property
    def lists(self) -> int:
        """Number of lists that the handler has taken."""
        return self._lists

    @property
    def is_synced(self) -> bool:
        """Whether the handler has taken a list; False again only after the handler failed."""
        return self._is_synced

    def staleness(self) -> float | None:
        """Seconds since the last list, event or bookmark; None before the first list (law L6)."""
        last = self._last_event_at
        return None if last is None else self._clock.monotonic() - last

    def run(self, stop: threading.Event) -> None:
        """List and watch until ``stop`` is set; returns soon after it is, even while the watch is silent."""
        self._stop = stop
        call_at(stop, self._close)
        while not stop.is_set():
            delay = self.round()
            if delay is not None:
                self._clock.wait(stop, delay)

    def _close(self) -> None:
        with self._lock:
            if self._watch is not None:
                self._watch.close()

    def round(self) -> float | None:
        """One list if necessary, else one watch. Returns the seconds to wait then; None for no wait."""
        self._opened = False
        try:
            if self._version is not None:
                return self._follow(self._version)
            self._list()
        except Gone as error:
            if self._version is not None:
                # The server answers again, so its outage is over, and only a list is needed.
                self._backoff.reset()
            self._version = None
            self._log.info("the resource version is too old, listing again", error=str(error))
        except ApiError as error:
            if self._was_silent():
                self._version = None
            if not self._stop.is_set():
                self._log.warning("listing or watching failed, trying again", error=str(error))
        except _HandlerError as error:
            self._version = None
            self._is_synced = False
            self._log.error("handling an event failed, listing again", exc_info=error.__cause__)
        else:
            return None
        return self._backoff.next()

    def _was_silent(self) -> bool:
        """Whether nothing has come for so long that only another list shows that nothing has changed.

        API servers of 1.32 send no bookmarks for a kind that has not changed since they started.
        """
        staleness = self.staleness()
        return self._opened and staleness is not None and staleness >= self._tuning.silence_seconds

    def _list(self) -> None:
        if self._streams:
            try:
                self._list_by_stream()
            except (BadRequest, Unprocessable) as error:
                self._log.info("the API server does not stream lists: listing in pages", error=str(error))
                self._streams = False
            else:
                return
        self._list_by_pages()

    def _list_by_pages(self) -> None:
        items: list[T] = []
        token: str | None = None
        while not self._stop.is_set():
            page = self._kube.list(
                self._resource, self._selection, limit=self._tuning.page_size, continue_=token
            )
            self._give_way()
            items += page.items
            token = page.continue_
            if token is None:
                self._replace(items, page.resource_version)
                return

    def _list_by_stream(self) -> None:
        """Read the initial events up to their end mark, then continue with the same watch."""
        items: dict[str, T] = {}
        with self._watching(self._options(initial_events=True)) as events:
            for event in events:
                self._give_way()
                if self._version is not None:
                    self._apply(event)
                elif event.type == "BOOKMARK":
                    if _ends_initial_events(event.object):
                        self._replace(_taken(items), event.object.metadata.resource_version)
                elif event.type == "DELETED":
                    items.pop(event.object.metadata.uid, None)
                else:
                    items[event.object.metadata.uid] = event.object
        if self._version is None:
            path = self._resource.path(self._selection.namespace)
            raise Unreachable(Request("WATCH", path), "the streamed list ended before its end was marked")

    def _follow(self, version: str) -> float | None:
        started, brought = self._clock.monotonic(), False
        with self._watching(self._options(resource_version=version)) as events:
            for event in events:
                brought = True
                self._give_way()
                self._apply(event)
        lasted = self._clock.monotonic() - started
        return None if brought or lasted >= self._tuning.shortest_watch else self._backoff.next()

    def _options(self, *, resource_version: str | None = None, initial_events: bool = False) -> WatchOptions:
        return WatchOptions(
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_seconds=int(self._tuning.random.uniform(*self._tuning.watch_seconds)),
            silence_seconds=self._tuning.silence_seconds,
        )

    @contextmanager
    def _watching(self, options: WatchOptions) -> Iterator[Watch[T]]:
        self._opened = False
        watch = self._kube.watch(self._resource, self._selection, options)
        self._opened = True
        with self._lock:
            self._watch = watch
            if self._stop.is_set():
                watch.close()
        try:
            yield watch
        finally:
            with self._lock:
                self._watch = None
            watch.close()

    def _replace(self, items: Sequence[T], version: str) -> None:
        self._notify(lambda whole: self._handler.replace(whole, version), items)
        self._touch(version)
        self._lists += 1
        self._is_synced = True
        self._log.info(
            "the cache is in sync with the API server", objects=len(items), resource_version=version
        )
        self.on_list()

    def _apply(self, event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            self._notify(self._handler.remove, event.object)
        elif event.type != "BOOKMARK":
            self._notify(self._handler.upsert, event.object)
        self._touch(event.object.metadata.resource_version)

    def _notify(self, call: Callable[[_Argument], None], what: _Argument) -> None:
        try:
            call(what)
        except Exception as error:
            raise _HandlerError from error

    def _touch(self, version: str) -> None:
        self._version = version
        self._last_event_at = self._clock.monotonic()
        self._backoff.reset()


def _taken(items: dict[str, T]) -> Sequence[T]:
    """Remove and return the objects: there are many, and the watch that read them runs for minutes."""
    taken = tuple(items.values())
    items.clear()
    return taken


def _ends_initial_events(bookmark: Object) -> bool:
    return bookmark.metadata.annotation(INITIAL_EVENTS_END) == "true"
