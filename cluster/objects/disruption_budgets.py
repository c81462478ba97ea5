"""The fields of a policy/v1 PodDisruptionBudget that we read."""

import msgspec

from cluster.objects.meta import Meta, Partial
from cluster.objects.selectors import LabelSelector


class BudgetSpec(Partial, frozen=True):
    """``spec``."""

    selector: LabelSelector | None = None
    """Pods of the same namespace; an empty one selects all of them, a missing one none."""


class DisruptionBudget(Partial, frozen=True):
    """A PodDisruptionBudget: how many of its pods the Eviction API lets go."""

    metadata: Meta = Meta()
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
