"""Whether a pod can have its volumes on a node.

Source: kube-scheduler 1.37, VolumeBinding, VolumeZone and VolumeRestrictions.
"""

from typing import Final

from cluster.decide.node_fit import any_term_matches
from cluster.decide.scheduler_filters.affinity_terms import selects
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.resource_amounts import nano
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import (
    BY_HAND,
    ONE_POD,
    SELECTED_NODE,
    WAITS_FOR_POD,
    PodVolume,
    StorageClass,
    Volume,
    VolumeClaim,
)

NO_CLAIM: Final = "a volume claim of the pod does not exist"
LOST: Final = "a volume claim of the pod has lost its volume or is being deleted"
UNBOUND: Final = "a volume claim of the pod is not bound yet"
NO_VOLUME: Final = "the volume of a claim of the pod does not exist"
ELSEWHERE: Final = "a volume of the pod cannot be used on the node"
NONE_TO_BIND: Final = "there is no volume for a claim of the pod on the node"
IN_USE: Final = "another pod uses a volume that one pod at a time may use"

_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say in which zone or region a volume is -> the newer name of each."""
_STORAGE: Final = "storage"
_FILES: Final = "Filesystem"


class Volumes:
    """The volumes of one pod."""

    def __init__(self, pod: Pod, cluster_objects: ClusterObjects) -> None:
        self._cluster_objects = cluster_objects
        self._bound: list[Volume] = []
        self._pending: list[VolumeClaim] = []
        self._users: frozenset[str] = frozenset()
        mounts = [v for v in pod.spec.volumes or () if v.persistent_volume_claim or v.ephemeral]
        self._mounts = bool(mounts)
        self._problem = next(filter(None, (self._take_in(mount, pod) for mount in mounts)), None)
        if self._mounts:
            self._users = _users(mounts, pod, cluster_objects)

    def __bool__(self) -> bool:
        """Whether it mounts any claim."""
        return self._mounts

    def rejection(self, node: Node, without: frozenset[str]) -> str | None:
        """Why the pod cannot have its volumes on the node once these pods are gone; None if it can."""
        if self._problem:
            return self._problem
        if self._users - without:
            return IN_USE
        if not all(_reaches(volume, node) and _is_in_zone(volume, node) for volume in self._bound):
            return ELSEWHERE
        return None if self._can_be_bound(node) else NONE_TO_BIND

    def _take_in(self, mount: PodVolume, pod: Pod) -> str | None:
        """Take in one volume. Returns why the pod cannot run on any node because of it; None if it can."""
        claim = self._cluster_objects.claims.get(f"{pod.metadata.namespace}/{_claim_name(mount, pod)}")
        if claim is None or (mount.ephemeral and not _is_owned(claim, pod)):
            return NO_CLAIM
        if claim.status.phase == "Lost" or claim.metadata.deletion_timestamp:
            return LOST
        if claim.is_bound:
            volume = self._cluster_objects.volumes.get(claim.spec.volume_name or "")
            if volume is None:
                return NO_VOLUME
            self._bound.append(volume)
            return None
        kind = self._cluster_objects.classes.get(claim.storage_class)
        if kind is None or kind.volume_binding_mode != WAITS_FOR_POD or claim.spec.volume_name:
            return UNBOUND
        self._pending.append(claim)
        return None

    def _can_be_bound(self, node: Node) -> bool:
        """Whether each claim that waits for a node finds a volume here or can get one; smallest first."""
        chosen: set[str] = set()
        to_make: list[VolumeClaim] = []
        for claim in sorted(self._pending, key=_size):
            selected = claim.metadata.annotation(SELECTED_NODE)
            if selected is not None and selected != node.metadata.name:
                return False
            found = None if selected else self._volume_for(claim, node, chosen)
            if found:
                chosen.add(found.metadata.name)
            else:
                to_make.append(claim)
        return all(
            _can_be_made(self._cluster_objects.classes[claim.storage_class], node) for claim in to_make
        )

    def _volume_for(self, claim: VolumeClaim, node: Node, chosen: set[str]) -> Volume | None:
        """The volume that is reserved for the claim, or else the smallest free one; None if there is none."""
        fitting = [
            volume
            for volume in self._cluster_objects.volumes.values()
            if volume.metadata.name not in chosen and _could_be(volume, claim)
        ]
        for volume in fitting:
            if volume.spec.claim_ref:
                return volume if _reaches(volume, node) else None
        free = (volume for volume in fitting if volume.status.phase == "Available" and _reaches(volume, node))
        return min(free, key=_capacity, default=None)


def _users(mounts: list[PodVolume], pod: Pod, cluster_objects: ClusterObjects) -> frozenset[str]:
    """Uids of pods that use a claim of this pod which only one pod at a time may use."""
    namespace = pod.metadata.namespace
    named = {v.persistent_volume_claim.claim_name for v in mounts if v.persistent_volume_claim}
    claims = {name: cluster_objects.claims.get(f"{namespace}/{name}") for name in named}
    exclusive = {name for name, one in claims.items() if one and ONE_POD in (one.spec.access_modes or ())}
    if not exclusive:
        return frozenset()
    standing = (
        other for _, other in cluster_objects.standing() if other.namespace == namespace and other.claims
    )
    return frozenset(other.uid for other in standing if not exclusive.isdisjoint(other.claims))


def _claim_name(mount: PodVolume, pod: Pod) -> str:
    """The name of a volume's claim; an ephemeral volume's claim is named after pod and volume."""
    named = mount.persistent_volume_claim
    return named.claim_name if named else f"{pod.metadata.name}-{mount.name}"


def _is_owned(claim: VolumeClaim, pod: Pod) -> bool:
    return any(
        one.uid == pod.metadata.uid and one.controller for one in claim.metadata.owner_references or ()
    )


def _reaches(volume: Volume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or any_term_matches(affinity.required, node)


def _is_in_zone(volume: Volume, node: Node) -> bool:
    """Whether the node is in the zone and region of the volume's labels; True for a node without any."""
    labels = node.metadata.labels or {}
    if labels.keys().isdisjoint(_ZONES):
        return True
    return all(
        labels.get(key, labels.get(_ZONES[key])) in set(value.split("__"))
        for key, value in (volume.metadata.labels or {}).items()
        if key in _ZONES
    )


def _can_be_made(kind: StorageClass, node: Node) -> bool:
    if kind.provisioner == BY_HAND:
        return False
    labels = node.metadata.labels or {}
    terms = kind.allowed_topologies or ()
    return not terms or any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions or ()) for term in terms
    )


def _could_be(volume: Volume, claim: VolumeClaim) -> bool:
    """Whether the volume belongs to the claim or may be bound to it, wherever it is."""
    spec, wanted, owner = volume.spec, claim.spec, volume.spec.claim_ref
    if volume.metadata.deletion_timestamp or _capacity(volume) < _size(claim):
        return False
    if (spec.volume_mode or _FILES) != (wanted.volume_mode or _FILES):
        return False
    if owner:
        mine = (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name)
        return mine and owner.uid in {"", claim.metadata.uid}
    return (
        (spec.storage_class_name or "") == claim.storage_class
        and set(wanted.access_modes or ()) <= set(spec.access_modes or ())
        and (wanted.selector is None or selects(wanted.selector, volume.metadata.labels or {}))
    )


def _capacity(volume: Volume) -> int:
    return nano(str((volume.spec.capacity or {}).get(_STORAGE, "0")))


def _size(claim: VolumeClaim) -> int:
    requests = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    return nano(str(requests.get(_STORAGE, "0")))
