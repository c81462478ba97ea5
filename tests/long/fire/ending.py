"""How a story has ended: a value that two stories share when they have ended the same.

Nothing random is in it. Uids and devices differ from run to run, so a device is called by the pod that first
had it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import NODES, POD_TEMPLATES, WHOLE_PODS, WholePod
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod
from devcluster import probe
from tests.e2e.playground import Playground

PASSING = (names.HOLD, names.BARRED, names.NOTICE)
"""Annotations that must have gone in the end."""


@dataclass(frozen=True)
class Fate:
    """What has become of one pod."""

    phase: str
    device: str | None
    """The pod whose device it has, by Binding, kubelet's checkpoint and container; None: no GPU."""
    model: str | None = None
    first: bool = True
    """It is the pod that was created; False: it came back, once, in that one's place."""
    restarts: int = 0
    left_over: tuple[str, ...] = ()
    """Finalizers, labels and annotations that should have gone."""


@dataclass(frozen=True)
class Ending:
    """All that a story leaves behind in its namespace, and on the nodes."""

    pods: Mapping[str, Fate]
    templates: int = 0
    drift: tuple[str, ...] = ()
    """Nodes on which a device is really in another pod than was intended."""


@dataclass
class Origins:
    """Who was there first: written by the story while it plays."""

    uids: dict[str, str] = field(default_factory=dict)
    """Pod -> uid of the one that was served first under that name."""
    devices: dict[str, str] = field(default_factory=dict)
    """Device -> the pod that had it first."""

    def remember(self, pod: Pod) -> None:
        """A pod that runs for the first time."""
        self.uids[pod.metadata.name] = pod.metadata.uid
        for device in devices_of(assignment_of(pod) or {}):
            self.devices.setdefault(device, pod.metadata.name)


def read_ending(ground: Playground, origins: Origins, *, see_inside: bool = True) -> Ending:
    """The state as it is now.

    Args:
        ground: where the story was played.
        origins: who was there first.
        see_inside: compare with what the containers see, which takes a kubectl each.
    """
    pods = ground.kube.list(WHOLE_PODS, Selection(namespace=ground.namespace)).items
    templates = ground.kube.list(POD_TEMPLATES, Selection(namespace=ground.namespace)).items
    nodes = ground.kube.list(NODES).items
    return Ending(
        pods={
            pod.metadata.name: _fate(ground, pod, origins, see_inside=see_inside)
            for pod in sorted(pods, key=lambda one: one.metadata.name)
        },
        templates=len(templates),
        drift=tuple(node.metadata.name for node in nodes if node.metadata.annotation(names.DRIFT)),
    )


def _fate(ground: Playground, whole: WholePod, origins: Origins, *, see_inside: bool) -> Fate:
    meta = whole.metadata
    pod = msgspec.convert({"metadata": {}, "spec": whole.spec, "status": whole.status}, Pod)
    chosen = devices_of(assignment_of(msgspec.structs.replace(pod, metadata=meta)) or {})
    return Fate(
        phase=_phase(whole),
        device=_device(ground, whole, chosen, origins, see_inside=see_inside),
        model=_models(ground, chosen),
        first=_is_first(whole, origins),
        restarts=sum(status.get("restartCount", 0) for status in _statuses(whole)),
        left_over=left_over(whole),
    )


def _phase(whole: WholePod) -> str:
    if whole.metadata.deletion_timestamp:
        return "Terminating"
    reason = whole.status.get("reason")
    return f"{whole.status.get('phase')}{f' ({reason})' if reason else ''}"


def _device(
    ground: Playground, whole: WholePod, chosen: frozenset[str], origins: Origins, *, see_inside: bool
) -> str | None:
    """Whose device it has, if everybody says the same; else what they say."""
    recorded = frozenset[str]().union(*ground.laws.recorded(whole.metadata.uid).values())
    by_source: dict[str, AbstractSet[str]] = {"the Binding": chosen, "the kubelet": recorded}
    if see_inside:
        by_source["the container"] = _seen(ground, whole.metadata.name)
    if len({frozenset(devices) for devices in by_source.values()}) > 1:
        return f"contradiction: {by_source}"
    return ", ".join(sorted(origins.devices.get(device, device) for device in chosen)) or None


def _seen(ground: Playground, name: str) -> set[str]:
    sight = probe.read_sight(ground.kubectl, namespace=ground.namespace, name=name)
    if sight is None:
        return {"it has said nothing"}
    if not sight.uuids and sight.gpu_minors:
        return {f"/dev/nvidia{minor}" for minor in sight.gpu_minors}
    return set(sight.uuids)


def _models(ground: Playground, devices: frozenset[str]) -> str | None:
    known = ground.inventory() if devices else {}
    return ", ".join(sorted(known[d][1].model if d in known else "unknown" for d in devices)) or None


def _is_first(whole: WholePod, origins: Origins) -> bool:
    """Whether it is the first pod of its name.

    Raises:
        AssertionError: it is neither that one nor the one that came back for it.
    """
    meta, origin = whole.metadata, origins.uids.get(whole.metadata.name)
    came_from = meta.annotation(names.RECREATED_FROM)
    assert origin in {meta.uid, came_from}, (
        f"{meta.name} is {meta.uid} and came back for {came_from}, but the first one was {origin}"
    )
    return meta.uid == origin


def left_over(whole: WholePod) -> tuple[str, ...]:
    """Finalizers, labels and annotations that should have gone."""
    meta = whole.metadata
    return (
        *(f"finalizer {one}" for one in meta.finalizers or ()),
        *(f"label {key}" for key in meta.labels or {} if names.is_ours(key)),
        *(f"annotation {key}" for key in PASSING if meta.annotation(key)),
    )


def _statuses(whole: WholePod) -> list[dict[str, Any]]:
    return list(whole.status.get("containerStatuses") or ())
