"""Containers of the product that have ended without being asked to: there should be none."""

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import WHOLE_PODS, WholePod
from cluster.process.clock import SystemClock

REQUESTED: Final = frozenset({0, 137, 143})
"""Exit codes of who was asked to end, or was killed, by the kubelet as by us."""
CHECK_EVERY: Final = 1.0
FALLS: Final = frozenset({"kube-scheduler"})
"""Containers that end by themselves as they should: when it cannot renew its Lease."""


@dataclass(frozen=True)
class Ended:
    """A container that has ended."""

    container_id: str
    pod: str
    container: str
    exit_code: int
    reason: str


class Falls:
    """Reads the product's pods again and again: a pod's status shows for a while what has ended."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._ended: dict[str, Ended] = {}

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set."""
        clock = SystemClock()
        while not clock.wait(stop, CHECK_EVERY):
            with suppress(ApiError):
                pods = self._kube.list(WHOLE_PODS, Selection(namespace=names.NAMESPACE)).items
                self._ended.update((one.container_id, one) for one in ended(pods))

    def by_themselves(self, struck: Collection[str]) -> list[Ended]:
        """Those that nobody asked to end. Args: struck: ids of the containers that were killed on purpose."""
        return unrequested(self._ended.values(), struck)


def ended(pods: Iterable[WholePod]) -> Iterator[Ended]:
    """Every container of which a pod says that it has ended."""
    for pod in pods:
        for status in pod.status.get("containerStatuses") or ():
            for state in (status.get("state") or {}, status.get("lastState") or {}):
                if over := state.get("terminated"):
                    container_id = str(over.get("containerID") or "").rpartition("/")[2]
                    code, reason = int(over["exitCode"]), str(over.get("reason"))
                    yield Ended(container_id, pod.metadata.name, status["name"], code, reason)


def unrequested(over: Iterable[Ended], struck: Collection[str]) -> list[Ended]:
    """Those of them that were not killed or asked to end, and that may not end by themselves."""
    return [
        one
        for one in over
        if one.container_id not in struck and one.exit_code not in REQUESTED and one.container not in FALLS
    ]
