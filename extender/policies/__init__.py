"""How nodes that fit are ranked: one policy, one file. A policy is a function of a wish and a node."""

from collections.abc import Callable

from cluster.decide.ledger import NodeView
from cluster.decide.wish import Wish

Policy = Callable[[Wish, NodeView], int]
"""``(wish, node)`` -> 0 to 10, higher is better."""
