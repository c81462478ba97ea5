"""Administrators: users to whom the API server allows the verb ``administer`` on bookings (ADR 22)."""

from typing import Final, TypedDict

import structlog

from booking.principals import Principal
from booking.server.ttl_cache import TtlCache
from booking.server.web.problems import unavailable
from cluster import names
from cluster.kube.access_review import Access
from cluster.kube.errors import ApiError
from cluster.kube.resources import BOOKINGS
from cluster.kube.token_review import Subject
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

ADMINISTER: Final = "administer"
"""The verb; the chart's policies check it as well."""


class Right(TypedDict):
    """The objects on which the API server must allow the verb."""

    group: str
    resource: str


BOOKINGS_RIGHT: Final[Right] = {"group": names.DOMAIN, "resource": BOOKINGS.plural}


class Roles:
    """Asks the API server, and caches its answers for ten seconds. Thread-safe."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._known: TtlCache[Subject, bool] = TtlCache(clock)
        self._readers: TtlCache[tuple[Subject, str], bool] = TtlCache(clock)

    def is_administrator(self, who: Subject) -> bool:
        """Whether the user is an administrator.

        Raises:
            ProblemError: 503, the API server is unreachable: that does not count as a no.
        """
        return self._known.get(who, lambda: self._reviewed(who))

    def may_read_events(self, who: Principal, namespace: str) -> bool:
        """Whether the API server lets the user list the Events of a namespace; False while unknown."""
        subject = Subject(who.account, who.groups)
        try:
            return bool(who.account) and self._readers.get(
                (subject, namespace),
                lambda: self._access.may(subject, "list", group="", resource="events", namespace=namespace),
            )
        except ApiError as error:
            log.warning("an access review failed", error=str(error))
            return False

    def _reviewed(self, who: Subject) -> bool:
        try:
            return self._access.may(who, ADMINISTER, **BOOKINGS_RIGHT)
        except ApiError as error:
            log.warning("an access review failed", error=str(error))
            raise unavailable(
                "The Kubernetes API server could not be asked what you may do. Nothing was changed; try again"
                " soon."
            ) from error
