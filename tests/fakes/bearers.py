"""Signing in by Kubernetes tokens alone, without sessions."""

from flask import Request

from booking.principals import Principal
from booking.server.web.authentication import Authenticator


class BearerTokens:
    """``SigningIn``: who shows a token in the header ``Authorization``."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def principal_of(self, request: Request, *, asks_role: bool = True) -> Principal:
        """The token's owner."""
        token = self._authenticator.token_in(request.headers.get("Authorization"))
        return self._authenticator.owner(token, asks_role=asks_role)

    def is_guess(self, request: Request) -> bool:
        """A token that has not been good before."""
        header = request.headers.get("Authorization")
        return header is not None and not self._authenticator.has_been_good(header)
