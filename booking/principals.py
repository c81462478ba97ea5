"""Who asks the booking server, once the edge has found out."""

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who is signed in; made by the web's edge alone (law L7)."""

    user: str
    """The user id, to which identity rules have mapped the raw name."""
    name: str
    """The raw name, as the API server or the identity provider says it."""
    groups: frozenset[str] = frozenset()
    is_administrator: bool = False
    """Whether they may ``administer`` bookings, as the API server says."""
