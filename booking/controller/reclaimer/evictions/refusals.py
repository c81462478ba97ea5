"""What the API server means by refusing an eviction: a disruption budget, or something else. Pure.

Budgets answer in several ways (pkg/registry/core/pod/storage/eviction.go): 429 with the cause
``DisruptionBudget``; 403 about a ``poddisruptionbudget`` whose status is unusable; 500 for a pod that several
budgets select, which the Eviction API never evicts. A webhook answers with whatever code it likes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from booking.wording import listed
from cluster.kube.errors import Forbidden, ServerError, StatusError, TooManyRequests
from cluster.objects.disruption_budgets import DisruptionBudget

_CAUSE: Final = "DisruptionBudget"
_KIND: Final = "poddisruptionbudget"
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a pod from being evicted."""

    why: str
    """A clause about the pod: ``the disruption budget team/keep protects it``."""
    budgets: tuple[str, ...] | None = None
    """The disruption budgets, ``namespace/name``, empty if they could not be read; None: it is none."""


def may_be_of_budgets(error: StatusError) -> bool:
    """Whether budgets may be what refuses: then those of the pod decide (``is_of_budgets``)."""
    return _is_certain(error) or isinstance(error, ServerError)


def is_of_budgets(error: StatusError, budgets: tuple[DisruptionBudget, ...]) -> bool:
    """Whether an eviction was refused by budgets; ``budgets`` are those that select the pod."""
    return _is_certain(error) or (isinstance(error, ServerError) and len(budgets) >= _SEVERAL)


def is_overload(error: StatusError) -> bool:
    """Whether the API server sheds load: that is about no pod, and another one would fare no better."""
    return isinstance(error, TooManyRequests) and error.is_overload


def _is_certain(error: StatusError) -> bool:
    details = error.refusal.details
    if isinstance(error, TooManyRequests):
        return any(cause.get("reason") == _CAUSE for cause in details.get("causes") or ())
    return isinstance(error, Forbidden) and details.get("kind") == _KIND


def protected_by(budgets: tuple[DisruptionBudget, ...], namespace: str) -> Blocker:
    """The blocker that budgets of a namespace are; none of them where they could not be read."""
    keys = tuple(one.key for one in budgets)
    if not keys:
        return Blocker(f"a disruption budget of the namespace {namespace} protects it", ())
    return Blocker(f"the {budgets_named(keys)} protect{'s' if len(keys) == 1 else ''} it", keys)


def blocker_of(error: StatusError) -> Blocker:
    """The blocker that a refusal of the API server is."""
    return Blocker(f"the API server refuses its eviction: {error.message or error}")


def budgets_named(keys: Iterable[str]) -> str:
    """Budgets by their ``namespace/name``: ``disruption budgets team/a and team/b``."""
    named = list(keys)
    return f"disruption budget{'' if len(named) == 1 else 's'} {listed(named)}"


def sentence(clause: str) -> str:
    """A clause with a capital letter, still without a full stop."""
    return f"{clause[:1].upper()}{clause[1:]}".rstrip(".")
