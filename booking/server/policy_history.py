"""Which policies were in force: audit entries, so that the last valid one survives a restart.

A server that starts with an invalid policy file continues with the policy that was in force last. A booking
records the version of the policy under which it was accepted; the text of that version is found here.
"""

from typing import Final

import structlog

from booking.policy.policy import Policy
from booking.server.errors import StoreError
from booking.server.store import Reading, Store, Writing
from booking.server.store_records import AuditEntry
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

SUBJECT: Final = "policy"
"""Subject of the entries; no booking, block or exemption has this name."""
ACTION: Final = "policy.change"
ACTOR: Final = "system:policy-file"
"""Actor of the entries: a file has changed, and it is unknown who changed it."""


class PolicyHistory:
    """Keeps the policies in the booking database."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def last(self) -> str | None:
        """The text of the policy that was in force last; None if there was none.

        Raises:
            StoreError: the database cannot be used.
        """
        newest = self._store.read(_newest)
        return str((newest.after or {})["text"]) if newest else None

    def keep(self, policy: Policy, text: str) -> bool:
        """Record that a policy is in force from now on, unless it already is; False if that failed."""
        now = self._clock.now().replace(microsecond=0)

        def decide(writing: Writing) -> None:
            newest = _newest(writing)
            before = str((newest.after or {})["version"]) if newest else None
            if before != policy.version:
                writing.audit(
                    AuditEntry(
                        at=now,
                        actor=ACTOR,
                        action=ACTION,
                        subject=SUBJECT,
                        before=None if before is None else {"version": before},
                        after={"version": policy.version, "text": text},
                    )
                )

        try:
            self._store.write(decide)
        except StoreError as error:
            log.warning("the policy in force could not be saved yet", error=str(error))
            return False
        return True


def _newest(reading: Reading) -> AuditEntry | None:
    return next(iter(reading.audit_page(after=None, limit=1, subject=SUBJECT)), None)
