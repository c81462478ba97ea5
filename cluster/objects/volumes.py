"""Claims, volumes and their classes, with the fields that restrict where a pod may run."""

from typing import Final

from cluster.objects.meta import Meta, Partial
from cluster.objects.selectors import LabelSelector, NodeSelector

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose binding to its volume is done."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim with the node for which its volume is being provisioned."""
CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation that names the class; it wins over the field."""
BY_HAND: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes administrators create."""
WAITS_FOR_POD: Final = "WaitForFirstConsumer"
"""Binding mode of classes whose volumes are chosen or provisioned when the pod's node is known."""
ONE_POD: Final = "ReadWriteOncePod"
"""Access mode of a claim that only one pod at a time may use."""


class ResourceRequests(Partial, frozen=True):
    """``spec.resources`` of a PersistentVolumeClaim."""

    requests: dict[str, str] | None = None


class ClaimSpec(Partial, frozen=True):
    """``spec`` of a PersistentVolumeClaim."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: ResourceRequests | None = None
    selector: LabelSelector | None = None


class ClaimStatus(Partial, frozen=True):
    """``status`` of a PersistentVolumeClaim."""

    phase: str | None = None


class VolumeClaim(Partial, frozen=True):
    """A v1 PersistentVolumeClaim."""

    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def storage_class(self) -> str:
        """Name of its class; empty if it has none."""
        written = self.metadata.annotation(CLASS)
        return (self.spec.storage_class_name or "") if written is None else written

    @property
    def is_bound(self) -> bool:
        """Whether the claim is bound to its volume, completely."""
        return bool(self.spec.volume_name) and self.metadata.annotation(BIND_COMPLETED) is not None


class VolumeNodeAffinity(Partial, frozen=True):
    """``spec.nodeAffinity`` of a PersistentVolume."""

    required: NodeSelector | None = None


class ClaimReference(Partial, frozen=True):
    """``spec.claimRef`` of a PersistentVolume: the claim that it belongs to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(Partial, frozen=True):
    """``spec`` of a PersistentVolume."""

    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, str] | None = None
    claim_ref: ClaimReference | None = None


class VolumeStatus(Partial, frozen=True):
    """``status`` of a PersistentVolume."""

    phase: str | None = None


class Volume(Partial, frozen=True):
    """A v1 PersistentVolume."""

    metadata: Meta = Meta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(Partial, frozen=True):
    """One entry of ``matchLabelExpressions``."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Partial, frozen=True):
    """One of the terms of ``allowedTopologies``, of which one must match."""

    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(Partial, frozen=True):
    """A storage.k8s.io/v1 StorageClass."""

    metadata: Meta = Meta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class Ephemeral(Partial, frozen=True):
    """``ephemeral`` of a pod's volume, whose claim is named after pod and volume."""


class ClaimSource(Partial, frozen=True):
    """``persistentVolumeClaim`` of a pod's volume."""

    claim_name: str = ""


class PodVolume(Partial, frozen=True):
    """One entry of a pod's ``spec.volumes``, with the fields about its claim."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Ephemeral | None = None
