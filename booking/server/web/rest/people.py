"""The REST routes about the caller and the policy."""

from booking.server.web.interfaces import Parts
from booking.server.web.rest.requests import WhichModel
from booking.server.web.rest.responses import Me
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply
from cluster import names


class PeopleViews:
    """The routes ``GET /me`` and ``GET /policy``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def me(self, call: ReadRequest[WhichModel, Nothing]) -> Reply:
        """The caller, and their limits now, for one model if the query names it."""
        who = call.who
        known = self._parts.bookings.known_names(who)
        answer = Me(
            user=who.user,
            name=who.name,
            groups=tuple(sorted(who.groups)),
            is_administrator=who.is_administrator,
            limits=self._parts.bookings.limits(who, model=call.query.model),
            known_as=known.known_as,
            notes=known.notes,
        )
        return Reply(body=answer)

    def policy(self, call: ReadRequest[WhichModel, Nothing]) -> Reply:
        """The policy for all users, for one model if the query names it."""
        model = call.query.model
        return Reply(body=self._parts.policy(None if model is None else names.model_label(model)))
