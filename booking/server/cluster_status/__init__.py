"""The cluster now, as users may see it: nodes, holders, the next victims, and explanations of pods."""

from booking.server.cluster_status.cluster_status import ClusterStatus
from booking.server.cluster_status.holder_classes import HolderClass
from booking.server.cluster_status.now import DeviceNow, DeviceState, HolderNow, NextNow, NodeNow, Now
from booking.server.cluster_status.queue import Queue, QueuedPod, QueueOfModel, ShareOfUser
from booking.server.cluster_status.share_history import ShareHistory, SharesOverTime
from booking.server.cluster_status.snapshot import StatusSnapshot, about, take
from booking.server.cluster_status.standings import ModelNow, Standing
from booking.server.cluster_status.usage import SquatterNow, UseNow
from booking.server.cluster_status.why import Why

__all__ = [
    "ClusterStatus",
    "DeviceNow",
    "DeviceState",
    "HolderClass",
    "HolderNow",
    "ModelNow",
    "NextNow",
    "NodeNow",
    "Now",
    "Queue",
    "QueueOfModel",
    "QueuedPod",
    "ShareHistory",
    "ShareOfUser",
    "SharesOverTime",
    "SquatterNow",
    "Standing",
    "StatusSnapshot",
    "UseNow",
    "Why",
    "about",
    "take",
]
