"""kube-scheduler's requests and the answers that it expects: the JSON of scheduler extenders, version 1.

The Go structs have no JSON tags, so fields are sent under their Go names (``NodeNames``), while the pod
inside is a normal API object. Every field may be null. Source: k8s.io/kube-scheduler/extender/v1, 1.34-1.37.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from cluster.objects.meta import ready
from cluster.objects.pods import Pod

MAX_SCORE: Final = 10
"""Highest score of ``prioritize`` (MaxExtenderPriority)."""

WHOLE_NODES: Final = (
    "kube-scheduler sent whole Node objects; set nodeCacheCapable: true for this extender "
    "in its KubeSchedulerConfiguration"
)


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", gc=False):
    """A struct whose fields are named as in Go."""


@ready
class ExtenderArgs(_Wire, frozen=True):
    """ExtenderArgs: the request of ``filter`` and ``prioritize``."""

    pod: Pod
    node_names: tuple[str, ...] | None = None
    nodes: dict[str, Any] | None = None
    """Whole nodes, which we refuse: only ``nodeCacheCapable: true`` is served."""

    @property
    def has_whole_nodes(self) -> bool:
        """Whether the scheduler sent Node objects in place of names."""
        return self.node_names is None and self.nodes is not None


@ready
class ExtenderFilterResult(_Wire, frozen=True):
    """ExtenderFilterResult: the answer of ``filter``."""

    node_names: list[str] = []
    failed_nodes: dict[str, str] = {}
    """Nodes on which evicting pods would help. We never report any: see ``filter``."""
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """An encoded answer, and what to log about it once it has been sent."""

    text: bytes
    event: str
    line: Mapping[str, object] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Code of a reason -> number of nodes rejected for it."""


class HostPriority(_Wire, frozen=True):
    """HostPriority: the score of one node, 0 to ``MAX_SCORE``."""

    host: str
    score: int


@ready
class ExtenderBindingArgs(_Wire, frozen=True):
    """ExtenderBindingArgs: the request of ``bind``."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(_Wire, frozen=True):
    """ExtenderBindingResult: an empty error means bound."""

    error: str = ""


class MetaPod(_Wire, frozen=True):
    """MetaPod: a victim, by its uid."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(_Wire, frozen=True):
    """MetaVictims: the pods to evict on one node, the most important first."""

    pods: tuple[MetaPod, ...] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)

    @property
    def uids(self) -> tuple[str, ...]:
        """The victims' uids."""
        return tuple(pod.uid for pod in self.pods or ())


@ready
class ExtenderPreemptionArgs(_Wire, frozen=True):
    """ExtenderPreemptionArgs: the request of ``preempt``."""

    pod: Pod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_Wire, frozen=True):
    """ExtenderPreemptionResult: nodes on which evicting helps, with their victims."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}
