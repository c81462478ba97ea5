"""One kind of objects, from the API server in memory to a handler: late, twice, or only by a list."""

from typing import Any, Final, Protocol

from cluster.fake.server import FakeKube
from cluster.kube.interface import EVERYTHING, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import PODS, Resource

AGAIN: Final = 20
"""Events that may be delivered once more."""


class Handler(Protocol):
    """Who gets the events."""

    def replace(self, items: Any, version: str, /) -> None:
        """All of them."""
        ...

    def upsert(self, obj: Any, /) -> None:
        """New or changed."""
        ...

    def remove(self, obj: Any, /) -> None:
        """Gone."""
        ...


class Channel:
    """One kind, from the API server to a cache."""

    def __init__(
        self, kube: FakeKube, resource: Resource[Any], handler: Handler, selection: Selection = EVERYTHING
    ) -> None:
        self._kube, self._resource, self._handler, self._selection = kube, resource, handler, selection
        version = kube.list(resource, selection).resource_version
        self._watch: Any = kube.watch(resource, selection, WatchOptions(resource_version=version))
        self._sent: list[WatchEvent[Any]] = []
        self._delivered: list[WatchEvent[Any]] = []
        self.has_gap = True
        """Whether an event was never delivered, and no list has made it good."""

    @property
    def sent(self) -> list[WatchEvent[Any]]:
        """The events that are still to be delivered, oldest first."""
        self._sent += [event for event in self._watch.ready() if event.type != "BOOKMARK"]
        return self._sent

    @property
    def delivered(self) -> list[WatchEvent[Any]]:
        """The events that were delivered lately, newest first."""
        return self._delivered[::-1]

    def list(self) -> None:
        """Everything is read at once, and what was on its way is known by that."""
        late = [*self._delivered, *self.sent]
        self._sent.clear()
        page = self._kube.list(self._resource, self._selection)
        self._handler.replace(page.items, page.resource_version)
        self.has_gap = False
        # An older state of what is there may still be delivered; of what is gone nothing comes any more.
        there = {item.metadata.uid for item in page.items}
        self._delivered = [event for event in late if event.object.metadata.uid in there][-AGAIN:]

    def lose(self) -> int:
        """What is on its way never arrives."""
        lost = len(self.sent)
        if lost:
            # Of an object that is gone no earlier state is delivered once its end was lost.
            self._sent.clear()
            self._delivered.clear()
            self.has_gap = True
        return lost

    def deliver(self, place: int = 0) -> str:
        """Deliver one of those that are still to come."""
        event = self.sent.pop(place)
        self._delivered = [*self._delivered[1 - AGAIN :], event]
        return self.say(event)

    def say(self, event: WatchEvent[Any]) -> str:
        """An event, perhaps not for the first time."""
        meta = event.object.metadata
        is_gone = event.type == "DELETED"
        (self._handler.remove if is_gone else self._handler.upsert)(event.object)
        if is_gone and self._resource is not PODS:
            self._delivered = [one for one in self._delivered if one.object.metadata.name != meta.name]
        return f"{meta.name}{' is gone' if is_gone else ''} in version {meta.resource_version}"

    def close(self) -> None:
        """Nothing is delivered any more."""
        self._watch.close()
