"""Mode ``existing``: the cluster's own kube-scheduler asks us, through a Service and by mutual TLS.

Several replicas elect a leader by a Lease of their own. The others are not Ready, so the Service leads to the
one that decides. A new leader waits a while: a Binding that its predecessor posted at its last moment is in
our cache by then. Mode ``dedicated`` is ``leadership``'s.
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
"""Seconds for which a new leader waits: no Binding is posted later than its deadline."""
EVERY: Final = 10.0
"""Seconds between two checks of the certificate's files."""

Shown = tuple[KeyPair, AllowedClients]
"""The key pair that is served, and the clients that are allowed."""

NOT_LEADING: Final = "Another replica of the extender leads; this one answers nothing."
NOT_READY_YET: Final = "This replica of the extender has just begun to lead; it answers in a moment."


class OwnLease:
    """Whether this replica decides."""

    def __init__(self, holds: Callable[[], bool], clock: Clock) -> None:
        """Args: holds: whether we hold the Lease at this moment; it is called often."""
        self._holds = holds
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None

    def leads(self) -> bool:
        """Whether a Binding may be posted now."""
        return self.unready_reason() is None

    def unready_reason(self) -> str | None:
        """Why nothing may be decided now; None when it may."""
        now = self._clock.monotonic()
        with self._lock:
            if not self._holds():
                self._since = None
                return NOT_LEADING
            self._since = now if self._since is None else self._since
            return NOT_READY_YET if now - self._since < GRACE_SECONDS else None

    def run(self, stop: threading.Event) -> None:
        """Check for leadership even without requests: a replica that is not Ready gets none."""
        while not self._clock.wait(stop, 0.5):
            self.unready_reason()


@dataclass(frozen=True, slots=True)
class Served:
    """The state of what is served by TLS."""

    problem: Check
    """Why nothing is served, for the readiness probe."""
    certificate_ends: Callable[[], float | None]
    """Unix time at which the served certificate ends, None before the first."""
    follow: Body
    """The body of the thread that reloads a renewed certificate."""


class Presented:
    """Keeps the files' contents served: certificate and authority are renewed by replacing the files."""

    def __init__(
        self,
        read: Callable[[], Shown],
        present: Callable[[KeyPair, AllowedClients | None], None],
        clock: Clock,
    ) -> None:
        """Start with nothing served.

        Args:
            read: the contents of the files; raises OSError where they cannot be read, UnicodeDecodeError for
                no text.
            present: serve with this certificate, to these clients, from now on.
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
        """Serve what the files hold now, if the certificate has changed; a broken one changes nothing."""
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
