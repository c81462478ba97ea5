"""Identifies callers. An interface: REST and pages ask it, and nobody else makes a ``Principal`` (law L7)."""

from typing import Final, Protocol
from urllib.parse import urlencode

from flask import Request

from booking.principals import Principal

LOGIN: Final = "/login"
"""Where people sign in; behind it, as ``next``, the address to which they come back."""
HOME: Final = "/"
_LONGEST: Final = 2000


class SigningIn(Protocol):
    """Identifies the user behind a request."""

    def principal_of(self, request: Request) -> Principal:
        """Somebody.

        Raises:
            ProblemError: 401 when nobody is signed in, 403 for a name that is nobody's, 503 when those who
                know cannot be asked.
        """
        ...

    def is_guess(self, request: Request) -> bool:
        """Whether identifying the user needs a remote call, and no earlier success vouches for them."""
        ...


def own(address: str | None) -> str:
    """An address of ours to go on to: a path, and nothing that a browser takes for another host."""
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
    """Where to sign in, to come back to an address."""
    wanted = own(address)
    return LOGIN if wanted == HOME else f"{LOGIN}?{urlencode({'next': wanted})}"
