"""All objects of one kind, as they are now: filled by a reflector, read by decisions, extended by functions.

A kind needs no code of its own: what is derived from its objects is an index, a function from an object to a
value, and whoever keeps more about them is called for each change. All stores of a cache share one lock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Generic, TypeVar

from cluster.cache.fair_lock import FairLock
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.kube.resources import Resource, T
from cluster.process.stop_events import nothing

V = TypeVar("V")

Observer = Callable[[str, T | None, T | None], None]
"""Called with a key, the object that was kept under it, and what it is now; None for no object."""

ListObserver = Callable[[AbstractSet[str], str], None]
"""Called with the keys of all objects in a list, and the list's version."""


class Guard:
    """What the stores of one cache share: the lock, the versions that were reported, and who is notified."""

    def __init__(self, versioned: Iterable[Resource[Any]] = ()) -> None:
        """Args: versioned: the kinds whose versions are recorded."""
        self.lock: Final = FairLock()
        self.reached: Final[dict[str, str]] = {}
        """Kind -> the newest resourceVersion that was reported of it."""
        self.watchers: Final[list[Callable[[], None]]] = []
        self._versioned = frozenset(resource.plural for resource in versioned)

    def reach(self, resource: Resource[Any], version: str) -> None:
        """A version was reported of a kind."""
        kind = resource.plural
        if version and kind in self._versioned:
            known = self.reached.get(kind)
            if not known or version_is_older(known, version):
                self.reached[kind] = version

    def notify(self) -> None:
        """Something has changed."""
        for notify in self.watchers:
            notify()


class Index(Generic[T, V]):
    """Key -> what a function reads from each object of a store, without those from which it reads None."""

    def __init__(self, guard: Guard, read: Callable[[T], V | None]) -> None:
        self._guard = guard
        self._read = read
        self.live: Final[dict[str, V]] = {}
        """The values as they are now; changes under the lock, and only there."""
        self._copy: Mapping[str, V] | None = None

    def all(self) -> Mapping[str, V]:
        """The values at this instant: the same mapping until one of them changes. Not to be changed."""
        copy = self._copy
        if copy is not None:
            return copy  # without waiting for the lock
        with self._guard.lock:
            self._copy = copy = dict(self.live)
        return copy

    def put(self, key: str, obj: T | None) -> None:
        """An object is new, has changed or, if None, is gone; the lock is held."""
        value, known = None if obj is None else self._read(obj), self.live.get(key)
        if value is known:
            return
        if value is None:
            del self.live[key]
        elif type(value) is str and value == known:
            return
        else:
            self.live[key] = value
        self._copy = None


class Store(Generic[T]):
    """The objects of one kind: a handler for a reflector.

    Each change is made before watchers are notified of it.
    """

    def __init__(
        self,
        guard: Guard,
        resource: Resource[T],
        *,
        keep: Callable[[T], T | None] = lambda obj: obj,
        notifies: bool = True,
        reads_ahead: bool = False,
        at_a_time: int | None = None,
        give_way: Callable[[], None] = nothing,
    ) -> None:
        """An empty store.

        Args:
            guard: of its cache.
            resource: the kind.
            keep: returns the object if it is to be kept, else None; observers are told of all.
            notifies: whether watchers are notified of changes.
            reads_ahead: whether objects are also read beside list and watch, so that one of which the watch
                has reported the deletion may come late.
            at_a_time: objects of a list that are applied, or removed, before other threads read; None for all
                of them. A reader in between finds each object in its old or new state, and the reported
                version may be ahead of some.
            give_way: called between two such portions.
        """
        self.resource: Final = resource
        self._guard = guard
        self._objects = Index(guard, keep)
        self._indexes: list[Index[T, Any]] = [self._objects]
        self._observers: list[Observer[T]] = []
        self._list_observers: list[ListObserver] = []
        self._notifies = notifies
        self._reads_ahead = reads_ahead
        self._at_a_time = at_a_time
        self._give_way = give_way
        self._reported = ""
        """Version up to which list and watch have reported every object."""

    # --- reading -------------------------------------------------------------------------------------
    @property
    def live(self) -> dict[str, T]:
        """Key -> object, as it is now; changes under the lock. Not to be changed by others."""
        return self._objects.live

    def all(self) -> Mapping[str, T]:
        """Key -> object at this instant: the same mapping until one of them changes. Not to be changed."""
        return self._objects.all()

    def index(self, read: Callable[[T], V | None]) -> Index[T, V]:
        """What a function reads from each object, from now on; before anything is written."""
        made: Index[T, V] = Index(self._guard, read)
        self._indexes.append(made)
        return made

    def observe(self, observer: Observer[T]) -> None:
        """Call a function for each change, under the lock; before anything is written."""
        self._observers.append(observer)

    def observe_lists(self, observer: ListObserver) -> None:
        """Call a function after each list, without the lock."""
        self._list_observers.append(observer)

    # --- writing -------------------------------------------------------------------------------------
    def replace(self, items: Sequence[T], version: str = "", /) -> None:
        """A list as of this version: objects that are not in it are gone, newer states of the others stay."""
        present = {self.key(obj) for obj in items}
        portion = self._at_a_time or max(1, len(items))
        last = (len(items) - 1) // portion * portion if items else 0
        self._reported = ""  # what is in a list exists, however old its state is
        for begin in range(0, last, portion):
            with self._guard.lock:
                self._put(items[begin : begin + portion])
            self._give_way()
        with self._guard.lock:
            self._put(items[last:])
            self._guard.reach(self.resource, version)
            self._reported = version
            # What a removed pod had may be another pod's by now: removals come last.
            gone = list(self.known() - present)
            at_once = self._at_a_time or len(gone)
            self._drop(gone[:at_once], version)
        for begin in range(at_once, len(gone), portion):
            self._give_way()
            with self._guard.lock:
                self._drop(gone[begin : begin + portion], version)
        for observer in self._list_observers:
            observer(present, version)
        self._notify()

    def upsert(self, obj: T, /) -> None:
        """An object is new or has changed; a state older than the known one is ignored."""
        with self._guard.lock:
            self._put((obj,))
        self._notify()

    def remove(self, obj: T, /) -> None:
        """An object is gone."""
        version = obj.metadata.resource_version
        with self._guard.lock:
            self._guard.reach(self.resource, version)
            self._reported = version
            self._drop((self.key(obj),), version)
        self._notify()

    def _notify(self) -> None:
        if self._notifies:
            self._guard.notify()

    def _put(self, items: Iterable[T]) -> None:
        for obj in items:
            if self.accepts(obj):
                self._guard.reach(self.resource, obj.metadata.resource_version)
                self._change(self.key(obj), obj)

    def _drop(self, keys: Iterable[str], version: str) -> None:
        for key in keys:
            if self.releases(key, version):
                self._change(key, None)

    def _change(self, key: str, obj: T | None) -> None:
        before = self._objects.live.get(key)
        for index in self._indexes:
            index.put(key, obj)
        for observer in self._observers:
            observer(key, before, obj)

    # --- what a kind may do in another way -----------------------------------------------------------
    def key(self, obj: T) -> str:
        """Its name, or ``namespace/name``."""
        meta = obj.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    def accepts(self, obj: T) -> bool:
        """Whether a state is news."""
        known = self.live.get(self.key(obj))
        if known is None:
            version = obj.metadata.resource_version
            return not (self._reads_ahead and version_is_older(version, self._reported))
        return not is_older(obj.metadata, known.metadata)

    def releases(self, _key: str, _version: str) -> bool:
        """Whether an object is gone, since it was deleted or a list of this version lacks it."""
        return True

    def known(self) -> AbstractSet[str]:
        """The keys of all objects that have been reported."""
        return self.live.keys()
