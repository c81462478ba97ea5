"""For how long disruption budgets count against a booked pod, and which pods a budget protects. Pure.

A budget is its owner's word about other pods' needs, and anybody who may edit a namespace can write one: it
does not stand above a booking (ADR 64). It counts for a limited time, from the moment at which only budgets
keep the booked pod waiting. That moment is written on it (``names.BUDGETS_SINCE``), so that the time goes on
when a controller restarts or another leads. The annotation is removed when the pod waits for another reason,
when a pod that no budget protects has left for it, and by its Binding.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from booking.controller.reclaimer.evictions.refusals import Blocker, budgets_named
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.decide.budgets import is_about
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.pods import Pod, is_live


@dataclass(frozen=True, slots=True)
class Block:
    """Budgets that keep some victims of a hold, for a while."""

    until: datetime
    """From then on they are overridden: not before the second that people are told."""
    protected: dict[str, str]
    """Uid of a victim -> the clause that says what protects it."""


def since(pod: Pod) -> datetime | None:
    """Since when only budgets keep the pod waiting; None where the annotation is missing or unreadable."""
    try:
        instant = msgspec.convert(pod.metadata.annotation(names.BUDGETS_SINCE) or "", datetime)
    except msgspec.ValidationError:
        return None
    return instant if instant.tzinfo else None


def ends(begun: datetime | None, limit: timedelta | None) -> datetime | None:
    """When budgets stop counting for a booked pod: a whole second. None if never, or it is not marked.

    Args:
        begun: since when only budgets keep it waiting.
        limit: how long budgets count; None: indefinitely.
    """
    if begun is None or limit is None:
        return None
    end = begun.astimezone(UTC) + limit
    whole = end.replace(microsecond=0)
    return whole if whole == end else whole + timedelta(seconds=1)


def also_protected(budgets: tuple[DisruptionBudget, ...], snapshot: ReclaimerSnapshot) -> Iterator[str]:
    """Uids of running pods that the same budgets protect: they need not be tried one by one.

    Pods that are not ready are tried: whether a budget counts for these is up to its policy.
    """
    if not budgets:
        return
    for uid, pod in snapshot.pods.items():
        is_healthy = pod.status.phase == "Running" and is_live(pod) and _is_ready(pod)
        if is_healthy and all(is_about(one, pod) for one in budgets):
            yield uid


def blocked_message(blockers: Iterable[Blocker], *, counts: str) -> str:
    """What a booked pod is told about blockers: what they are, and until when budgets count.

    Args:
        blockers: of the pods that would have to leave for it, one or more.
        counts: the end of the sentence ``It counts``: `` until ...``.
    """
    found = list(blockers)
    others = sorted({one.why for one in found if one.budgets is None})
    parts = [f"A pod would have to leave for this pod, but {why.rstrip('.')}." for why in others]
    if len(others) < len({one.why for one in found}):
        keys = sorted({key for one in found for key in one.budgets or ()})
        them = f"The {budgets_named(keys)}" if keys else "A disruption budget"
        one = len(keys) <= 1
        parts.append(
            f"{them} protect{'s' if one else ''} pods that would have to leave for this pod."
            f" {'It counts' if one else 'They count'}{counts}."
        )
    return " ".join(parts)


def _is_ready(pod: Pod) -> bool:
    """Whether the pod is ready; one that reports nothing counts as ready."""
    return not any(c.type == "Ready" and c.status != "True" for c in pod.status.conditions or ())
