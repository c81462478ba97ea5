"""A hold: devices of one node that are kept for a waiting pod, perhaps while their holders leave.

It is a booked pod, or one whose turn it is among those without a booking.

While it is written on the pod (``names.HOLD``), the pod is bound to these devices or not at all, and no other
pod gets them. JSON: ``{"node": "node-a", "devices": ["GPU-..."], "victims": ["<uid>"], "at": "...Z",
"state": "bookings=4650,nodes=4700,pods=4711"}``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Versioned, ready
from cluster.objects.pods import Pod


class HoldError(ValueError):
    """A hold that cannot be read."""


@ready
class Hold(Versioned, frozen=True, kw_only=True):
    """The devices that are kept for one pod."""

    node: str
    devices: tuple[str, ...]
    """UUIDs: exactly as many as the pod needs; some may be free already when the hold is written."""
    victims: tuple[str, ...] = ()
    """Uids of the pods that must leave."""
    memory: int | None = None
    """MiB of each of the devices, if they are kept for shares; None if they are kept whole. Either way no
    other pod gets any of them meanwhile."""
    need: Literal["booking", "share"] = "booking"
    """What gives the pod a right to them."""
    turn: int = 0
    """Seconds for which the pod is not taken for a share once it has started: it is above its user's."""
    at: datetime | None = None
    """When it was written."""
    state: str | None = None
    """The resourceVersions on which it was planned (``encode_versions``): law L3 judges it by these. For a
    pod with claims also ``resourceclaims``, ``resourceslices`` and ``deviceclasses``."""


def encode_versions(versions: Mapping[str, str]) -> str:
    """Kind -> the newest known resourceVersion, as text: ``bookings=4650,nodes=4700,pods=4711``."""
    return ",".join(f"{kind}={version}" for kind, version in sorted(versions.items()))


def encode_hold(hold: Hold) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(hold).decode()


def hold_of(pod: Pod) -> Hold | None:
    """The hold on a pod; None if there is none.

    Raises:
        HoldError: the annotation cannot be read.
    """
    text = pod.metadata.annotation(names.HOLD)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Hold)
    except UNREADABLE as error:
        raise HoldError(f"The annotation {names.HOLD} of {pod.key} cannot be read: {error}.") from error
