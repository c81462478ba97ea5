"""Posts a decision as a Binding, if it may be posted at this moment, and interprets the API server's answer.

The Binding carries the uid and the resourceVersion that filter saw: if the pod has been written since (by
another binder, a hold, the user), it is refused and nothing has happened. It is posted only while we lead,
and only within 2 s of its decision. In the same write it empties the annotations that a pod has only while
it waits, above all its hold: a Binding cannot remove annotations, and an empty one counts as missing.
"""

from typing import Final

from cluster import names
from cluster.kube.errors import (
    ApiError,
    ClientError,
    Conflict,
    TooManyRequests,
    Unauthorized,
    Unsent,
)
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.process.clock import Clock
from extender.binding.bind_decision import NOT_LEADING, BindDecisions, BindError, Decision, NotNowError
from extender.leadership import Leads

DEADLINE: Final = 2.0
"""Seconds after its decision within which a Binding may be posted."""
CONNECTING: Final = 1.0
"""Seconds of these for the connection to the API server: nothing is posted if fewer are left."""
NOT_THE_NODES_FAULT: Final = (TooManyRequests, Unauthorized)
"""Refusals that another node would not change."""


class BindingPost:
    """Posts Bindings, at most 2 s after their decision."""

    def __init__(self, kube: Kube, clock: Clock, decisions: BindDecisions, *, leads: Leads) -> None:
        """Args: leads: whether we may bind."""
        self._kube = kube
        self._clock = clock
        self._decisions = decisions
        self._leads = leads

    def __call__(self, decision: Decision, *, until: float) -> None:
        """Post the decision; returns when the pod is bound as decided.

        Args:
            decision: taken back here if it is certain that it did not happen.
            until: when the answer must have arrived, in seconds of the monotonic clock.

        Raises:
            Conflict: the pod has changed; nothing has happened.
            BindError: it was not posted, was refused, or has no answer.
        """
        meta = decision.pod.metadata
        try:
            left = self._time_left(decision, until)
        except Exception:
            self._decisions.not_posted(decision)
            raise
        try:
            self._kube.create_subresource(
                PODS,
                "binding",
                decision.body,
                name=meta.name,
                namespace=meta.namespace,
                within=left,
                answered=until - self._clock.monotonic(),
            )
        except Conflict:
            self._decisions.not_posted(decision)
            raise
        except ClientError as error:
            self._decisions.not_posted(decision)
            message = f"The API server refused the Binding ({error.code} {error.reason})."
            if isinstance(error, NOT_THE_NODES_FAULT):
                raise NotNowError(f"{names.NOT_NOW} {message}") from error
            raise BindError(message) from error
        except Unsent as error:
            self._decisions.not_posted(decision)
            raise NotNowError(
                f"{names.NOT_NOW} The API server could not be reached in time; the pod is decided again."
            ) from error
        except ApiError as error:
            raise NotNowError(
                f"{names.NOT_NOW} The API server has not said whether the pod is bound;"
                " the same bind is tried again."
            ) from error

    def _time_left(self, decision: Decision, until: float) -> float:
        """Seconds within which it may be posted. Leadership is checked first, as that may take time.

        Raises:
            BindError: it may not be posted.
        """
        if not self._leads():
            raise NotNowError(NOT_LEADING)
        now = self._clock.monotonic()
        left = min(DEADLINE - (now - decision.made_at), until - now)
        if left < CONNECTING:
            raise NotNowError(f"{names.NOT_NOW} The decision was too old to be written; it is made again.")
        return left
