"""An API server in memory behind the port ``Kube``.

Like the real one it counts resourceVersions, guards writes by uid and resourceVersion, merges a Binding's
annotations into the pod, keeps a terminating pod until its kubelet (``finish``) lets go, and replays what a
watch has missed. Tests set objects up with ``put``, make calls fail with ``fail`` and ``down``, and read
``calls``.
"""

import copy
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic

import msgspec

from cluster.kube.errors import ApiError, Refusal, Request, StatusError, Unreachable, refused
from cluster.kube.port import (
    EVERYTHING,
    FROM_NOW,
    INITIAL_EVENTS_END,
    Change,
    Page,
    Selection,
    WatchEvent,
    WatchOptions,
)
from cluster.kube.resources import Resource, T
from cluster.runtime.clock import Clock
from tests.fakes.clock import FakeClock
from tests.fakes.merging import merged
from tests.fakes.selecting import selects

Json = dict[str, Any]
_Key = tuple[str, str, str]  # plural, namespace, name


@dataclass(frozen=True)
class Call:
    """What somebody asked of the API server."""

    verb: str
    path: str
    body: Json | None = None


@dataclass
class _News:
    """One change in the server's history."""

    version: int
    plural: str
    before: Json | None
    after: Json | None


@dataclass
class FakeWatch(Generic[T]):
    """A running watch of the fake."""

    resource: Resource[T]
    selection: Selection
    events: "queue.SimpleQueue[WatchEvent[T] | ApiError | None]" = field(default_factory=queue.SimpleQueue)

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """The events as they come."""
        while True:
            event = self.events.get()
            if event is None:
                return
            if isinstance(event, ApiError):
                raise event
            yield event

    def close(self) -> None:
        """End it."""
        self.events.put(None)

    def tell(self, news: _News) -> None:
        """Say what a change means to this selection: coming into it is ADDED, leaving it is DELETED."""
        was = news.before is not None and selects(self.selection, news.before)
        now = news.after is not None and selects(self.selection, news.after)
        if now and news.after is not None:
            self.send("MODIFIED" if was else "ADDED", news.after)
        elif was and news.before is not None:
            last = copy.deepcopy(news.after or news.before)
            last["metadata"]["resourceVersion"] = str(news.version)
            self.send("DELETED", last)

    def send(self, change: Change, obj: Json) -> None:
        """Send an event."""
        self.events.put(WatchEvent(change, msgspec.convert(obj, self.resource.type)))


class FakeKube:
    """The API server in memory. Safe for many threads."""

    def __init__(self, clock: Clock | None = None, *, streams_lists: bool = True) -> None:
        self._clock = clock or FakeClock()
        self._streams_lists = streams_lists
        self._lock = threading.RLock()
        self._objects: dict[_Key, Json] = {}
        self._history: list[_News] = []
        self._oldest = 0
        self._version = 100
        self._uids = itertools.count(1)
        self._watches: list[FakeWatch[Any]] = []
        self._faults: list[tuple[str, ApiError]] = []
        self._rivals: list[tuple[str, Callable[[], object]]] = []
        self.calls: list[Call] = []
        self.down = False
        """While true nobody gets an answer."""

    # --- the port --------------------------------------------------------------------------------------

    def get(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> T:
        """Read one object."""
        with self._asked("GET", resource.path(namespace, name)) as request:
            return _typed(resource, self._found(request, resource, namespace, name))

    def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> Page[T]:
        """Read a page; the token says how many were read already."""
        with self._asked("LIST", resource.path(selection.namespace)):
            items = self._selected(resource, selection)
            begin = int(continue_ or 0)
            end = begin + limit if limit else len(items)
            return Page(
                items=tuple(_typed(resource, item) for item in items[begin:end]),
                resource_version=str(self._version),
                continue_=str(end) if end < len(items) else None,
            )

    def watch(
        self, resource: Resource[T], selection: Selection = EVERYTHING, options: WatchOptions = FROM_NOW
    ) -> FakeWatch[T]:
        """Follow changes."""
        with self._asked("WATCH", resource.path(selection.namespace)) as request:
            watch = FakeWatch(resource, selection)
            since = int(options.resource_version or self._version)
            if options.initial_events:
                if not self._streams_lists:
                    raise _refusal(request, 422, "Invalid", "sendInitialEvents is forbidden for watch")
                for item in self._selected(resource, selection):
                    watch.send("ADDED", item)
                watch.send("BOOKMARK", self._bookmark({INITIAL_EVENTS_END: "true"}))
            elif since < self._oldest:
                gone = f"too old resource version: {since} ({self._oldest})"
                watch.events.put(_refusal(request, 410, "Expired", gone))
            else:
                for news in self._history:
                    if news.version > since and news.plural == resource.plural:
                        watch.tell(news)
            self._watches.append(watch)
            return watch

    def create(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str | None = None) -> T:
        """Create an object."""
        with self._asked("POST", resource.path(namespace), body) as request:
            obj = _plain(body)
            metadata = obj.setdefault("metadata", {})
            if not metadata.get("name"):
                metadata["name"] = f"{metadata['generateName']}{next(self._uids):05d}"
            if namespace is not None:
                metadata["namespace"] = namespace
            if _key(resource, namespace, metadata["name"]) in self._objects:
                exists = f'{resource.plural} "{metadata["name"]}" already exists'
                raise _refusal(request, 409, "AlreadyExists", exists)
            if resource.plural == "pods":
                obj.setdefault("status", {"phase": "Pending"})
            return _typed(resource, self._store(resource, obj))

    def create_subresource(
        self,
        resource: Resource[T],
        subresource: str,
        body: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None = None,
    ) -> None:
        """Bind or evict a pod."""
        with self._asked("POST", resource.path(namespace, name, subresource), body) as request:
            pod = self._found(request, resource, namespace, name)
            if subresource == "binding":
                _check(request, pod, _plain(body.get("metadata") or {}), "pods/binding")
                self._store(resource, _bound(request, pod, _plain(body)))
            elif subresource == "eviction":
                options = _plain(body.get("deleteOptions") or {})
                _check(request, pod, options.get("preconditions") or {}, "pods")
                self._remove(resource, pod, options.get("gracePeriodSeconds"))
            else:
                raise _refusal(request, 404, "NotFound", "the server could not find the requested resource")

    def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> T:
        """Merge-patch an object: the main resource without its status, or the status alone."""
        with self._asked("PATCH", resource.path(namespace, name, subresource), body) as request:
            before = self._found(request, resource, namespace, name)
            patch = _plain(body)
            _check(request, before, patch.get("metadata") or {}, resource.plural)
            of_status = subresource == "status"
            parts = {key: value for key, value in patch.items() if (key == "status") == of_status}
            after = merged(before, parts)
            after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            return _typed(resource, self._store(resource, after))

    def replace(
        self, resource: Resource[T], name: str, body: Mapping[str, Any], *, namespace: str | None = None
    ) -> T:
        """Put an object."""
        with self._asked("PUT", resource.path(namespace, name), body) as request:
            before = self._found(request, resource, namespace, name)
            after = _plain(body)
            _check(request, before, after.get("metadata") or {}, resource.plural)
            kept = {key: before["metadata"][key] for key in _SET_BY_SERVER if key in before["metadata"]}
            after["metadata"] = {"name": name, **(after.get("metadata") or {}), **kept}
            return _typed(resource, self._store(resource, after))

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
        """Delete an object; a bound pod only begins to end, unless the grace is 0."""
        with self._asked("DELETE", resource.path(namespace, name)) as request:
            obj = self._found(request, resource, namespace, name)
            _check(request, obj, {"uid": uid, "resourceVersion": resource_version}, resource.plural)
            self._remove(resource, obj, grace_seconds)

    # --- what a test does ------------------------------------------------------------------------------

    def put(self, resource: Resource[T], obj: Mapping[str, Any]) -> T:
        """Set an object up, status and all, whether it exists or not; no call is recorded."""
        with self._lock:
            return _typed(resource, self._store(resource, _plain(obj)))

    def finish(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> None:
        """Let an object vanish at once, as when a kubelet reports that a terminating pod has ended."""
        with self._lock:
            self._vanish(resource, self._objects[_key(resource, namespace, name)])

    def raw(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> Json:
        """An object as stored; no call is recorded."""
        with self._lock:
            return copy.deepcopy(self._objects[_key(resource, namespace, name)])

    def fail(self, verb: str, error: ApiError) -> None:
        """Make the next call of that verb (GET LIST WATCH POST PATCH PUT DELETE) fail without effect."""
        with self._lock:
            self._faults.append((verb, error))

    def before(self, verb: str, rival: Callable[[], object]) -> None:
        """Let somebody else act just before the next call of that verb: a race, every time."""
        with self._lock:
            self._rivals.append((verb, rival))

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        with self._lock:
            for watch in self._watches:
                watch.send("BOOKMARK", self._bookmark({}))

    def break_watches(self, error: ApiError | None = None) -> None:
        """End every watch: in good order, or with an error."""
        with self._lock:
            for watch in self._watches:
                watch.events.put(error)
            self._watches.clear()

    def forget_history(self) -> None:
        """Compact: no watch can begin at an older resourceVersion than the present one."""
        with self._lock:
            self._oldest = self._version
            self._history.clear()

    @property
    def watches(self) -> int:
        """How many watches were begun and not broken."""
        return len(self._watches)

    # --- inside ----------------------------------------------------------------------------------------

    @contextmanager
    def _asked(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Iterator[Request]:
        with self._lock:
            self.calls.append(Call(verb, path, None if body is None else _plain(body)))
            request = Request(verb, path)
            for waiting in self._rivals:
                if waiting[0] == verb:
                    self._rivals.remove(waiting)
                    waiting[1]()
                    break
            if self.down:
                raise Unreachable(request, "connection refused")
            for fault in self._faults:
                if fault[0] == verb:
                    self._faults.remove(fault)
                    raise fault[1]
            yield request

    def _found(self, request: Request, resource: Resource[T], namespace: str | None, name: str) -> Json:
        obj = self._objects.get(_key(resource, namespace, name))
        if obj is None:
            raise _refusal(request, 404, "NotFound", f'{resource.plural} "{name}" not found')
        return obj

    def _selected(self, resource: Resource[T], selection: Selection) -> tuple[Json, ...]:
        keys = sorted(key for key in self._objects if key[0] == resource.plural)
        return tuple(self._objects[key] for key in keys if selects(selection, self._objects[key]))

    def _store(self, resource: Resource[T], obj: Json) -> Json:
        metadata = obj.setdefault("metadata", {})
        for emptied in ("annotations", "labels", "finalizers"):
            if not metadata.get(emptied):
                metadata.pop(emptied, None)
        key = _key(resource, metadata.get("namespace"), metadata["name"])
        before = self._objects.get(key)
        if before is None:
            metadata.setdefault("uid", f"uid-{next(self._uids)}")
            metadata.setdefault("creationTimestamp", _text(self._clock))
        else:
            for kept in _SET_BY_SERVER:
                if kept in before["metadata"]:
                    metadata.setdefault(kept, before["metadata"][kept])
            if {
                **obj,
                "metadata": {**metadata, "resourceVersion": before["metadata"]["resourceVersion"]},
            } == before:
                return before
        if before is not None and _let_go(resource, obj):
            self._vanish(resource, obj)
            return obj
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        self._write(resource, obj)
        return obj

    def _write(self, resource: Resource[T], obj: Json) -> None:
        metadata = obj["metadata"]
        key = _key(resource, metadata.get("namespace"), metadata["name"])
        before = self._objects.get(key)
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self._objects[key] = obj
        self._publish(resource, before, obj)

    def _remove(self, resource: Resource[T], obj: Json, grace_seconds: int | None) -> None:
        ending = merged(obj, {"metadata": {"deletionTimestamp": _text(self._clock)}})
        if (_has_kubelet(resource, obj) and grace_seconds != 0) or obj["metadata"].get("finalizers"):
            self._store(resource, ending)
            return
        if resource.plural == "pods":
            self._write(resource, ending)
        self._vanish(resource, obj)

    def _vanish(self, resource: Resource[T], obj: Json) -> None:
        self._version += 1
        metadata = obj["metadata"]
        before = self._objects.pop(_key(resource, metadata.get("namespace"), metadata["name"]))
        self._publish(resource, before, None)

    def _publish(self, resource: Resource[T], before: Json | None, after: Json | None) -> None:
        news = _News(self._version, resource.plural, copy.deepcopy(before), copy.deepcopy(after))
        self._history.append(news)
        for watch in self._watches:
            if watch.resource.plural == resource.plural:
                watch.tell(news)

    def _bookmark(self, annotations: dict[str, str]) -> Json:
        return {"metadata": {"resourceVersion": str(self._version), "annotations": annotations}}


_SET_BY_SERVER = ("uid", "creationTimestamp", "namespace", "deletionTimestamp")


def _has_kubelet(resource: Resource[T], obj: Json) -> bool:
    return resource.plural == "pods" and bool((obj.get("spec") or {}).get("nodeName"))


def _let_go(resource: Resource[T], obj: Json) -> bool:
    """Whether a terminating object has nothing left that holds it."""
    metadata = obj["metadata"]
    ends = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
    return bool(ends) and not _has_kubelet(resource, obj)


def _key(resource: Resource[T], namespace: str | None, name: str) -> _Key:
    return (resource.plural, namespace or "", name)


def _typed(resource: Resource[T], obj: Json) -> T:
    return msgspec.convert(obj, resource.type)


def _plain(body: Mapping[str, Any]) -> Json:
    """A copy as it would come out of the wire."""
    plain: Json = msgspec.json.decode(msgspec.json.encode(body))
    return plain


def _text(clock: Clock) -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _refusal(request: Request, code: int, reason: str, message: str) -> StatusError:
    return refused(request, Refusal(code=code, reason=reason, message=message))


def _check(request: Request, obj: Json, wanted: Mapping[str, Any], what: str) -> None:
    """Refuse when uid or resourceVersion is not the one that is meant."""
    metadata = obj["metadata"]
    for key in ("uid", "resourceVersion"):
        if wanted.get(key) and wanted[key] != metadata[key]:
            message = (
                f'Operation cannot be fulfilled on {what} "{metadata["name"]}": Precondition failed: '
                f"{key} in precondition: {wanted[key]}, in object meta: {metadata[key]}"
            )
            raise _refusal(request, 409, "Conflict", message)


def _bound(request: Request, pod: Json, binding: Json) -> Json:
    """The pod as a Binding makes it: node and annotations in one write."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise _refusal(request, 422, "Invalid", "target.name: Required value")
    trouble = None
    if pod["metadata"].get("deletionTimestamp"):
        trouble = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        trouble = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        trouble = f"pod {name} has non-empty .spec.schedulingGates"
    if trouble:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {trouble}'
        raise _refusal(request, 409, "Conflict", message)
    metadata = binding.get("metadata") or {}
    kept = {key: metadata[key] for key in ("annotations", "labels") if metadata.get(key)}
    return merged(pod, {"metadata": kept, "spec": {"nodeName": node}})
