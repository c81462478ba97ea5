"""The settings of fair shares, from the policy file, for a process that decides by them.

The booking server's ``policy_file`` reads the same file. A file that becomes invalid changes nothing; where
it is invalid when the process starts, nobody waits for shares and nothing is taken for them (mode ``off``).
Where there is no file, the default mode holds and everybody weighs the same.
"""

import threading
from pathlib import Path
from typing import Final

import structlog

from booking.policy.fair_shares import FairShares
from booking.policy_source import PERIOD, PolicySource
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

OFF: Final = FairShares(mode="off")
DEFAULT: Final = FairShares()


class FairSharesFile:
    """Settings that follow the policy file. ``current`` is thread-safe; ``run`` is the body of a thread."""

    def __init__(self, path: Path | None, clock: Clock, default: FairShares = DEFAULT) -> None:
        """Args: path: of the policy file; None: there is none, and ``default`` holds."""
        self._source = PolicySource(path, "fair shares stay as they are") if path else None
        self._clock = clock
        self._shares = default if path is None else OFF
        self.reconcile()

    def current(self) -> FairShares:
        """The newest valid settings."""
        return self._shares

    def problem(self) -> str | None:
        """Why the present file is not in force; None when it is."""
        return self._source.problem if self._source else None

    def run(self, stop: threading.Event) -> None:
        """Read the file every ``PERIOD`` until ``stop`` is set."""
        while not self._clock.wait(stop, PERIOD):
            self.reconcile()

    def reconcile(self) -> None:
        """Read the file if it has changed."""
        found = self._source.changed() if self._source else None
        if found is None:
            return
        shares = found[0].fair_shares
        if shares != self._shares:
            log.info("other settings of fair shares are in force", mode=shares.mode)
        self._shares = shares
