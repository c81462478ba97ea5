"""Who holds which amount of which device.

``Ledger`` is fed with whole objects in any order and keeps one ``NodeView`` per node. Pure: no clock, no
lock, no I/O; its owner guards it with one lock. Used by the extender.
"""

from cluster.decide.ledger.amounts import WHOLE
from cluster.decide.ledger.ledger import AssumedBind, Ledger
from cluster.decide.ledger.view import NodeView

__all__ = ["WHOLE", "AssumedBind", "Ledger", "NodeView"]
