"""The calls to the API server that the parts use: the interface ``Kube``.

``cluster.kube.client.KubeClient`` is the real client, ``cluster.fake`` has one for a server in memory. Every
method raises the errors of ``cluster.kube.errors`` and no others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol

from cluster.kube.resources import Resource, T

WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
"""The types of watch events; a bookmark has only a resourceVersion (and annotations)."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a streamed list (KEP-3157)."""


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """A change of an object, or a bookmark, as the API server reports it."""

    type: WatchEventType
    object: T


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list."""

    items: tuple[T, ...]
    resource_version: str
    continue_: str | None = None
    """Token for the next page; None on the last."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The objects that a list or a watch selects."""

    namespace: str | None = None
    """None for all namespaces."""
    field_selector: str | None = None
    label_selector: str | None = None


EVERYTHING: Final = Selection()


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Options of a watch."""

    resource_version: str | None = None
    """Send the events after this version; None: first the present objects as ADDED, then what follows."""
    initial_events: bool = False
    """Send the present objects first, then the bookmark ``INITIAL_EVENTS_END`` (KEP-3157)."""
    timeout_seconds: int = 300
    """After this the server ends the watch normally."""
    silence_seconds: float = 70.0
    """Without a byte for this long the connection counts as dead (bookmarks come about every minute)."""


FROM_NOW: Final = WatchOptions()


class Watch(Protocol[T]):
    """A running watch: iterate over it; ``close`` ends it from any thread."""

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """The events as they come; ends when the server ends the watch or after ``close``.

        Raises:
            Gone: the resourceVersion is too old.
            Unreachable: silence, or the connection broke.
            ApiError: another ERROR event, or an unreadable event.
        """
        ...

    def close(self) -> None:
        """End the watch: a thread that is waiting in the iteration leaves it. May be called again."""
        ...


class Kube(Protocol):
    """The API server as the parts use it."""

    def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, within: float | None = None
    ) -> T:
        """Read one object.

        Args:
            resource: its kind.
            name: its name.
            namespace: its namespace.
            within: seconds from now within which the first and only attempt must be answered; None: a read
                that fails is retried for some seconds.

        Raises:
            NotFound: there is no such object.
            Unreachable: no answer, or none in time.
        """
        ...

    def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> Page[T]:
        """Read objects, all at once or a page of at most ``limit``.

        Raises:
            Gone: the continue token is too old; start over.
        """
        ...

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        options: WatchOptions = FROM_NOW,
    ) -> Watch[T]:
        """Follow changes.

        Raises:
            Unprocessable: ``initial_events`` was set, but the server does not stream lists.
            Gone: the resourceVersion is too old (also raised by the iteration).
        """
        ...

    def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object; returns it as the server stored it. ``apiVersion`` and ``kind`` are filled in.

        A dry run does everything but store it: admission, quota, validation.

        Raises:
            Conflict: it exists already.
        """
        ...

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
        """Post to a subresource, e.g. ``binding`` or ``eviction`` of a pod.

        Args:
            resource: the object's kind.
            subresource: its name.
            body: the body to post.
            name: the object's name.
            namespace: the object's namespace.
            within: seconds from now within which it is sent, or not at all; None for no limit.
            answered: seconds from now to wait for an answer; None for the usual timeout.
            dry_run: have it checked, by admission too, and change nothing.

        Raises:
            Conflict: a precondition in the body does not hold, or the pod is bound already.
            Unsent: there was no connection in time.
            Unreachable: no answer, or none in time: whether it has happened is unknown.
        """
        ...

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
        """Change an object by a JSON merge patch (RFC 7386); returns the result.

        ``metadata.uid`` and ``metadata.resourceVersion`` in the body are preconditions. A dry run does
        everything but store it: preconditions, admission, validation.

        Raises:
            Conflict: a precondition does not hold.
        """
        ...

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
        """Delete an object, if it has this uid and resourceVersion; None for any.

        Raises:
            Conflict: its uid or resourceVersion differs.
            NotFound: there is no such object.
        """
        ...
