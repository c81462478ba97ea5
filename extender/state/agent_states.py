"""The states of the nodes' agents, computed again only if a Lease or time may have changed them.

An agent becomes unresponsive without any event, and the pause after a rejection ends without one. But the
instant of the next change is known, and a later sign of life only postpones it. So each agent is checked
again at that instant.
"""

from heapq import heappop, heappush
from typing import Final

from cluster.cache import ClusterCache
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState

EARLY: Final = 0.001
"""Seconds by which an agent is checked before that instant: instants are not exact to the last digit."""


class Agents:
    """Finds agents whose state may have changed since the last call. For one caller with the cache's lock."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._liveness = cache.liveness
        self._generation = -1
        self._due: list[tuple[float, str]] = []
        self._waiting: dict[str, float] = {}
        """Node -> when it is checked again: its valid entry in the queue."""

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
        """Return the state of a node's agent, and schedule its next check for when it may change."""
        name = view.name
        due = self._liveness.due(name, monotonic=now)
        if due is not None:
            waits = self._waiting.get(name)
            if waits is None or due < waits:
                self._waiting[name] = due
                heappush(self._due, (due, name))
        return self._cache.agent(view, now)
