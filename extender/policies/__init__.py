"""How nodes that fit are ranked: one policy, one file. A policy is a function of a request and a node.

A policy sees only values, and the same values get the same score. It promises an order, stated in its file.
kube-scheduler adds the scores to those of its own plugins, so that order is one preference among others.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest

Reserved = Mapping[str, int]
"""Model -> devices of the node that running bookings have planned there and that their pods do not have."""

Policy = Callable[[GpuRequest, NodeView, Reserved], int]
"""``(request, node, reserved)`` -> 0 to 10, higher is better."""

NOTHING: Final[Reserved] = {}
