"""The policy of an installation: read from its file, and again when the file changes.

A file that is invalid, or missing for a moment, changes nothing: the last valid policy stays in force, also
across restarts where a history is kept. The problem is reported.
"""

import threading
from pathlib import Path
from typing import Protocol

import structlog

from booking.policy.policy import Policy
from booking.policy.reading import read_policy
from booking.policy.yaml_nodes import PolicyError
from booking.policy_source import PERIOD, PolicyFileError, PolicySource
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)


class History(Protocol):
    """Which policies were in force; ``booking.server.policy_history`` implements it."""

    def last(self) -> str | None:
        """The text of the last one; None if there was none."""
        ...

    def keep(self, policy: Policy, text: str) -> bool:
        """Record a policy that is in force; returns whether it is recorded."""
        ...


class PolicyFile:
    """A policy that follows its file. ``current`` is thread-safe; ``run`` is the body of a thread."""

    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        *,
        default: Policy | None = None,
        invalid: Policy | None = None,
        history: History | None = None,
    ) -> None:
        """Read the file for the first time.

        Args:
            path: of the file; None: there is none.
            clock: for the interval between reads.
            default: holds where there is no file; by default a policy without settings.
            invalid: holds while a file is invalid and none was ever in force; None: then this process must
                not start.
            history: which policies of the file were in force; None: nobody keeps it.

        Raises:
            PolicyFileError: the file cannot be used, none was ever in force, and there is no ``invalid``.
            StoreError: nor can the last policy in force be read.
        """
        self._source = PolicySource(path) if path else None
        self._clock = clock
        self._history = history
        self._unkept: bytes | None = None
        """The policy in force that is not recorded in the history yet."""
        found = self._source.changed() if self._source else None
        if found:
            self._policy, text = found
            self._keep(text)
        elif self._source:
            error = PolicyFileError(self._source.problem)
            self._policy = invalid or _last_good(history, error)
        else:
            self._policy = default or Policy()

    def current(self) -> Policy:
        """The newest valid policy."""
        return self._policy

    def problem(self) -> str | None:
        """Why the present file is not in force; None when it is, and where there is none."""
        return self._source.problem if self._source else None

    def run(self, stop: threading.Event) -> None:
        """Read the file every ``PERIOD`` until ``stop`` is set."""
        while not self._clock.wait(stop, PERIOD):
            self.reconcile()

    def reconcile(self) -> None:
        """Read the file if it has changed."""
        if self._unkept is not None:
            self._keep(self._unkept)
        found = self._source.changed() if self._source else None
        if found is None:
            return
        policy, text = found
        log.info("a new policy is in force", version=policy.version, previous_version=self._policy.version)
        self._policy = policy
        self._keep(text)

    def _keep(self, found: bytes) -> None:
        is_kept = self._history is None or self._history.keep(self._policy, found.decode())
        self._unkept = None if is_kept else found


def _last_good(history: History | None, error: PolicyFileError) -> Policy:
    """The policy in force before the file became invalid; raises ``error`` if there is none."""
    text = history.last() if history else None
    if text is None:
        raise error
    try:
        return read_policy(text)
    except PolicyError:  # accepted by an older version, which was less strict
        raise error from None
