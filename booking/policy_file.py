"""The policy of an installation: read from its file, and again when the file changes.

A file that is invalid, or missing for a moment, changes nothing: the last valid policy stays in force, also
across restarts. The problem is reported.
"""

import threading
from pathlib import Path
from typing import Protocol

import structlog

from booking.errors import StoreError
from booking.policy.policy import Policy
from booking.policy.reading import read_policy
from booking.policy.yaml_nodes import PolicyError
from booking.policy_source import PERIOD, PolicyFileError, PolicySource
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)


class History(Protocol):
    """Which policies were in force; ``booking.policy_history`` implements it."""

    def last(self) -> str | None:
        """The text of the last one; None if there was none."""
        ...

    def keep(self, policy: Policy, text: str) -> None:
        """Record a policy that is in force; raises StoreError."""
        ...


class PolicyFile:
    """A policy that follows its file. ``current`` is thread-safe; ``run`` is the body of a thread.

    Raises:
        PolicyFileError: the file cannot be used when the process starts, and no policy was ever in force.
        StoreError: nor can the last policy in force be read.
    """

    def __init__(self, path: Path, clock: Clock, history: History) -> None:
        self._source = PolicySource(path, "the last valid policy stays in force")
        self._clock = clock
        self._history = history
        self._unkept: bytes | None = None
        """The policy in force that is not recorded in the audit yet."""
        found = self._source.changed()
        if found is None:
            self._policy = _last_good(history, PolicyFileError(self._source.problem))
        else:
            self._policy, text = found
            self._keep(text)

    def current(self) -> Policy:
        """The newest valid policy."""
        return self._policy

    def problem(self) -> str | None:
        """Why the present file is not in force; None when it is."""
        return self._source.problem

    def run(self, stop: threading.Event) -> None:
        """Read the file every ``PERIOD`` until ``stop`` is set."""
        while not self._clock.wait(stop, PERIOD):
            self.reconcile()

    def reconcile(self) -> None:
        """Read the file if it has changed."""
        if self._unkept is not None:
            self._keep(self._unkept)
        found = self._source.changed()
        if found is None:
            return
        policy, text = found
        log.info("a new policy is in force", version=policy.version, previous_version=self._policy.version)
        self._policy = policy
        self._keep(text)

    def _keep(self, found: bytes) -> None:
        self._unkept = found
        try:
            self._history.keep(self._policy, found.decode())
        except StoreError as error:
            log.warning("the policy in force could not be saved yet", error=str(error))
        else:
            self._unkept = None


class FixedPolicy:
    """The policy of an installation that has no policy file."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def current(self) -> Policy:
        """The policy that it was created with."""
        return self._policy

    def problem(self) -> str | None:
        """None: there is no file that could be invalid."""
        return None


def _last_good(history: History, error: PolicyFileError) -> Policy:
    """The policy in force before the file became invalid; raises ``error`` if there is none."""
    text = history.last()
    if text is None:
        raise error
    try:
        return read_policy(text)
    except PolicyError:  # accepted by an older version, which was less strict
        raise error from None
