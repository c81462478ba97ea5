"""Whose bookings a user sees and changes: their own, and as an administrator all. Pure."""

from collections.abc import Iterable
from typing import Final

from booking import wording
from booking.principals import Principal
from booking.server.errors import NotAllowedError, StaleError, UnknownBookingError
from booking.server.records import Record
from booking.server.service.context import refused
from booking.server.store import Reading
from cluster.decide.identity import Rule, Source, is_address, user_of

LONGEST_USER: Final = 253
"""Characters of a user id, as in the CustomResourceDefinition of bookings."""
LONGEST_REASON: Final = 500
_SIGNED_IN: Final[tuple[Source, ...]] = ("oidc", "kubernetes")
Expected = str | frozenset[str] | None
"""Acceptable versions of the booking; None: any."""


def require_administrator(who: Principal, what: str) -> None:
    """Refuse everyone else.

    Args:
        who: the caller.
        what: they want to do, for the message: "see the audit".

    Raises:
        NotAllowedError: the caller is not an administrator.
    """
    if not who.is_administrator:
        raise NotAllowedError(f"Only administrators may {what}, and {wording.quoted(who.user)} is none.")


def beneficiary(who: Principal, user: str | None, rules: Iterable[Rule]) -> str:
    """The user for whom something is done: the caller, or the user whom an administrator names.

    Args:
        who: the caller.
        user: a user id; or an e-mail address, which may be a name by which a user signs in.
        rules: map the names by which people sign in to user ids.
    """
    if user is None or user == who.user:
        return who.user
    require_administrator(who, "book for somebody else")
    if not 0 < len(user) <= LONGEST_USER or not user.isprintable() or user != user.strip():
        raise refused("not-a-user", f"Nobody has the user id {wording.quoted(user)}.")
    return _owner_of(user, tuple(rules)) if is_address(user) else _folded(user, tuple(rules))


def _folded(user: str, rules: tuple[Rule, ...]) -> str:
    """The user id in small letters if that is what everybody gets who signs in with this name (ADR 67)."""
    signed_in = {user_of(source, user, rules) for source in _SIGNED_IN} - {None}
    return user.lower() if signed_in == {user.lower()} else user


def _owner_of(address: str, rules: tuple[Rule, ...]) -> str:
    """User id of the person who signs in with an e-mail address; refused if no rule maps it (ADR 61)."""
    for source in _SIGNED_IN:
        user = user_of(source, address, rules)
        if user:
            return user
    raise refused(
        "not-a-user",
        f"Nobody has the user id {wording.quoted(address)}: it is an e-mail address, and no identity rule "
        "makes it a user id. Name the user as lists of bookings do.",
    )


def found(reading: Reading, who: Principal, booking_id: str) -> Record:
    """A booking that this user may see."""
    record = reading.find(None if who.is_administrator else who.user, booking_id)
    if record is None:
        whose = "There is no booking" if who.is_administrator else "You have no booking"
        raise UnknownBookingError(f"{whose} {wording.quoted(booking_id)}.")
    return record


def require_current(record: Record, expected: Expected) -> None:
    """Check that the caller decided on the current version."""
    versions = {expected} if isinstance(expected, str) else expected
    if versions is not None and record.version not in versions:
        raise StaleError(
            f"The booking {record.id} has changed since you saw it: look at it again, then decide.",
            version=record.version,
        )


def reason_of(who: Principal, owner: str, reason: str | None) -> str | None:
    """Why a booking is ended: others than its owner have to give a reason."""
    return required_reason(reason) if who.user != owner else optional_reason(reason)


def optional_reason(reason: str | None) -> str | None:
    """The message that an administrator may give; None if there is none."""
    return None if reason is None else required_reason(reason)


def required_reason(reason: str | None) -> str:
    """The message that an administrator owes."""
    text = (reason or "").strip()
    if not text:
        raise refused("no-reason", "Say why: a reason is missing.")
    if len(text) > LONGEST_REASON:
        raise refused("reason-too-long", f"A reason has at most {LONGEST_REASON} characters.")
    if not text.isprintable():
        raise refused(
            "not-a-reason",
            f"The reason {wording.quoted(text)} has characters that nobody can see: leave them out.",
        )
    return text
