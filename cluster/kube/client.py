"""The real ``Kube``: typed requests over ``cluster.kube.transport``.

Reads are retried, with growing and jittered pauses, if the server was unreachable, failed or was overloaded.
Writes are sent once: after a lost answer only the caller knows whether to write again.
"""

import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec
import structlog

from cluster.kube.backoff import Backoff
from cluster.kube.connection import ApiServerAccess
from cluster.kube.errors import (
    Conflict,
    Malformed,
    Request,
    ServerError,
    TooManyRequests,
    Unprocessable,
    Unreachable,
    refusal_of,
    refused,
)
from cluster.kube.interface import EVERYTHING, FROM_NOW, Change, Page, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import Resource, T
from cluster.kube.transport import CONNECTIONS, Call, Stream, Timeouts, Transport
from cluster.objects.meta import ListMeta, Partial, ready
from cluster.process.clock import Clock

MERGE_PATCH: Final = "application/merge-patch+json"
READ_ATTEMPTS: Final = 4
LONGEST_READ_SECONDS: Final = 10.0
"""A read does not try again after this time."""
FIRST_PAUSE: Final = 0.2
"""Seconds between the first two attempts."""
LONGEST_PAUSE: Final = 5.0
"""Seconds, even if the server asks for more."""

log = structlog.get_logger(__name__)


@ready
class _ListBody(Partial, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


@ready
class _Frame(Partial, frozen=True):
    """One line of a watch. Its object is not decoded yet: the type decides what it is."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class KubeClient:
    """The API server over HTTP. Safe for many threads."""

    def __init__(
        self,
        connection: ApiServerAccess,
        clock: Clock,
        *,
        user_agent: str,
        timeouts: Timeouts | None = None,
        connections: int = CONNECTIONS,
        read_attempts: int = READ_ATTEMPTS,
    ) -> None:
        """Connects with the first request.

        Args:
            connection: the server's address, and our credentials.
            clock: to compare the server's clock with ours.
            user_agent: ``component/version``; the component becomes the field manager of our writes.
            timeouts: per request; a watch has its own.
            connections: number of connections to keep for simultaneous requests.
            read_attempts: maximum number of attempts to read.
        """
        self._clock = clock
        self._closed = threading.Event()
        self._read_attempts = read_attempts
        self._transport = Transport(
            connection,
            clock,
            user_agent=user_agent,
            timeouts=timeouts or Timeouts(),
            connections=connections,
        )

    def skew(self) -> timedelta | None:
        """The API server's clock minus ours, to the second, by its last answer (law L6); None before any."""
        return self._transport.skew()

    def close(self) -> None:
        """Close idle connections; a read that waits for its next attempt gives up."""
        self._closed.set()
        self._transport.close()

    def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, within: float | None = None
    ) -> T:
        """Read one object; see ``Kube``."""
        path = resource.path(namespace, name)
        call = Call(verb="GET", path=path, within=within, answered=within, is_brief=True)
        body = self._read(call) if within is None else self._transport.send(call)
        return _decode(call.request, body, resource.type)

    def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> Page[T]:
        """Read a page; see ``Kube``."""
        query = _selecting(selection) + _given(limit=limit, **{"continue": continue_})
        call = Call(verb="GET", path=resource.path(selection.namespace), query=query)
        body = _decode(call.request, self._read(call), _ListBody)
        return Page(
            items=tuple(_decode(call.request, item, resource.type) for item in body.items or ()),
            resource_version=body.metadata.resource_version,
            continue_=body.metadata.continue_ or None,
        )

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        options: WatchOptions = FROM_NOW,
    ) -> "HttpWatch[T]":
        """Follow changes; see ``Kube``. Not retried: only the caller knows from where to resume."""
        streamed = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            *(streamed if options.initial_events else ()),
            *_selecting(selection),
            *_given(resourceVersion=options.resource_version, timeoutSeconds=options.timeout_seconds),
        )
        call = Call(verb="GET", path=resource.path(selection.namespace), query=query)
        return HttpWatch(
            self._transport.stream(call, silence=options.silence_seconds), call.request, resource
        )

    def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object; see ``Kube``."""
        call = Call(
            verb="POST",
            path=resource.path(namespace),
            query=_storing(dry_run=dry_run),
            body=_whole(resource, body),
            is_brief=True,
        )
        return self._write(call, resource)

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
        """Post to a subresource; see ``Kube``."""
        self._transport.send(
            Call(
                verb="POST",
                path=resource.path(namespace, name, subresource),
                query=_storing(dry_run=dry_run),
                body=msgspec.json.encode(body),
                within=within,
                answered=answered,
                is_brief=True,
            )
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
        """Merge-patch an object; see ``Kube``."""
        call = Call(
            verb="PATCH",
            path=resource.path(namespace, name, subresource),
            query=_storing(dry_run=dry_run),
            body=msgspec.json.encode(body),
            content_type=MERGE_PATCH,
            is_brief=True,
        )
        try:
            return self._write(call, resource)
        except Unprocessable as error:
            # A resourceVersion that does not match is a 409, but a uid that does not is a 422.
            if _is_about_uid(error):
                raise Conflict(error.request, error.refusal) from error
            raise

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
        """Delete an object; see ``Kube``."""
        preconditions = dict(_given(uid=uid, resourceVersion=resource_version))
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = resource.path(namespace, name)
        body = msgspec.json.encode(options)
        self._transport.send(Call(verb="DELETE", path=path, body=body, is_brief=True))

    def _read(self, call: Call) -> bytes:
        until = self._clock.monotonic() + LONGEST_READ_SECONDS
        backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        for _ in range(self._read_attempts - 1):
            try:
                return self._transport.send(call)
            except (Unreachable, ServerError, TooManyRequests) as error:
                pause = _requested_pause(error) or backoff.next()
                if self._clock.monotonic() + pause > until:
                    raise
                log.info("a read of the API server is tried again", error=str(error), in_seconds=pause)
                if self._clock.wait(self._closed, pause):
                    raise
        return self._transport.send(call)

    def _write(self, call: Call, resource: Resource[T]) -> T:
        return _decode(call.request, self._transport.send(call), resource.type)


class HttpWatch(Generic[T]):
    """A running watch over HTTP."""

    def __init__(self, stream: Stream, request: Request, resource: Resource[T]) -> None:
        self._stream = stream
        self._request = request
        self._resource = resource

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """The events; see ``Kube``."""
        for line in self._stream.lines():
            frame = _decode(self._request, line, _Frame)
            if frame.type == "ERROR":
                raise refused(self._request, refusal_of(0, bytes(frame.object)))
            change = _CHANGES.get(frame.type)
            if change is None:
                raise Malformed(self._request, f"an event of the unknown type {frame.type!r}")
            yield WatchEvent(change, _decode(self._request, frame.object, self._resource.type))

    def close(self) -> None:
        """Close the connection: iterating over the watch ends."""
        self._stream.close()


_CHANGES: dict[str, Change] = {change: change for change in get_args(Change)}


def _is_about_uid(error: Unprocessable) -> bool:
    causes = error.refusal.details.get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _requested_pause(error: Exception) -> float | None:
    """Seconds that the server asks us to wait, at most ``LONGEST_PAUSE``; None if it asks for none."""
    seconds = error.retry_after if isinstance(error, TooManyRequests) else None
    return min(seconds, LONGEST_PAUSE) if seconds else None


_D = TypeVar("_D")


def _decode(request: Request, body: bytes | msgspec.Raw, into: type[_D]) -> _D:
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.MsgspecError as error:
        raise Malformed(request, str(error)) from error


def _whole(resource: Resource[T], body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, **body})


def _selecting(selection: Selection) -> tuple[tuple[str, str], ...]:
    return _given(fieldSelector=selection.field_selector, labelSelector=selection.label_selector)


def _storing(*, dry_run: bool) -> tuple[tuple[str, str], ...]:
    return (("dryRun", "All"),) if dry_run else ()


def _given(**parameters: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in parameters.items() if value is not None)
