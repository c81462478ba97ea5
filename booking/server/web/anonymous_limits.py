"""Rate limits for clients that are not signed in, by their address.

A signed-in user is counted by name only: many people may share an address. Behind proxies that are not named
in the settings all anonymous clients have one address, too, and share its limit.
"""

from collections.abc import Iterable

from flask import Request

from booking.server.web.client_address import FORWARDED, Network, client_address
from booking.server.web.rate_limits import RateLimits


class AnonymousLimits:
    """One bucket per address. Thread-safe."""

    def __init__(self, limits: RateLimits, proxies: Iterable[Network] = ()) -> None:
        """Args: proxies: those that are trusted to name the client."""
        self._limits = limits
        self._proxies = tuple(proxies)

    def count(self, request: Request) -> None:
        """Count a request of an anonymous client.

        Raises:
            ProblemError: 429, with the seconds until the next attempt.
        """
        self._limits.take(self.address(request))

    def demand(self, request: Request) -> None:
        """Check that the address has requests left, before any cost; counts nothing.

        Raises:
            ProblemError: 429, with the seconds until the next attempt.
        """
        self._limits.demand(self.address(request))

    def address(self, request: Request) -> str:
        """The client's IP address; behind a trusted proxy, the one that the proxy names."""
        return client_address(request.remote_addr, request.headers.get(FORWARDED), self._proxies)
