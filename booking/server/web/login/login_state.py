"""A sign-in on its way to the identity provider and back: what must come back with it.

All of it is derived from one secret in a cookie, so that nothing is stored for people who may never
return, and no other browser can finish a login that this one began (login CSRF).
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from booking.server.web.signing_in import own

LASTS_SECONDS: Final = 600
_SECRET_LETTERS: Final = 43
"""Letters of a secret: 32 bytes in base64."""


@dataclass(frozen=True)
class LoginState:
    """What is remembered while a user is sent to the provider and back."""

    secret: str
    then: str
    """The address to go to afterwards."""

    @classmethod
    def begin(cls, then: str) -> "LoginState":
        """The state of a new login, which leads to the address ``then``."""
        return cls(secrets.token_urlsafe(32), own(then))

    @classmethod
    def of(cls, cookie: str | None) -> "LoginState | None":
        """The state in a cookie; None if it is malformed."""
        secret, _, then = (cookie or "").partition(".")
        if len(secret) != _SECRET_LETTERS or not secret.isascii():
            return None
        try:
            return cls(secret, own(base64.urlsafe_b64decode(then.encode()).decode()))
        except (binascii.Error, ValueError):
            return None

    @property
    def cookie(self) -> str:
        """The value of the cookie that the browser keeps meanwhile."""
        return f"{self.secret}.{base64.urlsafe_b64encode(self.then.encode()).decode()}"

    @property
    def state(self) -> str:
        """``state`` in the request to the provider, which comes back in the address."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Comes back in the ID token."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Proves that the code was issued to us (PKCE)."""
        return self._derived("verifier")

    def _derived(self, what: str) -> str:
        digest = hmac.new(self.secret.encode(), what.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
