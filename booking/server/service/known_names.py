"""By which names a user is known here, and why a name that they may have elsewhere is not theirs."""

from collections.abc import Iterator, Sequence

import msgspec

from booking import wording
from booking.principals import Principal
from booking.server.service.context import ServiceContext
from cluster.decide.known_names import KnownAs, known_as


class KnownNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a user, by source."""

    user: str
    known_as: tuple[KnownAs, ...]
    notes: tuple[str, ...] = ()
    """Messages about sources that do not know the user."""


def known_names(context: ServiceContext, who: Principal) -> KnownNames:
    """The names by which the caller is known."""
    email = context.store.read(lambda reading: reading.email_of(who.user))
    seen = (who.name,) if email is None else (who.name, email)
    found = known_as(who.user, seen, context.identity_rules)
    if email is not None and context.store.read(lambda r: r.users_with_email(email)) == [who.user]:
        # MAIA's requests are looked up among the addresses that people signed in with, before any rule.
        found = tuple(_with(each, email) if each.source == "maia" else each for each in found)
    return KnownNames(user=who.user, known_as=found, notes=tuple(_notes(who.user, found)))


def _with(known: KnownAs, email: str) -> KnownAs:
    names = {*known.names, email.lower()}
    return msgspec.structs.replace(known, names=tuple(sorted(names)), any_case=True, mistaken_for=None)


def _notes(user: str, found: Sequence[KnownAs]) -> Iterator[str]:
    for known in found:
        if known.source != "jupyterhub":
            continue
        if known.mistaken_for is not None:
            yield (
                f"A JupyterHub's user {wording.quoted(user)} is the user {wording.quoted(known.mistaken_for)}"
                " here, and not you, so your bookings do not cover those notebooks. If that is you, an"
                ' administrator can set "fold": true on the identity rule by which you sign in.'
            )
        elif not known.names and not known.patterns:
            yield "No identity rule makes any JupyterHub's user you, so your bookings cover no notebook."
