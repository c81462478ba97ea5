"""The pods that one person wants: what is missing is created, and what is no longer of use is replaced."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from cluster.kube.errors import Conflict
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from tests.long.accounts import Account
from tests.long.churn.sight import Sight

Body = Callable[[str], Mapping[str, Any]]
"""A pod of this name."""


class PodSet:
    """The pods of one person."""

    def __init__(self, account: Account, sight: Sight, names: Sequence[str], body: Body) -> None:
        self._account = account
        self._sight = sight
        self._body = body
        self.names: Final = tuple(names)
        self.created = 0
        """Pods that were created."""

    def ensure(self) -> None:
        """Check every pod once, and do what is to be done.

        Raises:
            ApiError: the API server refuses, or does not answer.
        """
        pods = self._sight.pods
        for name, state in self._sight.states(self.names).items():
            if state == "missing":
                with suppress(Conflict):
                    self._account.kube.create(PODS, self._body(name), namespace=self._account.namespace)
                    self.created += 1
                    self._sight.created(name)
            elif state in ("over", "without") and name in pods:
                self.delete(pods[name])

    def delete(self, pod: Pod) -> None:
        """Delete this very pod."""
        meta = pod.metadata
        self._account.kube.delete(PODS, meta.name, namespace=self._account.namespace, uid=meta.uid)

    def all_are(self, *states: str) -> bool:
        """Whether every pod is in one of these states."""
        return set(self._sight.states(self.names).values()) <= set(states)

    def not_running(self) -> list[str]:
        """The pods that do not run, and their states."""
        states = self._sight.states(self.names)
        return [f"{name} {state}" for name, state in states.items() if state != "runs"]
