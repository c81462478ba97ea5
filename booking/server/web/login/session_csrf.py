"""The per-session token in forms against cross-site requests."""

import hmac

from flask import Request

from booking.principals import Principal
from booking.server.store_records import Session
from booking.server.web.login.session_auth import LoginContext, session_of
from booking.server.web.pages.csrf import FIELD, UserTokens, stale_form


class SessionTokens:
    """``CsrfProtection``: one token per session; for users with a bearer token, one per user."""

    def __init__(self, context: LoginContext) -> None:
        self._context = context
        self._others = UserTokens()

    def token(self, who: Principal, request: Request) -> str:
        """The token for the forms in the answer to this request."""
        session = self._session(request)
        return session.csrf if session else self._others.token(who, request)

    def demand(self, who: Principal, request: Request) -> None:
        """Check that a form was ours.

        Raises:
            ProblemError: 403.
        """
        given = request.form.get(FIELD, "")
        if not hmac.compare_digest(given.encode(), self.token(who, request).encode()):
            raise stale_form()

    def _session(self, request: Request) -> Session | None:
        return None if "Authorization" in request.headers else session_of(request, self._context)
