"""People who are signed in, for tests: ``somebody("alice")``."""

from booking.principals import Principal


def somebody(user: str = "alice", *groups: str) -> Principal:
    """A user like any other."""
    return Principal(user=user, name=user, groups=frozenset(groups))


def an_administrator(user: str = "root") -> Principal:
    """A user who may ``administer`` bookings."""
    return Principal(user=user, name=user, is_administrator=True)
