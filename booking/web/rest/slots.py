"""When GPUs could be had, by REST."""

from booking import spans
from booking.records import SlotRequest
from booking.web.guarantee import Guarantee
from booking.web.ports import Parts
from booking.web.rest.answers import Slots
from booking.web.rest.requests import SlotBody
from booking.web.rest.routes import Asked, Nothing, Reply


class SlotViews:
    """``POST /slots``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._guarantee = Guarantee(parts.mirror, parts.no_promises, parts.unknown_capacity)

    def earliest(self, asked: Asked[Nothing, SlotBody]) -> Reply:
        """The first slots; each could be booked now."""
        body = asked.body.made()
        wish = slot_request_of(body)
        self._guarantee.demand_capacity()
        slots = self._parts.bookings.earliest(asked.who, wish, user=body.user)
        return Reply(body=Slots(slots=tuple(slots)))


def slot_request_of(body: SlotBody) -> SlotRequest:
    """What is asked for."""
    return SlotRequest(
        model=body.model,
        duration=spans.read(body.duration),
        count=1 if body.count is None else body.count,
        not_before=body.not_before,
        deadline=body.deadline,
        topology=body.topology,
        namespace=body.namespace,
    )
