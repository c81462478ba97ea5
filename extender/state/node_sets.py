"""Shared sets of nodes for thousands of waiting pods: few objects for many pods.

A set of 5,000 names takes half a megabyte. Pods that were filtered on the same nodes share one. If there are
too many different sets, a pod keeps the set of all nodes instead of its own.
"""

from collections.abc import Iterable
from typing import Final

MOST: Final = 64
"""Maximum number of different sets, not counting those of all nodes."""


class NodeSets:
    """Keeps one object for all equal sets of nodes."""

    def __init__(self, most: int = MOST) -> None:
        """Args: most: maximum number of different sets."""
        self._most = most
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._all = frozenset[str]()
        """All nodes: kept in place of a set that would be one too many."""
        self._until_cleared = most

    def __len__(self) -> int:
        """Number of sets kept, not counting that of all nodes."""
        return len(self._sets)

    def shared(
        self, nodes: frozenset[str], everything: frozenset[str], kept: Iterable[frozenset[str]]
    ) -> frozenset[str]:
        """The object to keep for a set of nodes.

        Args:
            nodes: the set.
            everything: all nodes; kept in place of a set that would be one too many, whose pod may then be
                requeued in vain.
            kept: the sets still in use: from time to time all others are dropped to make room.
        """
        known = self._sets.get(nodes)
        if known is not None:
            return known
        self._until_cleared -= 1
        if len(self._sets) >= self._most and self._until_cleared <= 0:
            self._until_cleared = self._most
            self._sets = {one: one for one in kept if one is self._sets.get(one)}
        if len(self._sets) >= self._most:
            if not nodes <= self._all:
                self._all = everything | nodes
            return self._all
        found = everything if nodes == everything else nodes
        self._sets[found] = found
        return found
