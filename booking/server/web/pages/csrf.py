"""Proof that a form comes from our own page: an interface, and tokens that need no session.

A cross-site request carries what the browser adds by itself, never the contents of our forms.
"""

import hashlib
import hmac
import secrets
from typing import Final, Protocol

from flask import Request

from booking.principals import Principal
from booking.server.web.problems import FORGED, ProblemError

FIELD: Final = "csrf"
"""Name of the hidden field."""


class CsrfProtection(Protocol):
    """Makes the tokens of forms, and checks those that come back."""

    def token(self, who: Principal, request: Request) -> str:
        """The token for the forms in the answer to this request."""
        ...

    def demand(self, who: Principal, request: Request) -> None:
        """Check that a form was ours.

        Raises:
            ProblemError: 403.
        """
        ...


class UserTokens:
    """One token per user, as long as this process lives."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def token(self, who: Principal, _request: Request, /) -> str:
        """The token of a user's forms, derived from the user id."""
        return hmac.new(self._key, who.user.encode(), hashlib.sha256).hexdigest()

    def demand(self, who: Principal, request: Request) -> None:
        """Refuse a form without the user's token; compared in constant time."""
        given = request.form.get(FIELD, "")
        if not hmac.compare_digest(given.encode(), self.token(who, request).encode()):
            raise stale_form()


def stale_form() -> ProblemError:
    """The answer to a form that is not ours, or too old."""
    return ProblemError(
        FORGED, "Nothing was changed: the form was too old. Load the page again, and send it again."
    )
