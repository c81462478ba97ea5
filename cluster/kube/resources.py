"""Kinds of API objects: the path of each on the API server, and the struct that it is read into.

Used by every caller of the API server through ``cluster.kube.interface.Kube``.
"""

import builtins
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from cluster import names
from cluster.objects.bookings import Booking
from cluster.objects.claims import ClaimTemplate, DeviceClass, ResourceClaim, ResourceSlice, TaintRule
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.failed_pods import FailedMeta, FailedPod
from cluster.objects.jobs import Job
from cluster.objects.limit_ranges import LimitRange
from cluster.objects.meta import Meta, Partial, ready
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Lease, Node
from cluster.objects.notebooks import Notebook
from cluster.objects.pods import Pod
from cluster.objects.resource_quotas import ResourceQuota
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim


class Object(Protocol):
    """Anything with ``metadata``: all that a client needs to know of an object."""

    @property
    def metadata(self) -> Meta:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind of object: its address and its struct."""

    group: str
    """``""`` for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]

    def __post_init__(self) -> None:
        """Prepare its struct for decoding in many threads."""
        ready(self.type)

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The path on the API server.

        Args:
            namespace: None means all namespaces, or a kind without namespaces.
            name: None means the collection.
            subresource: e.g. ``binding``; only with a name.

        Raises:
            ValueError: a namespace is given for a kind that has none, a name without its namespace, or a
                subresource without a name.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.kind} objects have no namespace, but {namespace!r} was given.")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"The {self.kind} {name!r} needs its namespace.")
        if subresource is not None and name is None:
            raise ValueError(f"The subresource {subresource!r} of a {self.kind} needs the object's name.")
        root = "apis" if self.group else "api"
        scope = ["namespaces", namespace] if namespace is not None else []
        parts = [root, *self.api_version.split("/"), *scope, self.plural, name, subresource]
        return "/" + "/".join(_quoted(part) for part in parts if part is not None)


@lru_cache(maxsize=4096)
def _quoted(part: str) -> str:
    return quote(part, safe="")


class InvolvedObject(Partial, frozen=True):
    """The object that an Event is about."""

    kind: str = ""
    name: str = ""


class EventSeries(Partial, frozen=True):
    """``series`` of an Event that is repeated."""

    last_observed_time: datetime | None = None


class KubeEvent(Partial, frozen=True):
    """A v1 Event: a message about an object, for people (``kubectl describe``)."""

    metadata: Meta = Meta()
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None
    involved_object: InvolvedObject = InvolvedObject()


class WholePod(Partial, frozen=True):
    """A Pod with all of its ``spec`` and ``status``, from which it can be created again."""

    metadata: FailedMeta = FailedMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)
    gpu_claims: tuple[str, ...] = msgspec.field(name=names.CLAIM_RESOURCE, default=())
    """What it calls its claims for GPUs, where claims can be booked; no field of the API's."""


class PodTemplate(Partial, frozen=True):
    """A v1 PodTemplate: a pod that must come back."""

    metadata: Meta = Meta()
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class Secret(Partial, frozen=True):
    """A v1 Secret. Values are base64."""

    metadata: Meta = Meta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMap(Partial, frozen=True):
    """A v1 ConfigMap."""

    metadata: Meta = Meta()
    data: dict[str, str] | None = None


class MutatingWebhooks(Partial, frozen=True):
    """An admissionregistration.k8s.io/v1 MutatingWebhookConfiguration."""

    metadata: Meta = Meta()
    webhooks: list[dict[str, Any]] = msgspec.field(default_factory=list)


PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=Pod)
NODES: Final = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=Node)
NAMESPACES: Final = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Namespace
)
EVENTS: Final = Resource(
    group="", version="v1", plural="events", kind="Event", namespaced=True, type=KubeEvent
)
QUOTAS: Final = Resource(
    group="", version="v1", plural="resourcequotas", kind="ResourceQuota", namespaced=True, type=ResourceQuota
)
LEASES: Final = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True, type=Lease
)
BOOKINGS: Final = Resource(
    group=names.DOMAIN, version="v1", plural="bookings", kind="Booking", namespaced=False, type=Booking
)
WHOLE_PODS: Final = Resource(
    group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=WholePod
)
FAILED_PODS: Final = Resource(
    group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=FailedPod
)
NOTEBOOKS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=Notebook)
POD_TEMPLATES: Final = Resource(
    group="", version="v1", plural="podtemplates", kind="PodTemplate", namespaced=True, type=PodTemplate
)
VOLUME_CLAIMS: Final = Resource(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    namespaced=True,
    type=VolumeClaim,
)
VOLUMES: Final = Resource(
    group="", version="v1", plural="persistentvolumes", kind="PersistentVolume", namespaced=False, type=Volume
)
STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    kind="StorageClass",
    namespaced=False,
    type=StorageClass,
)
JOBS: Final = Resource(group="batch", version="v1", plural="jobs", kind="Job", namespaced=True, type=Job)
DISRUPTION_BUDGETS: Final = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    namespaced=True,
    type=DisruptionBudget,
)
RESOURCE_CLAIMS: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaims",
    kind="ResourceClaim",
    namespaced=True,
    type=ResourceClaim,
)
RESOURCE_SLICES: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="resourceslices",
    kind="ResourceSlice",
    namespaced=False,
    type=ResourceSlice,
)
CLAIM_TEMPLATES: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    namespaced=True,
    type=ClaimTemplate,
)
DEVICE_CLASSES: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="deviceclasses",
    kind="DeviceClass",
    namespaced=False,
    type=DeviceClass,
)
TAINT_RULES: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="devicetaintrules",
    kind="DeviceTaintRule",
    namespaced=False,
    type=TaintRule,
)
SECRETS: Final = Resource(
    group="", version="v1", plural="secrets", kind="Secret", namespaced=True, type=Secret
)
CONFIG_MAPS: Final = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=ConfigMap
)
MUTATING_WEBHOOKS: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
    type=MutatingWebhooks,
)
LIMIT_RANGES: Final = Resource(
    group="", version="v1", plural="limitranges", kind="LimitRange", namespaced=True, type=LimitRange
)
