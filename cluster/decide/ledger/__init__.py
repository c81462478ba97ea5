"""Which pod holds which amount of which device.

``Ledger`` takes whole objects in any order and keeps one ``NodeView`` per node. It is pure: no clock, no
lock, no I/O. Its owner, ``cluster.cache``, guards it with one lock.
"""

from cluster.decide.ledger.amounts import WHOLE, DeviceUse, Holding, Room
from cluster.decide.ledger.holdings import SOURCES, PodHoldings
from cluster.decide.ledger.ledger import AssumedBind, Ledger
from cluster.decide.ledger.view import NodeView

__all__ = [
    "SOURCES",
    "WHOLE",
    "AssumedBind",
    "DeviceUse",
    "Holding",
    "Ledger",
    "NodeView",
    "PodHoldings",
    "Room",
]
