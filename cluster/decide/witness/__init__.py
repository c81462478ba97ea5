"""The witness: a place for every booking, over time, so that what was promised can be kept. Pure.

Instants are whole seconds since 1970. Both the booking server and the extender decide with it.
"""

from cluster.decide.witness.board import STEPS, Block, Board, Placed, Shift
from cluster.decide.witness.pins import NOWHERE, STRAY, Held, Promise, is_whole, pin, planned, strays
from cluster.decide.witness.row import Item
from cluster.decide.witness.scene import Scene, scene
from cluster.decide.witness.steps import Steps

__all__ = [
    "NOWHERE",
    "STEPS",
    "STRAY",
    "Block",
    "Board",
    "Held",
    "Item",
    "Placed",
    "Promise",
    "Scene",
    "Shift",
    "Steps",
    "is_whole",
    "pin",
    "planned",
    "scene",
    "strays",
]
