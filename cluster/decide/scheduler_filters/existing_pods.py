"""Pods that are on nodes already, reduced to what matters for another pod: there are many of them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.decide.scheduler_filters.affinity_terms import Term, terms_of
from cluster.decide.scheduler_filters.resource_amounts import Amounts, requests
from cluster.objects.pods import Container, Pod, is_live

Taken = tuple[str, str, int]
"""A host port: address, protocol, number."""

EVERYWHERE: Final = "0.0.0.0"
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class ExistingPod(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a pod on a node."""

    uid: str
    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    anti_affinity: tuple[Term, ...] = ()
    """Its required anti-affinity."""
    ports: tuple[Taken, ...] = ()
    claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims that it mounts."""


class NodePods(msgspec.Struct, frozen=True, gc=False):
    """The pods on a node that are not terminating, and the sum of their requests."""

    others: tuple[ExistingPod, ...] = ()
    used: Mapping[str, int] = _NOTHING
    with_anti_affinity: tuple[ExistingPod, ...] = ()


def other_of(pod: Pod) -> ExistingPod | None:
    """The part of a pod that matters; None for one that has ended or is terminating.

    A terminating pod still has its resources, but will have freed them when another takes its place.
    """
    if not is_live(pod):
        return None
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return ExistingPod(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels or _NO_LABELS,
        requests=requests(pod),
        anti_affinity=terms_of(anti, pod.metadata.namespace),
        ports=ports_of(pod),
        claims=tuple(
            volume.persistent_volume_claim.claim_name
            for volume in pod.spec.volumes or ()
            if volume.persistent_volume_claim
        ),
    )


def node_pods_of(others: Iterable[ExistingPod]) -> NodePods:
    """The pods of one node, summed up."""
    kept = tuple(others)
    used: dict[str, int] = {}
    for other in kept:
        for name, amount in other.requests:
            used[name] = used.get(name, 0) + amount
    return NodePods(
        others=kept, used=used, with_anti_affinity=tuple(other for other in kept if other.anti_affinity)
    )


def ports_of(pod: Pod) -> tuple[Taken, ...]:
    """Host ports that the pod uses: those of app containers and sidecars."""
    sidecars = (one for one in pod.spec.init_containers or () if one.is_sidecar)
    return tuple(taken for one in (*(pod.spec.containers or ()), *sidecars) for taken in _taken(one))


def _taken(container: Container) -> list[Taken]:
    return [
        (port.host_ip or EVERYWHERE, port.protocol or "TCP", port.host_port)
        for port in container.ports or ()
        if port.host_port
    ]
