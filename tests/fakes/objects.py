"""Builders of objects for tests: ``a_pod("p").asks(1).on("n0")``, ``a_node("n0", a100(0), a100(1))``."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cluster import names
from cluster.objects.assignment import encode_assignment
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.inventory import Device, Sharing, encode_inventory, resource_of
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Kind, Pod

A100 = "NVIDIA-A100-SXM4-80GB"
A6000 = "NVIDIA-RTX-A6000"
AMOUNTS = {
    "memory": names.GPU_MEMORY,
    "percentage": names.GPU_MEMORY_PERCENTAGE,
    "cores": names.GPU_CORES,
    "aliyun": names.ALIYUN_MEMORY,
}
EPOCH = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


def a100(index: int, node: str = "n0", **more: object) -> Device:
    """A healthy A100."""
    return _device(node, index, {"model": A100, "memory": 81920, **more})


def shared_gpu(
    index: int, node: str = "n0", *, memory: int = 80_000, slots: int = 16, **more: object
) -> Device:
    """A healthy A100 that offers so many MiB to pods that share it."""
    return a100(index, node, share=Sharing(slots=slots, memory=memory), **more)


def a6000(index: int, node: str = "n0", **more: object) -> Device:
    """A healthy RTX A6000."""
    return _device(node, index, {"model": A6000, "memory": 49140, **more})


def a_node(
    name: str = "n0",
    *devices: Device,
    version: int = 1,
    drift: str | None = None,
    uid: str | None = None,
    blocks: str | None = None,
) -> Node:
    """A Node with this inventory; without devices it has no annotation."""
    annotations = {}
    if devices:
        annotations[names.INVENTORY] = encode_inventory(devices)
    if drift is not None:
        annotations[names.DRIFT] = drift
    if blocks is not None:
        annotations[names.BLOCKS] = blocks
    meta = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "annotations": annotations,
    }
    return msgspec.convert({"metadata": meta, "status": {"allocatable": allocatable(devices)}}, Node)


def allocatable(devices: Iterable[Device]) -> dict[str, str]:
    """What a kubelet offers to which these devices were advertised: ``status.allocatable``."""
    found = tuple(devices)
    parents = {device.parent for device in found}
    well = (device for device in found if device.is_healthy and device.uuid not in parents)
    return {resource: str(count) for resource, count in Counter(map(resource_of, well)).items()}


def a_lease(
    node: str = "n0",
    *,
    renewed: datetime = EPOCH,
    version: int = 1,
    stopping: bool = False,
    use: str | None = None,
) -> Lease:
    """The Lease of a node's agent; ``device_usage`` is what it reports of the GPUs' use."""
    annotations = {names.STOPPING: "true"} if stopping else {}
    meta = {
        "name": names.node_lease(node),
        "namespace": names.NAMESPACE,
        "uid": f"lease-{node}",
        "resourceVersion": str(version),
        "annotations": annotations | ({names.USE: use} if use else {}),
    }
    return msgspec.convert({"metadata": meta, "spec": {"renewTime": renewed}}, Lease)


def a_booking(
    name: str = "b-1",
    *,
    user: str = "alice",
    model: str = A100,
    count: int = 1,
    start: datetime = EPOCH,
    end: datetime = EPOCH + timedelta(days=2),
    **more: object,
) -> Booking:
    """A Booking object; ``more`` are further fields of its spec as the API writes them (camel case)."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = {"user": user, "model": model, "count": count, "start": start, "end": end, **more}
    return msgspec.convert({"metadata": meta, "spec": spec}, Booking)


@dataclass(frozen=True)
class PodBuilder:
    """A pod that grows by sentences; ``obj`` is the struct, ``raw`` the JSON object."""

    name: str
    version: int = 1
    uid: str = ""
    node: str | None = None
    phase: str = "Pending"
    deleted: bool = False
    scheduler: str = names.SCHEDULER_NAME
    annotations: dict[str, str] = field(default_factory=dict)
    inits: tuple[dict[str, Any], ...] = ()
    apps: tuple[dict[str, Any], ...] = ()
    rejection: str = ""
    created_at: datetime | None = None
    priority: int | None = None
    nominated: str | None = None
    owner: str = ""
    gates: tuple[str, ...] = ()

    def called(self, name: str) -> "PodBuilder":
        """The same pod under another name."""
        return replace(self, name=name)

    def of(self, user: str) -> "PodBuilder":
        """Whose it is."""
        return self.with_annotation(names.USER, user)

    def of_priority(self, priority: int) -> "PodBuilder":
        """As its class says."""
        return replace(self, priority=priority)

    def needing(self, **amounts: str) -> "PodBuilder":
        """An app container that asks for other things: ``cpu``, ``memory``."""
        resources: dict[str, object] = {"requests": amounts}
        return replace(self, apps=(*self.apps, {"name": f"other-{len(self.apps)}", "resources": resources}))

    def created(self, instant: datetime) -> "PodBuilder":
        """When it was created."""
        return replace(self, created_at=instant)

    def asks(self, gpus: int, *, container: str = "main", resource: str = names.GPU_RESOURCE) -> "PodBuilder":
        """An app container that asks for GPUs."""
        return replace(self, apps=(*self.apps, _container(container, gpus, resource)))

    def init(self, container: str, gpus: int, *, resource: str = names.GPU_RESOURCE) -> "PodBuilder":
        """A regular init container."""
        return replace(self, inits=(*self.inits, _container(container, gpus, resource)))

    def sidecar(self, container: str, gpus: int, *, resource: str = names.GPU_RESOURCE) -> "PodBuilder":
        """A sidecar."""
        made = {**_container(container, gpus, resource), "restartPolicy": "Always"}
        return replace(self, inits=(*self.inits, made))

    def shares(
        self, *, container: str = "main", kind: Kind = "app", gpus: int = 1, **amounts: int
    ) -> "PodBuilder":
        """A container with shares of GPUs: ``memory`` in MiB, ``percentage`` of it, ``cores``, ``aliyun``."""
        limits = {names.SHARED_RESOURCE: str(gpus)}
        limits |= {AMOUNTS[name]: str(amount) for name, amount in amounts.items()}
        made: dict[str, object] = {"name": container, "resources": {"limits": limits, "requests": limits}}
        if kind == "app":
            return replace(self, apps=(*self.apps, made))
        return replace(
            self, inits=(*self.inits, made | ({"restartPolicy": "Always"} if kind == "sidecar" else {}))
        )

    def wants(self, *models: str) -> "PodBuilder":
        """The requested models."""
        return self.with_annotation(names.MODEL, ",".join(models))

    def with_annotation(self, key: str, value: str) -> "PodBuilder":
        """Any annotation."""
        return replace(self, annotations={**self.annotations, key: value})

    def on(self, node: str, assignment: Mapping[str, tuple[str, ...]] | None = None) -> "PodBuilder":
        """Bound to a node, with devices when they are given."""
        bound = replace(self, node=node)
        return (
            bound.with_annotation(names.ASSIGNED, encode_assignment(dict(assignment)))
            if assignment
            else bound
        )

    def kept(self, node: str, *devices: str, at: datetime | None = EPOCH) -> "PodBuilder":
        """With a hold: these devices of a node are kept for it."""
        return self.with_annotation(names.HOLD, encode_hold(Hold(node=node, devices=devices, at=at)))

    def at(self, version: int) -> "PodBuilder":
        """The same pod in another version."""
        return replace(self, version=version)

    def ended(self, phase: str = "Succeeded") -> "PodBuilder":
        """In a terminal phase."""
        return replace(self, phase=phase)

    def terminating(self) -> "PodBuilder":
        """Being deleted."""
        return replace(self, deleted=True)

    def scheduled_by(self, scheduler: str) -> "PodBuilder":
        """With another scheduler."""
        return replace(self, scheduler=scheduler)

    def nominated_to(self, node: str) -> "PodBuilder":
        """kube-scheduler has nominated it for a node."""
        return replace(self, nominated=node)

    def behind(self, *gates: str) -> "PodBuilder":
        """With scheduling gates: ours, unless others are named."""
        return replace(self, gates=gates or (names.QUEUE,))

    def of_a_daemon_set(self) -> "PodBuilder":
        """Nobody takes it away."""
        return replace(self, owner="DaemonSet")

    def unschedulable(self, message: str = "no") -> "PodBuilder":
        """The scheduler has tried it and found no node."""
        return replace(self, rejection=message)

    @property
    def raw(self) -> dict[str, object]:
        """As the API server writes it."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        condition["message"] = self.rejection
        meta: dict[str, object] = {
            "name": self.name,
            "namespace": "default",
            "uid": self.uid or f"uid-{self.name}",
            "resourceVersion": str(self.version),
            "annotations": dict(self.annotations),
        }
        if self.created_at:
            meta["creationTimestamp"] = self.created_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.owner:
            owner = {"apiVersion": "apps/v1", "kind": self.owner, "name": "o", "uid": "uid-o"}
            meta["ownerReferences"] = [owner]
        if self.deleted:
            meta["deletionTimestamp"] = "2026-11-23T09:00:00Z"
        spec: dict[str, object] = {
            "schedulerName": self.scheduler,
            "containers": list(self.apps) or [{"name": "main"}],
            "initContainers": list(self.inits),
        }
        if self.priority is not None:
            spec["priority"] = self.priority
        if self.node:
            spec["nodeName"] = self.node
        if self.gates:
            spec["schedulingGates"] = [{"name": gate} for gate in self.gates]
        status: dict[str, object] = {
            "phase": self.phase,
            "conditions": [condition] if self.rejection else [],
        }
        if self.nominated:
            status["nominatedNodeName"] = self.nominated
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}

    @property
    def obj(self) -> Pod:
        """The struct that our readers see."""
        return msgspec.convert(self.raw, Pod)


def a_pod(name: str = "p") -> PodBuilder:
    """A pod without GPUs, not bound."""
    return PodBuilder(name)


def _container(name: str, gpus: int, resource: str) -> dict[str, object]:
    amounts = {resource: str(gpus)} if gpus else {}
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}}


def _device(node: str, index: int, fields: dict[str, object]) -> Device:
    return msgspec.convert({"uuid": f"GPU-{node}-{index}", "index": index, **fields}, Device)
