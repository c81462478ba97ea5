"""Signing in by Kubernetes tokens alone, without sessions."""

from flask import Request

from booking.principals import Principal
from booking.server.web.authentication import Authenticator


class BearerTokens:
    """``SigningIn``: who shows a token in the header ``Authorization``."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def principal_of(self, request: Request) -> Principal:
        """The token's owner."""
        return self._authenticator.principal(request.headers.get("Authorization"))

    def is_guess(self, request: Request) -> bool:
        """A token that has not been good before."""
        header = request.headers.get("Authorization")
        return header is not None and not self._authenticator.has_been_good(header)
