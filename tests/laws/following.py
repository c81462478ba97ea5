"""One kind of object, followed until closed: a list, then a watch from there on; after a gap a list again."""

import threading
from typing import Final, Protocol

from cluster.kube.errors import ApiError, Gone, NotFound
from cluster.kube.interface import Kube, Selection, Watch, WatchOptions
from cluster.kube.resources import Object, Resource, T
from cluster.process.clock import Clock

PAGE: Final = 500
PAUSE: Final = 0.2
"""Seconds between two tries."""


class Listener(Protocol):
    """Receives what followers see. Called by the threads of all followers."""

    def listed(self, plural: str, items: tuple[Object, ...], version: int) -> None:
        """Every object of a kind as of this version."""
        ...

    def changed(self, plural: str, obj: Object, *, is_gone: bool) -> None:
        """One object is new, has changed, or is gone (its last state)."""
        ...

    def is_up(self, plural: str) -> None:
        """Its watch is there."""
        ...

    def is_down(self, plural: str, why: str) -> None:
        """Its watch is broken, or cannot begin."""
        ...


class Follower:
    """Follows one kind; ``run`` is the body of a thread."""

    def __init__(
        self, kube: Kube, resource: Resource[T], clock: Clock, listener: Listener, *, namespace: str | None
    ) -> None:
        self._kube = kube
        self._resource: Resource[T] = resource
        self._clock = clock
        self._listener = listener
        self._selection = Selection(namespace=namespace)
        self._version: str | None = None
        self._is_known = False
        """A kind that existed once does not vanish, even if a starting server reports it as missing."""
        self._watch: Watch[T] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self) -> None:
        """Follow until ``close``."""
        while not self._stop.is_set():
            try:
                self._round()
            except Gone as error:
                self._version = None
                self._down(f"history is gone: {error}")
            except ApiError as error:
                if isinstance(error, NotFound) and not self._is_known:
                    self._listener.listed(self._resource.plural, (), 0)  # the kind does not exist yet
                    self._listener.is_up(self._resource.plural)
                    self._clock.wait(self._stop, PAUSE)
                    continue
                self._down(str(error))
                self._clock.wait(self._stop, PAUSE)

    def close(self) -> None:
        """End it, from any thread."""
        self._stop.set()
        with self._lock:
            if self._watch is not None:
                self._watch.close()

    def _down(self, why: str) -> None:
        if not self._stop.is_set():
            self._listener.is_down(self._resource.plural, why)

    def _round(self) -> None:
        if self._version is None:
            items, version = everything(self._kube, self._resource, self._selection)
            self._listener.listed(self._resource.plural, items, int(version))
            self._version, self._is_known = version, True
        self._follow(WatchOptions(resource_version=self._version))

    def _follow(self, options: WatchOptions) -> None:
        plural = self._resource.plural
        watch = self._kube.watch(self._resource, self._selection, options)
        with self._lock:
            self._watch = watch
        try:
            self._listener.is_up(plural)
            for event in () if self._stop.is_set() else watch:
                if event.type != "BOOKMARK":
                    self._listener.changed(plural, event.object, is_gone=event.type == "DELETED")
                self._version = event.object.metadata.resource_version
        finally:
            watch.close()


def everything(kube: Kube, resource: Resource[T], selection: Selection) -> tuple[tuple[T, ...], str]:
    """Every object of a kind, and the version that they are of."""
    items: list[T] = []
    token: str | None = None
    while True:
        page = kube.list(resource, selection, limit=PAGE, continue_=token)
        items += page.items
        token = page.continue_
        if token is None:
            return tuple(items), page.resource_version
