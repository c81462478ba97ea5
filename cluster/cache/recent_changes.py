"""Which nodes have changed of late, or a pod on them: who keeps something of each node need not look at all.

The names belong to one instant: with other objects than those of that instant they say nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.changes import Changes
from cluster.objects.pods import Pod

RECENT: Final = 2_000
"""Number of changes that an instant tells of."""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """The last changes before an instant."""

    line: object
    """Where they were counted: numbers of different lines cannot be compared."""
    number: int
    """Number of the newest one."""
    begins: int
    """All changes after this one are known."""
    nodes: Mapping[str, int]
    """Node -> number of its last change."""
    views: Mapping[str, NodeView]
    """The nodes at that instant, and the pods: these very mappings."""
    pods: Mapping[str, Pod]

    def after(self, line: object, number: int) -> list[str] | None:
        """The nodes that have changed after a number; None if it may be any node."""
        if line is not self.line or not self.begins <= number <= self.number:
            return None
        return [name for name, changed in self.nodes.items() if changed > number]


class NodeChanges:
    """Counts the changes of a cache's nodes, and of the pods that hold something there, under its lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._line = object()
        self._changes = Changes()
        self._generation: int | None = None
        """The ledger's, up to which its changes have been counted; None until somebody asks."""

    def note_pod(self, uid: str) -> None:
        """A pod is another object now."""
        if self._generation is not None and (holding := self._ledger.holding(uid)):
            self._changes.note(holding.node, existing=self._ledger.size)

    def recent(self, views: Mapping[str, NodeView], pods: Mapping[str, Pod]) -> RecentChanges:
        """The last changes before this instant; ``views`` and ``pods`` are of this instant."""
        changed = None if self._generation is None else self._ledger.changed_since(self._generation)
        if changed is None:
            self._line, self._changes = object(), Changes()
        for name in reversed(changed or ()):
            self._changes.note(name, existing=self._ledger.size)
        self._generation = self._ledger.generation
        number = self._changes.number
        begins = max(0, number - RECENT)
        found = self._changes.numbered_since(begins)
        if found is None:
            begins, found = number, {}
        return RecentChanges(self._line, number, begins, found, views, pods)
