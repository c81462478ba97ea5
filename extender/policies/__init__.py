"""How nodes that fit are ranked: one policy, one file. A policy is a function of a wish and a node.

A policy sees values alone, and the same values get the same score. It promises an order, told in its file;
kube-scheduler adds the scores to those of its own plugins, so the order is one wish among others.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest

Reserved = Mapping[str, int]
"""Model -> devices of the node that running bookings have planned there and that their pods do not have."""

Policy = Callable[[GpuRequest, NodeView, Reserved], int]
"""``(wish, node, reserved)`` -> 0 to 10, higher is better."""

NOTHING: Final[Reserved] = {}
