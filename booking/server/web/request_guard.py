"""Authentication and rate limits of the booking server, the same for REST and pages."""

from http import HTTPStatus
from typing import Final

from flask import Request, g

from booking.principals import Principal
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.problems import ProblemError
from booking.server.web.rate_limits import RateLimits
from booking.server.web.signing_in import SigningIn

_UNKNOWN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_CREDENTIALS: Final = frozenset({"Authorization", "Cookie"})


class RequestGuard:
    """Identifies callers, and limits the rate of their requests."""

    def __init__(self, signing_in: SigningIn, limits: RateLimits, strangers: AnonymousLimits) -> None:
        """Create it.

        Args:
            signing_in: identifies users.
            limits: of users.
            strangers: counts clients that are not signed in.
        """
        self._signing_in = signing_in
        self._limits = limits
        self._strangers = strangers

    def enter(self, request: Request, *, asks_role: bool = True) -> Principal:
        """The caller of a request that may proceed; for ``asks_role`` see ``SigningIn.principal_of``.

        Raises:
            ProblemError: 401, 403 or 503 as ``SigningIn`` says; 429 for a client that asks too often.
        """
        if self._signing_in.is_guess(request):
            # The API server is not called for a client that tries one token after the other.
            self._strangers.demand(request)
        try:
            who = self._signing_in.principal_of(request, asks_role=asks_role)
        except ProblemError as problem:
            # A client without credentials is sent to the login, and has cost nothing.
            if problem.kind.status in _UNKNOWN and not _CREDENTIALS.isdisjoint(request.headers.keys()):
                self._strangers.count(request)
            raise
        g.user = who.user
        self._limits.take(who.user)
        return who

    def with_role(self, request: Request) -> Principal:
        """The caller of a request that has entered, now also whether they are an administrator.

        Raises:
            ProblemError: as ``SigningIn`` says.
        """
        return self._signing_in.principal_of(request)

    def address(self, request: Request) -> str:
        """The client's address for display: from a trusted proxy's header, else of the connection."""
        return self._strangers.address(request)

    def count_anonymous(self, request: Request) -> None:
        """Count a request that needs no sign-in.

        Raises:
            ProblemError: 429.
        """
        self._strangers.count(request)
