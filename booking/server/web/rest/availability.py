"""The availability of GPUs, by REST."""

from datetime import timedelta
from typing import Final

from booking.server.web.interfaces import Parts
from booking.server.web.problems import REFUSED, ProblemError, ProblemViolation, unavailable
from booking.server.web.rest.requests import WhichSpan
from booking.server.web.rest.responses import Availability, model_answer
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply

SPAN: Final = timedelta(days=28)
"""The span without an explicit end."""


class AvailabilityViews:
    """The route ``GET /availability``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def show(self, call: ReadRequest[WhichSpan, Nothing]) -> Reply:
        """Steps of free GPUs, of one model or of all, in the query's span; by default the next 28 days."""
        unknown = self._parts.unknown_capacity()
        if unknown:
            raise unavailable(unknown)
        start = call.query.start or self._parts.clock.now().replace(microsecond=0)
        try:
            end = call.query.end or start + SPAN
        except OverflowError as error:
            message = "The parameter start is at the end of the calendar."
            wrong = ProblemViolation(rule="beyond-the-calendar", message=message, field="start")
            raise ProblemError(REFUSED, message, violations=[wrong]) from error
        models = self._parts.bookings.availability(call.who, call.query.model, start, end)
        return Reply(body=Availability(start=start, end=end, models=tuple(map(model_answer, models))))
