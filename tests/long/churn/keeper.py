"""Somebody who wants certain pods: creates what is missing, and anew what is of no use any more."""

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


class Keeper:
    """The pods of one person."""

    def __init__(self, account: Account, sight: Sight, names: Sequence[str], body: Body) -> None:
        self._account = account
        self._sight = sight
        self._body = body
        self.names: Final = tuple(names)
        self.created = 0
        """Pods that were created."""

    def ensure(self) -> None:
        """Look at every pod once, and do what is to be done.

        Raises:
            ApiError: the API server refuses, or does not answer.
        """
        pods = self._sight.pods
        for name, stand in self._sight.stands(self.names).items():
            if stand == "missing":
                with suppress(Conflict):
                    self._account.kube.create(PODS, self._body(name), namespace=self._account.namespace)
                    self.created += 1
                    self._sight.created(name)
            elif stand in ("over", "without") and name in pods:
                self.delete(pods[name])

    def delete(self, pod: Pod) -> None:
        """Delete this very pod."""
        meta = pod.metadata
        self._account.kube.delete(PODS, meta.name, namespace=self._account.namespace, uid=meta.uid)

    def all_are(self, *stands: str) -> bool:
        """Whether every pod stands in one of these ways."""
        return set(self._sight.stands(self.names).values()) <= set(stands)

    def not_running(self) -> list[str]:
        """The pods that do not run, and how they stand."""
        stands = self._sight.stands(self.names)
        return [f"{name} {stand}" for name, stand in stands.items() if stand != "runs"]
