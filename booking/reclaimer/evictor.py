"""How pods leave: what ``holding`` and ``ending`` ask of ``pod_evictor``, which lets bare pods come back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from cluster.kube.errors import ApiError
from cluster.objects.pods import Pod

DECIDED_WITHIN: Final = 2.0
"""Seconds after the last look at everything within which a pod may be told to go."""

Reason = Literal["evicted", "ended", "refused"]
"""``evicted``: a booked pod needs its devices. ``ended``: the booking that covered it is over. ``refused``: a
kubelet has refused it, and it has failed for good."""

Back = Literal["without-gpu", "as-it-was", "never"]
"""How a bare pod comes back: without a GPU; with its request for GPUs, waiting for one; not at all."""


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why a pod leaves."""

    reason: Reason
    message: str
    """For its owner: an Event on the pod, and on what comes back for it."""
    grace_seconds: int
    """Between SIGTERM and SIGKILL at the most; the pod's own termination grace counts up to this."""
    back: Back = "without-gpu"
    """How it comes back, if it is bare."""
    notice: str | None = None
    """The notice that it must carry when it leaves, where it has not been written on it yet."""
    overrides_budget: bool = False
    """Whether disruption budgets are passed over."""
    told: str | None = None
    """``reason`` of the Event on the pod; None: the one that goes with ``reason``."""


class ProtectedError(Exception):
    """A PodDisruptionBudget forbids the eviction now."""


class TooLateError(Exception):
    """It took too long from the decision to here, or this process does not lead any more: decide again."""


class DryRunError(ApiError):
    """Nobody can say now whether the pod would be accepted again: a webhook does not answer, for example.

    It is nothing against this pod, so another victim would fare no better. Nothing has happened: call again.
    """


def always() -> bool:
    """The answer for whoever decides and acts in one step."""
    return True


def nothing() -> None:
    """What there is to begin for whoever has nothing to ask at the end."""


class Evictor(Protocol):
    """Takes pods away, and brings bare ones back."""

    def foresee(self, pod: Pod, *, back: Back) -> None:
        """The pod is likely to be evicted in this pass: find out already what that will need.

        In the background, so that the caller may write the hold meanwhile. Nothing is written by it, and
        nothing follows from it but that ``leave`` is quicker.
        """
        ...

    def leave(
        self,
        pod: Pod,
        why: EvictionCause,
        *,
        still: Callable[[], bool] = always,
        soon: Callable[[], None] = nothing,
    ) -> None:
        """Do every step that is due for a pod that must go; may be called again at any time.

        A bare pod that is to come back is made ready for it before it is evicted, in the way that ``why``
        says; what was made ready in another way is undone. One with a controller is left to it.
        Always by uid: a pod that was created anew under the same name is not touched.

        Args:
            pod: that must go.
            why: what its owner is told.
            still: whether the decision stands; asked when all is prepared and the pod would be told to go.
            soon: called when one write is left before that, so that what ``still`` needs is asked meanwhile.

        Raises:
            TooLateError: it does not stand. What was prepared is used by the next call, or withdrawn.
            ProtectedError: a PodDisruptionBudget forbids it (evictions only).
            RehearsalError: its coming back could not be tried out.
            ApiError: the API server could not be asked, or refused; nothing is lost, call again.
        """
        ...

    def withdraw(self, uid: str) -> None:
        """The pod need not go after all: undo what was prepared, unless it is leaving already.

        Raises:
            ApiError: as above.
        """
        ...

    def pardon(self, pod: Pod) -> None:
        """A pod that need not go may say still that it is being taken away: say so no more.

        It was written right before a deletion that did not follow. If its user deleted such a pod, it would
        count as our doing, and the pod would come back.

        Raises:
            ApiError: as above.
        """
        ...

    def reconcile(self, wanted: frozenset[str]) -> None:
        """Carry every comeback that was begun one step on, as far as it can go now.

        What was prepared for a pod that is neither leaving nor wanted is undone. Pods that a kubelet has
        refused leave and come back in here, too: nobody need ask for it.

        Args:
            wanted: uids of the pods that are still meant to leave.
        """
        ...
