"""What the cluster is doing now, as people may see it: nodes and holders, who goes next, why a pod is so."""

from booking.live.classes import HolderClass
from booking.live.live import Live
from booking.live.now import DeviceNow, DeviceState, HolderNow, NextNow, NodeNow, Now
from booking.live.sight import Sight, about, take
from booking.live.use import SquatterNow, UseNow
from booking.live.why import Why

__all__ = [
    "DeviceNow",
    "DeviceState",
    "HolderClass",
    "HolderNow",
    "Live",
    "NextNow",
    "NodeNow",
    "Now",
    "Sight",
    "SquatterNow",
    "UseNow",
    "Why",
    "about",
    "take",
]
