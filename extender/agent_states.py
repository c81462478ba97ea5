"""How the nodes' agents are doing, asked again only where it may have changed: by a Lease, or by time.

An agent falls silent without any event, and the pause after a refusal ends without one. When that will be is
known; a later sign of life only puts it off. So each agent is looked at again when it would change by what
was known then.
"""

from heapq import heappop, heappush
from typing import Final

from cluster.cache import ClusterCache
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState

EARLY: Final = 0.001
"""Seconds before the instant at which it is looked again: instants are not exact to the last digit."""


class Agents:
    """Which agents' states may have changed since the last time. One asks, under the picture's lock."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._liveness = cache.liveness
        self._turns = -1
        self._due: list[tuple[float, str]] = []
        self._waiting: dict[str, float] = {}
        """Node -> when it is looked at again, as it stands in the queue."""

    def changed(self, now: float) -> list[str] | None:
        """Nodes to look at; None for all of them."""
        turned = self._liveness.turned_since(self._turns) if self._turns >= 0 else None
        self._turns = self._liveness.turns
        due: list[str] = []
        while self._due and self._due[0][0] - EARLY <= now:
            at, name = heappop(self._due)
            if self._waiting.get(name) == at:
                del self._waiting[name]
                due.append(name)
        return None if turned is None else [*due, *turned]

    def state(self, view: NodeView, now: float) -> AgentState:
        """How a node's agent is doing; from now on it is looked after."""
        name = view.name
        due = self._liveness.due(name, monotonic=now)
        if due is not None:
            waits = self._waiting.get(name)
            if waits is None or due < waits:
                self._waiting[name] = due
                heappush(self._due, (due, name))
        return self._cache.agent(view, now)
