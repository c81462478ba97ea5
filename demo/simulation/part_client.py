"""The API server as one part reaches it: late events, no answer at all, a death in the middle of a call."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from threading import Event
from typing import Any, Generic, Protocol, TypeVar

from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Request, Unreachable
from cluster.kube.interface import EVERYTHING, FROM_NOW, Kube, Page, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import Resource, T
from demo.simulation.maker import FOLLOWED

R = TypeVar("R")


class Killed(BaseException):
    """The process is dead."""


class Caller(Protocol):
    """Who calls: ``part.Part``."""

    skew: float
    latency: float
    delivers_at_once: bool

    def lag_of(self, plural: str) -> float:
        """Seconds that its events of a kind come late."""
        ...

    def calling(self) -> AbstractContextManager[object]:
        """Inside, what is written is written by it."""
        ...

    def before(self, call: str) -> None:
        """It is about to ask; raises ``Killed`` or ``Unreachable``."""
        ...

    def done(self, call: str) -> None:
        """It has been done, the answer is not read yet; raises ``Killed``."""
        ...


class PartClock:
    """The clock of one machine. Nobody waits on it: the world's loop does what is due."""

    def __init__(self, clock: FakeClock, part: Caller) -> None:
        self._clock = clock
        self._part = part

    def now(self) -> datetime:
        """As this machine believes."""
        return self._clock.now() + timedelta(seconds=self._part.skew)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return self._clock.monotonic()

    def wait(self, event: Event, _seconds: float) -> bool:
        """Whether the event is set."""
        return event.is_set()


class Tap(Generic[T]):
    """A watch that is read as far as its events have arrived; the next round goes on where this one ended."""

    def __init__(self, watch: Any, clock: FakeClock, part: Caller, plural: str) -> None:
        self.watch = watch
        self.last_event_at = clock.monotonic()
        """When the newest events arrived."""
        self._clock = clock
        self._part = part
        self._plural = plural
        self._sent: deque[tuple[float, WatchEvent[T] | ApiError]] = deque()

    def collect(self, *, is_answer: bool = False) -> None:
        """What is there was sent now; the answer to a question has arrived with it."""
        now = -math.inf if is_answer else self._clock.monotonic()
        try:
            self._sent.extend((now, event) for event in self.watch.ready())
        except ApiError as error:
            self._sent.append((now, error))

    def lose(self, error: ApiError) -> None:
        """What was sent is lost: the watch ends with an error."""
        self._sent.clear()
        self._sent.append((self._clock.monotonic(), error))

    @property
    def next(self) -> float | None:
        """When the next events arrive."""
        late = self._part.latency + self._part.lag_of(self._plural)
        return self._sent[0][0] + late if self._sent else None

    def is_due(self, *, at_once: bool = False) -> bool:
        """Whether events have arrived."""
        return bool(self._sent) and (at_once or (self.next or 0.0) <= self._clock.monotonic() + 1e-9)

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """What has arrived."""
        while self.is_due(at_once=self._part.delivers_at_once):
            _, event = self._sent.popleft()
            if isinstance(event, ApiError):
                raise event
            self.last_event_at = self._clock.monotonic()
            yield event

    def close(self) -> None:
        """Nothing: it is only the end of a round."""


class PartKube:
    """One part's client."""

    def __init__(self, kube: FakeKube, clock: FakeClock, part: Caller, *, user: str) -> None:
        self._as_user: Kube = kube.as_user(user)
        self._clock = clock
        self._part = part
        self._has_answer = False
        self.taps: dict[tuple[str, type, Selection], Tap[Any]] = {}
        """Of every kind and selection, the newest watch."""

    def skew(self) -> timedelta | None:
        """The API server's clock minus ours, once it has answered; a clock that is set is noticed."""
        return timedelta(seconds=-self._part.skew) if self._has_answer else None

    def staleness(self) -> float:
        """Seconds since the oldest of the caches by which it decides had events; 0 where it has none."""
        last_events = [tap.last_event_at for (plural, _, _), tap in self.taps.items() if plural in FOLLOWED]
        return max((self._clock.monotonic() - at for at in last_events), default=0.0)

    def hang_up(self) -> None:
        """The process is gone, and its connections with it."""
        for tap in self.taps.values():
            tap.watch.close()
        self.taps.clear()

    def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, within: float | None = None
    ) -> T:
        """Read one."""
        path = resource.path(namespace, name)
        return self._do(
            "GET", path, lambda: self._as_user.get(resource, name, namespace=namespace, within=within)
        )

    def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> Page[T]:
        """Read some."""
        path = resource.path(selection.namespace)
        return self._do(
            "LIST", path, lambda: self._as_user.list(resource, selection, limit=limit, continue_=continue_)
        )

    def watch(
        self, resource: Resource[T], selection: Selection = EVERYTHING, options: WatchOptions = FROM_NOW
    ) -> Tap[T]:
        """Begin to follow, or go on with it."""
        key = (resource.plural, resource.type, selection)
        known = self.taps.get(key)
        if known is not None and not options.initial_events:
            return known

        def begin() -> Tap[T]:
            watch = self._as_user.watch(resource, selection, options)
            tap: Tap[T] = Tap(watch, self._clock, self._part, resource.plural)
            tap.collect(is_answer=True)
            return tap

        if known is not None:
            known.watch.close()
        self.taps[key] = self._do("WATCH", resource.path(selection.namespace), begin)
        return self.taps[key]

    def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create one."""
        path = resource.path(namespace) + ("?dryRun=All" if dry_run else "")
        return self._do(
            "POST", path, lambda: self._as_user.create(resource, body, namespace=namespace, dry_run=dry_run)
        )

    def create_subresource(
        self,
        resource: Resource[T],
        subresource: str,
        body: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None = None,
        within: float | None = None,
        answered: float | None = None,
        dry_run: bool = False,
    ) -> None:
        """Bind, evict."""
        self._do(
            "POST",
            resource.path(namespace, name, subresource),
            lambda: self._as_user.create_subresource(
                resource,
                subresource,
                body,
                name=name,
                namespace=namespace,
                within=within,
                answered=answered,
                dry_run=dry_run,
            ),
        )

    def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Change one."""
        return self._do(
            "PATCH",
            resource.path(namespace, name, subresource) + ("?dryRun=All" if dry_run else ""),
            lambda: self._as_user.patch(
                resource, name, body, namespace=namespace, subresource=subresource, dry_run=dry_run
            ),
        )

    def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete one."""
        self._do(
            "DELETE",
            resource.path(namespace, name),
            lambda: self._as_user.delete(
                resource,
                name,
                namespace=namespace,
                uid=uid,
                resource_version=resource_version,
                grace_seconds=grace_seconds,
            ),
        )

    def _do(self, verb: str, path: str, call: Callable[[], R]) -> R:
        request = f"{verb} {path}"
        self._part.before(request)
        try:
            with self._part.calling():
                answer = call()
        except ApiError as error:
            if not isinstance(error, Unreachable):
                self._answered()
            raise
        self._answered()
        self._part.done(request)
        return answer

    def _answered(self) -> None:
        self._has_answer = True


def no_answer(call: str) -> Unreachable:
    """The error of a part that cannot reach the API server."""
    verb, _, path = call.partition(" ")
    return Unreachable(Request(verb, path), "connection refused")
