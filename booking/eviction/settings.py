"""The administrator's settings for pods that must leave."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from cluster import names

EndAction = Literal["recreate-without-gpu", "demote", "delete"]
"""What happens to a pod whose booking is over: it comes back without a GPU, stays until a booked pod needs
its GPU, or is deleted."""

WARNINGS: Final = (timedelta(hours=24), timedelta(hours=1), timedelta(minutes=15))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings:
    """Settings for evictions, ends of bookings and waiting pods."""

    namespace: str = names.NAMESPACE
    """The product's own namespace: none of its pods is ever evicted."""
    maia: bool = False
    """Whether MAIA's ``terminate-at`` on a pod guarantees its GPUs."""

    dra_driver: str = names.DRA_DRIVER
    """Name of the driver of claims."""
    queue_gate: bool = False
    """Whether pods without a booking for which no GPU is free wait behind our scheduling gate."""
    notice_seconds: float = 0
    """Between the notice to a victim and its eviction."""
    longest_notice_seconds: float = 600
    """A pod's own request for notice counts up to this."""
    longest_grace_seconds: int = 120
    """A pod's own termination grace counts up to this."""
    restart_cost_seconds: float = 0
    """What starting again costs a victim, besides its lost work: seconds of each of its GPUs."""
    budget_override_seconds: float | None = 300
    """How long a booked pod waits for disruption budgets before it overrides them; None: indefinitely."""
    evicts_over_users: bool = False
    """Whether pods without a booking leave that use more of a GPU than their share."""
    end_action_without_controller: EndAction = "recreate-without-gpu"
    """What happens to a pod without a controller when its booking is over."""
    end_action_with_controller: EndAction = "demote"
    """What happens to a controller's pod when its booking is over."""
    warn_before: tuple[timedelta, ...] = WARNINGS
    """How long before its end the owner of a pod is warned."""
