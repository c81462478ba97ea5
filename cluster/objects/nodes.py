"""Nodes and Leases, with the fields that we read."""

from datetime import datetime
from sys import intern
from typing import Final

from msgspec.structs import force_setattr

from cluster.objects.kept_once import Parts
from cluster.objects.meta import Meta, Partial
from cluster.objects.pods import Condition


class Taint(Partial, frozen=True):
    """One entry of ``spec.taints``."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Partial, frozen=True):
    """``spec`` of a Node."""

    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeInfo(Partial, frozen=True):
    """``status.nodeInfo`` of a Node."""

    container_runtime_version: str = ""
    """E.g. ``containerd://2.1.4``."""


class NodeStatus(Partial, frozen=True):
    """``status`` of a Node."""

    capacity: dict[str, str | int] | None = None
    allocatable: dict[str, str | int] | None = None
    conditions: tuple[Condition, ...] | None = None
    node_info: NodeInfo = NodeInfo()


_STATUSES: Final = Parts("capacity", "allocatable", "conditions", "node_info")
"""What nodes of one kind have in common."""


class Node(Partial, frozen=True):
    """A v1 Node, with the fields that we read. It shares with others what is equal."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def __post_init__(self) -> None:
        """Share what is equal."""
        force_setattr(self.metadata, "name", intern(self.metadata.name))
        _STATUSES.share(self.status)


class LeaseSpec(Partial, frozen=True):
    """``spec`` of a coordination.k8s.io/v1 Lease. Durations in seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Partial, frozen=True):
    """A coordination.k8s.io/v1 Lease, with the fields that we read."""

    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()
