"""Pods with the fields that we read, and their requests for GPUs."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from sys import intern
from typing import Final, Literal

import msgspec
from msgspec.structs import force_setattr

from cluster import claim_names, names
from cluster.objects.claims import PodClaims
from cluster.objects.kept_once import Once, Parts, ReadOnce
from cluster.objects.meta import Instant, Meta, Owner, Partial
from cluster.objects.quantity import QuantityError, parse_count
from cluster.objects.selectors import Affinity, SpreadConstraint
from cluster.objects.volumes import PodVolume

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})

Kind = Literal["init", "sidecar", "app"]
"""The kind of a container: regular init container, sidecar (KEP-753) or app container."""


class Resources(Partial, frozen=True):
    """``resources`` of a container. Values as the API writes them: ``{"nvidia.com/gpu": "1"}``."""

    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None


class Port(Partial, frozen=True):
    """One entry of ``ports`` of a container, with the fields about the host port."""

    host_port: int | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)
    protocol: str | None = None


class Container(Partial, frozen=True):
    """One entry of ``spec.containers`` or ``spec.initContainers``."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: tuple[Port, ...] | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that keeps running (KEP-753). Means nothing for app containers."""
        return self.restart_policy == "Always"


class Containers(tuple[Container, ...]):
    """Containers of one kind: the same object for all pods that have equal ones."""

    __slots__ = ()


class Toleration(Partial, frozen=True):
    """One entry of ``spec.tolerations``."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Gate(Partial, frozen=True):
    """One entry of ``spec.schedulingGates``."""

    name: str = ""


class ClaimReference(Partial, frozen=True):
    """One entry of ``spec.resourceClaims``: a claim, or the template of one that the pod has alone."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimName(Partial, frozen=True):
    """One entry of ``status.resourceClaimStatuses``: the claim that was made from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class ResourceMapping(Partial, frozen=True):
    """One entry of ``requestMappings``: an extended resource, met by a request of the claim."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaim(Partial, frozen=True):
    """``status.extendedResourceClaimStatus``: the claim that kube-scheduler made for extended resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[ResourceMapping, ...] | None = None


class PodSpec(Partial, frozen=True):
    """``spec`` of a Pod."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    scheduling_gates: tuple[Gate, ...] | None = None
    termination_grace_period_seconds: int | None = None
    overhead: dict[str, str | int] | None = None
    resources: Resources | None = None
    """Resources of the pod as a whole, which replace the sums of the containers."""
    volumes: tuple[PodVolume, ...] | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resource_claims: tuple[ClaimReference, ...] | None = None


class Terminated(Partial, frozen=True):
    """``state.terminated`` of a container, which exists if it has ended."""

    started_at: datetime | None = None
    reason: str | None = None
    message: str | None = None

    @property
    def has_begun(self) -> bool:
        """False where it never ran: what could not be started has started in 1970 (containerd, CRI-O)."""
        return self.started_at is None or self.started_at > _NEVER


_NEVER = datetime(1970, 1, 2, tzinfo=UTC)


class Running(Partial, frozen=True):
    """``state.running`` of a container."""

    started_at: datetime | None = None


class ContainerState(Partial, frozen=True):
    """``state`` of a container: since when it runs, or whether it has ended."""

    running: Running | None = None
    terminated: Terminated | None = None


class DeviceStatus(Partial, frozen=True):
    """One device that the kubelet has given to a container."""

    resource_id: str = msgspec.field(name="resourceID", default="")
    health: str | None = None


class ResourceStatus(Partial, frozen=True):
    """One entry of ``allocatedResourcesStatus`` of a container's status."""

    name: str = ""
    resources: tuple[DeviceStatus, ...] | None = None


class InitContainerStatus(Partial, frozen=True):
    """One entry of ``status.initContainerStatuses``."""

    allocated_resources_status: tuple[ResourceStatus, ...] | None = None


class ContainerStatus(InitContainerStatus, frozen=True):
    """One entry of ``status.containerStatuses``."""

    name: str = ""
    state: ContainerState | None = None


class Condition(Partial, frozen=True):
    """One condition of a Pod or Node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(Partial, frozen=True):
    """``status`` of a Pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: datetime | None = None
    nominated_node_name: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[ClaimName, ...] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None
    init_container_statuses: tuple[InitContainerStatus, ...] | None = None


_LABELS: Final = Once[dict[str, str]]()
_OWNERS: Final = Once[tuple[Owner, ...]]()
_CONDITIONS: Final = Once[tuple[Condition, ...]]()
_TEMPLATES: Final = Parts(
    "scheduler_name",
    "priority_class_name",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
    "resources",
    containers=Containers,
    init_containers=Containers,
)
"""What pods of one template have in common."""


class Pod(Partial, frozen=True):
    """A v1 Pod, with the fields that we read. It shares with others what is equal."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    claims: PodClaims | None = msgspec.field(name=names.CLAIM_RESOURCE, default=None)
    """What it asks for by claims, where claims can be booked. No field of the API's: users cannot set it."""

    def __post_init__(self) -> None:
        """Share what is equal, unless it was made from a pod that does."""
        meta, spec, status = self.metadata, self.spec, self.status
        if type(spec.containers) is Containers:
            return
        if spec.containers is not None:
            _TEMPLATES.share(spec)
        if spec.node_name:
            force_setattr(spec, "node_name", intern(spec.node_name))
        if meta.namespace:
            force_setattr(meta, "namespace", intern(meta.namespace))
        if meta.annotations and (user := meta.annotations.get(names.USER)):
            meta.annotations[names.USER] = intern(user)
        if meta.labels:
            force_setattr(meta, "labels", _LABELS(meta.labels))
        if meta.owner_references:
            force_setattr(meta, "owner_references", _OWNERS(meta.owner_references))
        if status.phase:
            force_setattr(status, "phase", intern(status.phase))
        if status.conditions:
            force_setattr(status, "conditions", _CONDITIONS(status.conditions))

    @property
    def key(self) -> str:
        """``namespace/name``, for people; decisions use the uid."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class ContainerNeed(Partial, frozen=True):
    """The GPUs of one resource that one container requests."""

    name: str
    kind: Kind
    resource: str
    count: int


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has ended and holds no device any more."""
    return pod.status.phase in TERMINAL_PHASES


def container_needs(pod: Pod) -> tuple[ContainerNeed, ...]:
    """What each container requests, in the kubelet's order: init containers, then app containers.

    What the pod asks for by claims comes last, as a need without a container. Limits count, as in the
    kubelet; for extended resources requests equal limits by validation.

    Raises:
        QuantityError: a GPU amount is not a whole number (the API server refuses those).
    """
    inits, apps = pod.spec.init_containers, pod.spec.containers
    found = _of_apps(apps) if apps else ()
    if inits:
        found = (*_of_inits(inits), *found)
    if pod.claims and pod.claims.count:
        claimed, by_claim = pod.claims.count, pod.claims.resources
        if by_claim:  # kube-scheduler may have satisfied a name of ours by the claim
            found = tuple(need for need in found if need.resource not in by_claim)
        return (*found, ContainerNeed(name="", kind="app", resource=names.CLAIM_RESOURCE, count=claimed))
    return found


def _of_inits(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return _INITS(containers) if isinstance(containers, Containers) else _needs_of_inits(containers)


def _of_apps(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return _APPS(containers) if isinstance(containers, Containers) else _needs_of_apps(containers)


def _needs_of_inits(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return tuple(need for one in containers for need in _needs(one, "sidecar" if one.is_sidecar else "init"))


def _needs_of_apps(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return tuple(need for one in containers for need in _needs(one, "app"))


def extended_needs(pod: Pod) -> tuple[ContainerNeed, ...]:
    """What each container requests that Kubernetes may satisfy by a claim, as ``container_needs`` orders it.

    An amount that cannot be read counts as none.
    """
    inits, apps = pod.spec.init_containers, pod.spec.containers
    found = _of(apps, _EXTENDED_APPS, _extended_of_apps) if apps else ()
    return (*_of(inits, _EXTENDED_INITS, _extended_of_inits), *found) if inits else found


def _of(
    containers: tuple[Container, ...],
    known: ReadOnce[tuple[Container, ...], tuple[ContainerNeed, ...]],
    read: Callable[[tuple[Container, ...]], tuple[ContainerNeed, ...]],
) -> tuple[ContainerNeed, ...]:
    return known(containers) if isinstance(containers, Containers) else read(containers)


def _extended_of_inits(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return tuple(
        need for one in containers for need in _extended(one, "sidecar" if one.is_sidecar else "init")
    )


def _extended_of_apps(containers: tuple[Container, ...]) -> tuple[ContainerNeed, ...]:
    return tuple(need for one in containers for need in _extended(one, "app"))


def _extended(container: Container, kind: Kind) -> Iterator[ContainerNeed]:
    limits = (container.resources.limits if container.resources else None) or {}
    for name in sorted(filter(claim_names.may_be_by_claim, limits)):
        with suppress(QuantityError):
            if count := parse_count(str(limits[name])):
                yield ContainerNeed(name=container.name, kind=kind, resource=name, count=count)


def unmade_claims(pod: Pod) -> list[str]:
    """What the pod calls its claims that are still to be made from templates; none of one that is bound."""
    made = {one.name for one in pod.status.resource_claim_statuses or ()}
    claims = () if pod.spec.node_name else pod.spec.resource_claims or ()
    return [one.name for one in claims if one.resource_claim_template_name and one.name not in made]


def may_have_claims(pod: Pod) -> bool:
    """Whether a pod names claims, or has or may get one for extended resources."""
    status = pod.status.extended_resource_claim_status
    return bool(pod.spec.resource_claims) or status is not None or bool(extended_needs(pod))


_INITS: Final = ReadOnce(_needs_of_inits)
_APPS: Final = ReadOnce(_needs_of_apps)
_EXTENDED_INITS: Final = ReadOnce(_extended_of_inits)
_EXTENDED_APPS: Final = ReadOnce(_extended_of_apps)


def _needs(container: Container, kind: Kind) -> list[ContainerNeed]:
    limits = (container.resources.limits if container.resources else None) or {}
    counts = {name: parse_count(str(limits[name])) for name in limits if names.is_gpu_resource(name)}
    return [
        ContainerNeed(name=container.name, kind=kind, resource=resource, count=count)
        for resource, count in sorted(counts.items())
        if count > 0
    ]


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is terminating. It still holds its devices until its containers have ended."""
    return pod.metadata.deletion_timestamp is not None


def is_live(pod: Pod) -> bool:
    """Whether the pod has neither ended nor is terminating."""
    return not is_terminal(pod) and not is_terminating(pod)


def has_scheduler_error(pod: Pod) -> bool:
    """Whether kube-scheduler's last attempt ended with an error, and not with a verdict on nodes."""
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "SchedulerError"
        for one in pod.status.conditions or ()
    )


def first_created(pod: Pod) -> datetime:
    """When the pod was first created: a pod that came back keeps that instant (``names.FIRST_CREATED``)."""
    created = pod.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    text = pod.metadata.annotation(names.FIRST_CREATED)
    if not text:
        return created
    try:
        first: datetime = msgspec.convert(text, Instant, strict=False)
    except msgspec.ValidationError:
        return created  # only we write it; a value that cannot be read is ignored
    return first


def has_condition(pod: Pod, kind: str) -> bool:
    """Whether a condition of this type is ``True``."""
    return any(c.type == kind and c.status == "True" for c in pod.status.conditions or ())


def asks_for_gpus(pod: Pod) -> bool:
    """Whether any container requests a GPU resource.

    Raises:
        QuantityError: a GPU amount is not a whole number.
    """
    return bool(container_needs(pod))


def is_for_gpus(pod: Pod) -> bool:
    """Whether a pod asks for GPUs, or has claims and was admitted or bound for GPUs, also when they are over.

    Raises:
        QuantityError: a GPU amount is not a whole number.
    """
    has_class = pod.spec.priority_class_name in (names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS)
    is_known = has_class or pod.metadata.annotation(names.ASSIGNED) is not None
    return asks_for_gpus(pod) or (is_known and may_have_claims(pod))


_ANY: Final[frozenset[str]] = frozenset()


def requested_models(pod: Pod) -> frozenset[str]:
    """Models that the pod accepts, in label form; empty for any."""
    return models_in(pod.metadata.annotation(names.MODEL))


def models_in(text: str | None) -> frozenset[str]:
    """The models that an annotation ``names.MODEL`` lists, in label form; empty for any."""
    return frozenset(names.model_label(part) for part in text.split(",") if part.strip()) if text else _ANY
