"""How often somebody may ask whom nobody knows: counted by the address from which they do.

Who is signed in is counted by their name alone: many people may have one address. Where proxies stand
before us and are not named in the settings, all strangers have one, too, and share what it may ask.
"""

from collections.abc import Iterable

from flask import Request

from booking.web.client_address import FORWARDED, Network, client_address
from booking.web.rate_limits import RateLimits


class AnonymousLimits:
    """One bucket per address. For many threads."""

    def __init__(self, limits: RateLimits, proxies: Iterable[Network] = ()) -> None:
        """Args: proxies: those whose word counts for whom they ask."""
        self._limits = limits
        self._proxies = tuple(proxies)

    def count(self, request: Request) -> None:
        """Count a request of a stranger's.

        Raises:
            ProblemError: 429, with when to ask again.
        """
        self._limits.take(self.address(request))

    def demand(self, request: Request) -> None:
        """See that strangers may still ask from there, before it costs anything; counts nothing.

        Raises:
            ProblemError: 429, with when to ask again.
        """
        self._limits.demand(self.address(request))

    def address(self, request: Request) -> str:
        """From where somebody asks."""
        return client_address(request.remote_addr, request.headers.get(FORWARDED), self._proxies)
