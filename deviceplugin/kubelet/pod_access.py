"""Whether the agent can know which pod is being admitted; otherwise its node does not serve (law L6).

The thread ``PodAccess`` tries what ``pod_source`` and ``checkpoint`` read while the kubelet waits. The folder
of device plugins is a constant of the kubelet and does not move with its ``--root-dir``, the sockets of its
other APIs do: so a registration proves nothing about them.

Source: kubelet 1.37.1, cm/devicemanager/manager.go and kubelet_getters.go.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import structlog

from cluster import names
from cluster.process.clock import Clock
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader

log = structlog.get_logger(__name__)

CHECK_EVERY: Final = 1.0
"""Seconds between two checks."""
CHECKS: Final = 3
"""Number of consecutive checks that must fail: a kubelet that starts lacks some sockets for a moment."""


class Answering(Protocol):
    """One of the kubelet's APIs."""

    def problem(self) -> str | None:
        """Why it does not answer, as a sentence; None if it does."""
        ...


class PodAccess:
    """The thread that looks."""

    def __init__(
        self,
        apis: tuple[Answering, ...],
        checkpoint: CheckpointReader,
        clock: Clock,
        *,
        root: Path,
        root_in_use: Callable[[], Path | None],
    ) -> None:
        """Nothing is read yet.

        Args:
            apis: the kubelet's APIs, one of which must answer.
            checkpoint: what must be readable besides.
            clock: for the pauses.
            root: the kubelet's root folder by our settings.
            root_in_use: the kubelet's root folder by its own account; None if that is unknown.
        """
        self._apis = apis
        self._checkpoint = checkpoint
        self._clock = clock
        self._root = root
        self._root_in_use = root_in_use
        self._failed = 0
        self._has_looked = False
        self._message = "It is not known yet whether the pods of this node can be read."

    @property
    def problem(self) -> str | None:
        """Why the pod that is being admitted cannot be known, for people; None if it can."""
        return None if self._has_looked and self._failed < CHECKS else self._message

    @property
    def lasting_problem(self) -> str | None:
        """The same, once it has been so for some checks."""
        return self._message if self._failed >= CHECKS else None

    def run(self, stop: threading.Event) -> None:
        """Look until the stop event is set."""
        while not stop.is_set():
            self.look()
            self._clock.wait(stop, CHECK_EVERY)

    def look(self) -> None:
        """Try once."""
        before, found = self.lasting_problem, self._found()
        if found is None:
            self._failed, self._has_looked = 0, True
            return
        self._message, self._failed = found, self._failed + 1
        if (lasting := self.lasting_problem) and lasting != before:
            log.error("the pods of this node cannot be read", message=lasting)

    def _found(self) -> str | None:
        try:
            self._checkpoint.read()
        except CheckpointError as error:
            return f"{error} {_CONSEQUENCE}"
        silent: list[str] = []
        for api in self._apis:
            if (why := api.problem()) is None:
                return None
            silent.append(why)
        return " ".join([*silent, self._advice(), _CONSEQUENCE])

    def _advice(self) -> str:
        return wrong_root(self._root, self._root_in_use()) or (
            f"Is {self._root} the folder that the kubelet's --root-dir names?"
            f" Set nodeAgent.kubeletRoot in the chart ({names.setting('kubelet_root')})."
        )


_CONSEQUENCE: Final = (
    "Nobody can tell which pod is being admitted and which GPUs were assigned to it: this node gets no pods."
)


def wrong_root(root: Path, in_use: Path | None) -> str | None:
    """What to set where the kubelet has another root folder than the settings say; None if it has not."""
    if in_use is None or in_use == root:
        return None
    return (
        f"The kubelet runs with --root-dir {in_use}, and the agent looks in {root}:"
        f" set nodeAgent.kubeletRoot in the chart ({names.setting('kubelet_root')}) to {in_use}."
    )
