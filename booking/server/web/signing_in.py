"""Identifies callers. An interface for REST and pages; nothing else makes a ``Principal`` (law L7)."""

from typing import Final, Protocol
from urllib.parse import urlencode

from flask import Request

from booking.principals import Principal

LOGIN: Final = "/login"
"""Where people sign in; the parameter ``next`` has the address to which they return."""
HOME: Final = "/"
KEPT: Final = "/kept"
"""Where a form that was kept across the login is sent."""
_LONGEST: Final = 2000


class SigningIn(Protocol):
    """Identifies the user behind a request."""

    def principal_of(self, request: Request, *, asks_role: bool = True) -> Principal:
        """The user behind a request.

        Args:
            request: theirs.
            asks_role: whether it matters that they may be an administrator; otherwise they count as none.

        Raises:
            ProblemError: 401 when no user is signed in, 403 for a name without a user, 503 when the API
                server or the identity provider cannot be reached.
        """
        ...

    def is_guess(self, request: Request) -> bool:
        """Whether identifying the user needs a remote call, and no earlier success vouches for the token."""
        ...


def own(address: str | None) -> str:
    """An address of ours to continue at: a path, and nothing that a browser takes for another host."""
    if (
        not address
        or len(address) > _LONGEST
        or not address.startswith("/")
        or address.startswith(("//", LOGIN))
        or "\\" in address
        or not all("!" <= letter <= "~" for letter in address)
    ):
        return HOME
    return address


def login_for(address: str) -> str:
    """Where to sign in, to return to an address."""
    wanted = own(address)
    return LOGIN if wanted == HOME else f"{LOGIN}?{urlencode({'next': wanted})}"
