"""What the extender last said of booked pods with a hold, as codes on its Lease (ADR 77).

The reclaimer decides by them whether a node is to blame for a pod that is not bound. They are on a Lease and
not on the pod: writing the pod would make kube-scheduler retry it, and a Binding in flight fail.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from cluster import names
from cluster.objects.nodes import Lease

HoldVerdict = Literal["accepted", "refused", "hold-not-free", "not-now"]
ACCEPTED: Final[HoldVerdict] = "accepted"
"""The node of the hold suits; what has failed since was not the extender."""
REFUSED: Final[HoldVerdict] = "refused"
"""The node does not suit, or the API server has refused the Binding because of it."""
NOT_FREE: Final[HoldVerdict] = "hold-not-free"
"""The extender still sees the held devices taken."""
NOT_NOW: Final[HoldVerdict] = "not-now"
"""It could not bind for a reason that lies in no node."""
BLAMING: Final = frozenset({ACCEPTED, REFUSED})
"""Codes after which the node is to blame for a pod that is not bound. A code that is not known is none."""


def encode_verdicts(verdicts: Mapping[str, HoldVerdict]) -> str | None:
    """Pod uid -> code, as the annotation's value; None, which removes it, if there are none."""
    return msgspec.json.encode(verdicts, order="sorted").decode() if verdicts else None


def verdicts_of(lease: Lease | None) -> Mapping[str, str]:
    """Pod uid -> code, by the extender's Lease; empty if it has none, or none that can be read."""
    text = lease.metadata.annotation(names.HOLD_VERDICTS) if lease else None
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
