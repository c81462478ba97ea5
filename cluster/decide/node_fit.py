"""Whether a node suits a pod, whatever else runs there: readiness, taints, selectors, size.

CPU and memory are compared with what the node has, not with what is free. Constraints that depend on other
pods and on volumes are in ``cluster.decide.scheduler_filters``, which builds on this. Source: kube-scheduler
1.37, plugins NodeUnschedulable, TaintToleration, NodeAffinity and NodeResourcesFit.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from cluster.objects.nodes import Node, Taint
from cluster.objects.pods import Container, Pod, Toleration
from cluster.objects.quantity import QuantityError, parse_amount
from cluster.objects.selectors import NodeSelector, NodeSelectorTerm, Requirement

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a pod must tolerate to be placed on a node with ``spec.unschedulable``."""
FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
NAME_FIELD: Final = "metadata.name"

NOT_READY: Final = "the node is not ready"
CORDONED: Final = "the node is cordoned"
TAINTED: Final = "the node has a taint that the pod does not tolerate"
NOT_SELECTED: Final = "the node does not match the pod's node selector or affinity"
TOO_BIG: Final = "the pod asks for more CPU, memory or storage than the node has"

_SIZES: Final = ("cpu", "memory", "ephemeral-storage")


def node_rejection(pod: Pod, node: Node) -> str | None:
    """Why the node does not suit the pod, devices aside; None if it does."""
    return affinity_rejection(pod, node) or (TOO_BIG if _is_too_big(pod, node) else None)


def affinity_rejection(pod: Pod, node: Node) -> str | None:
    """Why readiness, taints or selectors keep the pod off the node, sizes aside; None if they do not.

    A node that reports nothing about its readiness does not count as unready: its taints decide.
    """
    if any(c.type == "Ready" and c.status != "True" for c in node.status.conditions or ()):
        return NOT_READY
    if node.spec.unschedulable and not tolerates_cordon(pod):
        return CORDONED
    if not tolerates_taints(pod, node):
        return TAINTED
    return None if is_selected(pod, node) else NOT_SELECTED


def tolerates_cordon(pod: Pod) -> bool:
    """Whether the pod may be placed on a cordoned node."""
    return _tolerated(UNSCHEDULABLE, pod.spec.tolerations or ())


def tolerates_taints(pod: Pod, node: Node) -> bool:
    """Whether the pod tolerates every taint of the node that keeps pods away."""
    tolerations = pod.spec.tolerations or ()
    taints = (taint for taint in node.spec.taints or () if taint.effect in FORBIDDING)
    return all(_tolerated(taint, tolerations) for taint in taints)


def _is_too_big(pod: Pod, node: Node) -> bool:
    """Whether the pod would not fit on the node if it were empty. An unreadable size is ignored."""
    has = node.status.allocatable or {}
    try:
        return any(name in has and _needed(pod, name) > parse_amount(str(has[name])) for name in _SIZES)
    except QuantityError:
        return False


def _needed(pod: Pod, name: str) -> Decimal:
    """What the pod needs at least: all containers that run side by side, or the largest that runs alone."""
    inits, apps = pod.spec.init_containers or (), pod.spec.containers or ()
    together = sum((_requested(one, name) for one in (*apps, *(i for i in inits if i.is_sidecar))), Decimal())
    alone = max((_requested(one, name) for one in inits if not one.is_sidecar), default=Decimal())
    return max(together, alone) + parse_amount(str((pod.spec.overhead or {}).get(name, 0)))


def _requested(container: Container, name: str) -> Decimal:
    requests = (container.resources.requests if container.resources else None) or {}
    return parse_amount(str(requests.get(name, 0)))


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect means every effect, an empty key every key."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.value or "") == (taint.value or "")


def is_selected(pod: Pod, node: Node) -> bool:
    """Whether the node matches the pod's node selector and required node affinity."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any_term_matches(affinity.required, node)


def any_term_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the terms matches the node."""
    labels = node.metadata.labels or {}
    terms = selector.node_selector_terms or ()
    return any(_matches(term, labels, node.metadata.name) for term in terms)


def _matches(term: NodeSelectorTerm, labels: dict[str, str], name: str) -> bool:
    """An empty term matches nothing."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    return all(holds(wanted, labels.get(wanted.key)) for wanted in expressions) and all(
        wanted.key == NAME_FIELD and holds(wanted, name) for wanted in fields
    )


def holds(wanted: Requirement, value: str | None) -> bool:
    """Whether a label's value meets a requirement; ``value`` is None if there is no such label."""
    values = wanted.values or ()
    match wanted.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(wanted.operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    try:
        found, (limit,) = int(value or ""), map(int, values)
    except ValueError:
        return False
    return found > limit if operator == "Gt" else found < limit
