"""How the agent learns who is to give out the node's GPUs, at its start and afterwards.

An agent keeps to one answer (``owner.Way``). When another one is right it ends, and its DaemonSet starts it
again.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import structlog

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node
from cluster.process.clock import Clock
from cluster.process.stop_events import wake_at
from deviceplugin.beside.owner import Held, Way, Whose, given_by, way, whose

log = structlog.get_logger(__name__)

DEADLINE: Final = 2.0
"""Seconds for the API server: a node whose GPUs are ours must not wait long for its devices."""
LOOK_EVERY: Final = 5.0
"""Seconds between two looks at what is held."""

HeldFor = Callable[[Whose, Whose | None], Held]
"""Reads what is held, for a change to the first from the second."""


class Follower(Protocol):
    """The part of a reflector's handler that gets the newest Node."""

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list."""
        ...

    def upsert(self, obj: Node, /) -> None:
        """The Node as it is now."""
        ...

    def remove(self, obj: Node, /) -> None:
        """The Node is gone."""
        ...


def at_start(kube: Kube, node: str, default: Whose, held: HeldFor) -> Way:
    """How to begin; as by the default where the API server does not answer in time."""
    answer = ThreadPoolExecutor(1, thread_name_prefix="whose-plugin").submit(kube.get, NODES, node)
    try:
        found = answer.result(timeout=DEADLINE)
        wanted, was = whose(found, default), given_by(found)
    except (ApiError, TimeoutError) as error:
        log.warning("the label of this Node is not known yet", message=str(error), assumed=default)
        wanted, was = default, None
    return way(wanted, was, lambda: held(wanted, was))


class OwnNode:
    """A handler that passes the Node on: to another handler, and to whoever wants to see it."""

    def __init__(self, orders: Follower, *see: Callable[[Node], None]) -> None:
        self._orders = orders
        self._see = see

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list with the Node, or an empty one."""
        self._orders.replace(items, version)
        for node in items:
            self._show(node)

    def upsert(self, obj: Node, /) -> None:
        """The Node as it is now."""
        self._orders.upsert(obj)
        self._show(obj)

    def remove(self, obj: Node, /) -> None:
        """The Node is gone."""
        self._orders.remove(obj)

    def _show(self, node: Node) -> None:
        for see in self._see:
            see(node)


class Change:
    """The thread that ends the agent when its node is to give out GPUs in another way, and may."""

    def __init__(
        self, now: Way, default: Whose, held: HeldFor, *, end: Callable[[str], None], clock: Clock
    ) -> None:
        """Args: now: how this agent does; end: ends it, for a reason."""
        self._now = now
        self._default = default
        self._held = held
        self._end = end
        self._clock = clock
        self._node: Node | None = None
        self._waits = now.waits
        self._wake = threading.Event()

    @property
    def waits(self) -> str | None:
        """Why the node does not change yet to what its label says, for people; None if it is as that says."""
        return self._waits

    def see(self, node: Node) -> None:
        """Take over the Node. Safe from any thread."""
        self._node = node
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Look until the stop event is set."""
        wake_at(stop, self._wake)
        while not stop.is_set():
            self.once()
            self._clock.wait(self._wake, LOOK_EVERY)
            self._wake.clear()

    def once(self) -> None:
        """One look; nothing changes before the Node has been seen."""
        if self._node is None:
            return
        wanted, was = whose(self._node, self._default), self._now.whose
        found = way(wanted, was, lambda: self._held(wanted, was))
        if (found.whose, found.waits is None) != (was, self._now.waits is None):
            why = found.waits or f"the label {names.DEVICE_PLUGIN} says {wanted!r}"
            self._end(f"{why} The agent begins again." if found.waits else f"{why}: the agent begins again")
            return
        if found.waits != self._waits:
            log.info("the node still gives its GPUs in the old way", message=found.waits)
            self._waits = found.waits
