"""All nodes of a cache at one instant, evaluated lazily: callers read only some of them."""

from collections.abc import Iterator, Mapping

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState, Liveness

NodeSnapshot = tuple[NodeView, AgentState]
"""A node, and the state of its agent."""


class NodeSnapshots(Mapping[str, NodeSnapshot]):
    """Name -> node as it was, and its agent's state then."""

    def __init__(self, views: Mapping[str, NodeView], liveness: Liveness, *, monotonic: float) -> None:
        """``views`` and ``liveness`` are of the instant ``monotonic``, and must not change any more."""
        self._views = views
        self._liveness = liveness
        self._monotonic = monotonic

    def __getitem__(self, name: str) -> NodeSnapshot:
        """One node.

        Raises:
            KeyError: there is no such node.
        """
        return self._views[name], self._liveness.state(name, monotonic=self._monotonic)

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes."""
        return iter(self._views)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._views)

    def quiet(self, seconds: float) -> frozenset[str]:
        """Nodes whose agents gave no sign of life for so many seconds, even if they released their Lease."""
        return self._liveness.quiet(seconds, monotonic=self._monotonic) & self._views.keys()

    @property
    def views(self) -> Mapping[str, NodeView]:
        """Name -> node, for callers that need no agents."""
        return self._views
