"""The evictor's interface for ``holds`` and ``ending``; ``pod_evictor`` implements it, with comebacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from cluster.kube.errors import ApiError
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.pods import Pod

DECIDED_WITHIN: Final = 2.0
"""Seconds after the last complete check within which a pod may be evicted."""

Reason = Literal["evicted", "share", "overuse", "ended", "refused"]
"""``evicted``: a booked pod needs its devices. ``share``: its owner has more than a fair share, and another
user less. ``overuse``: it uses more of a GPU than its share. ``ended``: the booking that covered it is over.
``refused``: a kubelet has rejected it, and it has failed for good."""

Back = Literal["without-gpu", "as-it-was", "never"]
"""How a bare pod comes back: without a GPU; with its request for GPUs, waiting for one; not at all."""


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why and how a pod is evicted."""

    reason: Reason
    message: str
    """For its owner: in an Event on the pod, and on its replacement."""
    grace_seconds: int
    """Seconds between SIGTERM and SIGKILL at most; the pod's own termination grace counts up to this."""
    back: Back = "without-gpu"
    """How it comes back, if it is bare."""
    notice: str | None = None
    """The notice that the pod must carry when it is evicted, if it is not written on it yet."""
    overrides_budget: bool = False
    """Whether disruption budgets are overridden."""
    others_first: bool = False
    """Whether it is spared once if its replacement would be refused: others can leave in its place."""
    event_reason: str | None = None
    """``reason`` of the Event on the pod; None: the one that belongs to ``reason``."""


class ProtectedError(Exception):
    """PodDisruptionBudgets forbid the eviction now."""

    def __init__(self, message: str, budgets: tuple[DisruptionBudget, ...] = ()) -> None:
        """Args: budgets: those that select the pod; none if they could not be read."""
        super().__init__(message)
        self.budgets = budgets


class NoComebackError(Exception):
    """The API server would refuse the pod's replacement, and another pod can leave in its place."""


class TooLateError(Exception):
    """The decision is too old, or this process does not lead any more: decide again."""


class DryRunError(ApiError):
    """The dry run of the replacement got no answer: a webhook is unavailable, for example.

    The cause is not this pod, so another victim would fare no better. Nothing was changed: call again.
    """


def always() -> bool:
    """The value of ``is_valid`` for a caller that decides and acts in one step."""
    return True


def nothing() -> None:
    """The value of ``about_to_check`` for a caller that needs no request at the end."""


class Evictor(Protocol):
    """Evicts pods, and brings bare ones back."""

    def prepare(self, pod: Pod, *, back: Back, reason: Reason = "evicted") -> None:
        """Start the reads and the dry run for a pod that is likely to be evicted in this pass.

        In the background: the caller can write the hold meanwhile. Nothing is written; the only effect is a
        faster ``evict``.
        """
        ...

    def evict(
        self,
        pod: Pod,
        why: EvictionCause,
        *,
        is_valid: Callable[[], bool] = always,
        about_to_check: Callable[[], None] = nothing,
    ) -> None:
        """Take every step that is due to evict a pod; may be called again at any time.

        A bare pod that is to come back is prepared before it is evicted, in the way that ``why`` says;
        preparations for another way are undone. A pod with a controller is left to its controller.
        Always by uid: a pod created again under the same name is not touched.

        Args:
            pod: that must go.
            why: the cause, for the pod's owner, and how it comes back.
            is_valid: whether the decision is still valid; called when all is prepared, just before
                the eviction.
            about_to_check: called one write before that, to start the reads that ``is_valid`` needs.

        Raises:
            TooLateError: it is not valid any more. The next call uses the preparations, or they are
            withdrawn. ProtectedError: a PodDisruptionBudget forbids it (evictions only). DryRunError: the dry
            run of its replacement got no answer. NoComebackError: it was refused, the first time only, and
            ``why`` says that others can go. ApiError: the API server could not be asked, or refused;
            nothing is lost, call again.
        """
        ...

    def ask(self, pod: Pod) -> None:
        """Ask the API server whether the pod may be evicted now; nothing changes.

        Raises:
            ProtectedError: a PodDisruptionBudget forbids it. ApiError: the API server could not be asked, or
            something else there refuses.
        """
        ...

    def withdraw(self, uid: str) -> None:
        """The pod need not go after all: undo what was prepared, unless it is leaving already.

        Raises:
            ApiError: as above.
        """
        ...

    def clear_disruption(self, pod: Pod) -> None:
        """Remove our ``DisruptionTarget`` from a pod that need not go.

        It was written right before a deletion that did not follow. If the user deleted such a pod, that would
        count as our eviction, and the pod would come back.

        Raises:
            ApiError: as above.
        """
        ...

    def reconcile(self, wanted: frozenset[str]) -> None:
        """Advance every comeback as far as it can go now.

        Preparations for a pod that is neither leaving nor wanted are undone. Pods that a kubelet has rejected
        are removed and come back in here, too, without a call to ``evict``.

        Args:
            wanted: uids of the pods that are still meant to leave.
        """
        ...
