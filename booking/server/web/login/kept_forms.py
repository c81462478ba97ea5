"""Keeps a form across signing in, in a cookie: nothing is stored for people who may never return."""

import hmac
from typing import Final

from flask import Request, Response

from booking.principals import Principal
from booking.server.web.login.session_auth import LoginContext
from booking.server.web.pages.csrf import FIELD
from booking.server.web.pages.kept_form import KeptForm, decoded, encoded
from cluster import names

_LASTS_SECONDS: Final = 3600


class SessionForms:
    """``KeptForms`` for people with sessions.

    A form is kept only if it has the token of the session that has ended: another site's page cannot have one
    sent in a user's name (CSRF).
    """

    def __init__(self, context: LoginContext) -> None:
        self._context = context

    def keep(self, answer: Response, request: Request) -> bool:
        """Set the cookie with the form of this request, if its session has ended."""
        cookies = self._context.cookies
        session = self._context.sessions.ended(cookies.get(request, names.SESSION_COOKIE))
        given = request.form.get(FIELD, "")
        if session is None or not hmac.compare_digest(given.encode(), session.csrf.encode()):
            return False
        fields = tuple((name, text) for name, text in request.form.items(multi=True) if name != FIELD)
        value = encoded(KeptForm(request.full_path.rstrip("?"), fields, session.user))
        if value is None:
            return False
        cookies.set(answer, request, names.FORM_COOKIE, value, seconds=_LASTS_SECONDS)
        return True

    def waiting(self, who: Principal, request: Request) -> KeptForm | None:
        """The form in the cookie, if it is this user's."""
        form = decoded(self._context.cookies.get(request, names.FORM_COOKIE))
        return form if form is not None and form.user == who.user else None

    def drop(self, answer: Response, request: Request) -> None:
        """Delete the cookie."""
        self._context.cookies.drop(answer, request, names.FORM_COOKIE)
