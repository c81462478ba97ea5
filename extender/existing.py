"""Mode ``existing``: the cluster's own kube-scheduler calls us, through a Service and by mutual TLS.

Several replicas elect a leader by a Lease of their own. The others are not Ready, so the Service routes to
the leader. A new leader waits a while: then a Binding that its predecessor posted at the last moment is in
its cache. For the mode ``dedicated`` see ``leadership``.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from cluster.process.certificates import AllowedClients, KeyPair
from cluster.process.clock import Clock
from cluster.process.loops import Body
from cluster.process.probes import Check
from extender.binding.binding_post import DEADLINE

log = structlog.get_logger(__name__)

GRACE_SECONDS: Final = DEADLINE + 1.0
"""Seconds for which a new leader waits: by then its predecessor posts no Binding any more."""
EVERY: Final = 10.0
"""Seconds between two checks of the certificate's files."""

Shown = tuple[KeyPair, AllowedClients]
"""The key pair that is served, and the clients that are allowed."""

NOT_LEADING: Final = "Another replica of the extender leads; this one answers nothing."
NOT_READY_YET: Final = "This replica of the extender has just begun to lead; it answers in a moment."


class OwnLease:
    """Whether this replica decides."""

    def __init__(self, holds: Callable[[], bool], clock: Clock) -> None:
        """Args: holds: whether we hold the Lease now; called often."""
        self._holds = holds
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None

    def leads(self) -> bool:
        """Whether a Binding may be posted now."""
        return self.unready_reason() is None

    def unready_reason(self) -> str | None:
        """Why nothing may be decided now; None if it may."""
        now = self._clock.monotonic()
        with self._lock:
            if not self._holds():
                self._since = None
                return NOT_LEADING
            self._since = now if self._since is None else self._since
            return NOT_READY_YET if now - self._since < GRACE_SECONDS else None

    def run(self, stop: threading.Event) -> None:
        """Check leadership even without requests, which a replica that is not Ready does not get."""
        while not self._clock.wait(stop, 0.5):
            self.unready_reason()


@dataclass(frozen=True, slots=True)
class Served:
    """The state of the TLS server."""

    problem: Check
    """Why nothing is served, for the readiness probe."""
    certificate_ends: Callable[[], float | None]
    """Unix time at which the served certificate expires; None before the first."""
    follow: Body
    """The body of the thread that reloads a renewed certificate."""


class Presented:
    """Serves with what the files hold now: certificate and authority are renewed by replacing the files."""

    def __init__(
        self,
        read: Callable[[], Shown],
        present: Callable[[KeyPair, AllowedClients | None], None],
        clock: Clock,
    ) -> None:
        """Start with nothing served.

        Args:
            read: returns the contents of the files; raises OSError if they cannot be read, UnicodeDecodeError
                if they are not text.
            present: serves with this certificate, to these clients, from now on.
            clock: for the interval between checks.
        """
        self._read = read
        self._present = present
        self._clock = clock
        self._served: Shown | None = None
        self._problem = "The certificate has not been read yet."

    def problem(self) -> str | None:
        """Why nothing is served yet; None once there has been a certificate."""
        return None if self._served else self._problem

    def run(self, stop: threading.Event) -> None:
        """Check the files periodically until stopped."""
        while not self._clock.wait(stop, EVERY):
            self.reconcile()

    def reconcile(self) -> None:
        """Serve with the files' contents if they have changed; if they cannot be used, nothing changes."""
        try:
            shown = self._read()
            if shown == self._served:
                return
            self._present(*shown)
        except (OSError, UnicodeDecodeError) as error:
            self._problem = f"The certificate cannot be served: {error}."
            log.warning(
                "the certificate cannot be served", error=str(error), previous_one_stays=bool(self._served)
            )
            return
        self._served = shown
        log.info("a new certificate is served")
