"""Pods and records for tests of the pure decisions."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.pods import Container, Pod, PodSpec, PodStatus, Resources
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import NodeState

GPU = names.GPU_RESOURCE
LONG_AGO = datetime(2026, 3, 2, tzinfo=UTC)


MIG = "nvidia.com/mig-1g.5gb"
SHARED = names.SHARED_RESOURCE


def container(name: str, gpus: int, *, slices: int = 0, sidecar: bool = False) -> Container:
    """A container that needs so many GPUs, and so many MIG devices."""
    requested = {GPU: gpus, MIG: slices}
    limits: dict[str, str | int] | None = {
        name: str(count) for name, count in requested.items() if count
    } or None
    return Container(
        name=name, resources=Resources(limits=limits), restart_policy="Always" if sidecar else None
    )


def share(name: str, gpus: int = 1, **limits: str | int) -> Container:
    """A container that needs a share of so many GPUs."""
    return Container(name=name, resources=Resources(limits={SHARED: gpus, **limits}))


def pod(
    uid: str,
    gpus: int = 1,
    *,
    assignment: Mapping[str, list[str]] | list[str] | None = None,
    init: tuple[Container, ...] = (),
    app: tuple[Container, ...] | None = None,
    phase: str = "Pending",
    started: bool = False,
    model: str | None = None,
    created: int | None = None,
) -> Pod:
    """A pod; ``assignment`` as a list is that of its container ``main``, ``created`` counts seconds."""
    at = None if created is None else LONG_AGO + timedelta(seconds=created)
    annotations = {}
    if assignment is not None:
        text = {"main": assignment} if isinstance(assignment, list) else assignment
        annotations[names.ASSIGNED] = json.dumps(text)
    if model:
        annotations[names.MODEL] = model
    return Pod(
        metadata=Meta(
            name=f"pod-{uid}", namespace="default", uid=uid, annotations=annotations, creation_timestamp=at
        ),
        spec=PodSpec(containers=app or (container("main", gpus),), init_containers=init),
        status=PodStatus(phase=phase, start_time=LONG_AGO if started else None),
    )


def held(**places: str) -> PodDevices:
    """Holdings of containers ``main`` by pod uid; several devices with spaces: ``held(a="GPU-0 GPU-1")``."""
    return PodDevices({(uid, "main"): frozenset(text.split()) for uid, text in places.items()})


def view(*pods: Pod, holdings: PodDevices | None = None, remembered: bool = False) -> NodeState:
    """What is known: these pods and this checkpoint (an empty one by default)."""
    return NodeState(GPU, holdings or PodDevices(), pods, remembered=remembered)
