"""All nodes of a picture at one instant, for whoever asks about some of them: nothing is made before."""

from collections.abc import Iterator, Mapping

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState, Liveness

NodeSnapshot = tuple[NodeView, AgentState]
"""A node, and how its agent is doing."""


class NodeSnapshots(Mapping[str, NodeSnapshot]):
    """Name -> node as it was, and how its agent was doing then."""

    def __init__(self, views: Mapping[str, NodeView], liveness: Liveness, *, monotonic: float) -> None:
        """Args: all of the same instant, and nobody changes them any more."""
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
        """Nodes whose agents have given no sign of life for so long, whether they said goodbye or not."""
        return self._liveness.quiet(seconds, monotonic=self._monotonic) & self._views.keys()

    @property
    def views(self) -> Mapping[str, NodeView]:
        """Name -> node, for whom agents do not matter."""
        return self._views
