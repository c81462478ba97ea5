"""The authenticated user of a request to the booking server."""

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in user; created by the web layer only (law L7)."""

    user: str
    """The user id, to which identity rules have mapped the raw name."""
    name: str
    """The raw name from the API server or the identity provider."""
    account: str = ""
    """The name by which the API server knows them, for reviews of their permissions; empty: it knows none."""
    groups: frozenset[str] = frozenset()
    is_administrator: bool = False
    """Whether they may ``administer`` bookings, by the API server's decision; False where a request does not
    depend on it, so that it was not asked."""
