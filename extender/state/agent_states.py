"""The states of the nodes' agents, computed again only where a Lease or time may have changed them.

An agent becomes unresponsive without any event, and the pause after a rejection ends without one. The instant
of the next change is known, and a later sign of life only postpones it. So each agent is checked again when
its state would change by what was known before.
"""

from heapq import heappop, heappush
from typing import Final

from cluster.cache import ClusterCache
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState

EARLY: Final = 0.001
"""Seconds before that instant at which the agent is checked: instants are not exact to the last digit."""


class Agents:
    """Which agents' states may have changed since the last time. For one caller, under the cache's lock."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._liveness = cache.liveness
        self._generation = -1
        self._due: list[tuple[float, str]] = []
        self._waiting: dict[str, float] = {}
        """Node -> when it is checked again, as it is entered in the queue."""

    def changed(self, now: float) -> list[str] | None:
        """Nodes to check; None for all of them."""
        turned = self._liveness.changed_since(self._generation) if self._generation >= 0 else None
        self._generation = self._liveness.generation
        due: list[str] = []
        while self._due and self._due[0][0] - EARLY <= now:
            at, name = heappop(self._due)
            if self._waiting.get(name) == at:
                del self._waiting[name]
                due.append(name)
        return None if turned is None else [*due, *turned]

    def state(self, view: NodeView, now: float) -> AgentState:
        """The state of a node's agent; from now on it is checked again when it may change."""
        name = view.name
        due = self._liveness.due(name, monotonic=now)
        if due is not None:
            waits = self._waiting.get(name)
            if waits is None or due < waits:
                self._waiting[name] = due
                heappush(self._due, (due, name))
        return self._cache.agent(view, now)
