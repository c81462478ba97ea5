"""Which pods a PodDisruptionBudget is about. Pure. How many of them may leave, the API server counts."""

from collections.abc import Iterable

from cluster.decide.scheduler_filters.affinity_terms import selects
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.pods import Pod


def budgets_of(pod: Pod, budgets: Iterable[DisruptionBudget]) -> tuple[DisruptionBudget, ...]:
    """The budgets that select a pod, by name. The API server evicts no running pod that has several."""
    found = [one for one in budgets if is_about(one, pod)]
    return tuple(sorted(found, key=lambda one: one.key))


def is_about(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the budget selects the pod."""
    same = budget.metadata.namespace == pod.metadata.namespace
    return same and selects(budget.spec.selector, pod.metadata.labels or {})
