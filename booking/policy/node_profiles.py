"""Node profiles: nodes that an autoscaler adds when pods need them. The policy file declares them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

LONGEST_NAME: Final = 100
"""Characters of a pool's name."""
MOST_NODES: Final = 1000
"""Nodes of a profile: more are a slip."""
MOST_GPUS: Final = 64
"""GPUs of one node."""


class NodeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What each node of a pool will have, and how many nodes the pool can have."""

    name: str
    """The pool's, for people: nodes that are not there are called ``name/1``, ``name/2`` and so on."""
    model: str
    """Of its GPUs, in label form."""
    gpus: int
    """GPUs of each node."""
    nodes: int
    """The largest number of nodes, those that exist included."""
    labels: Mapping[str, str]
    """Labels of the pool's nodes, by which those that exist are known; at least one."""

    def written(self) -> dict[str, Any]:
        """The profile as the policy file has it."""
        counts = {"gpus": self.gpus, "nodes": self.nodes}
        return {"model": self.model, **counts, "labels": dict(self.labels)}
