"""When GPUs are available, by REST."""

from typing import Final

from booking import durations
from booking.server.errors import RefusedError
from booking.server.records import SlotRequest
from booking.server.web.interfaces import Parts
from booking.server.web.mirror_barrier import MirrorBarrier
from booking.server.web.rest.requests import SlotBody, WhichSlots
from booking.server.web.rest.responses import Slots
from booking.server.web.rest.routes import ReadRequest, Reply

_PLANNED: Final = "one-planned"
"""The rule by which a planned booking keeps its user from booking more."""


class SlotViews:
    """The route ``POST /slots``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._guarantee = MirrorBarrier(parts.mirror, parts.not_guaranteed_reason, parts.unknown_capacity)

    def earliest(self, call: ReadRequest[WhichSlots, SlotBody]) -> Reply:
        """The first slots; each could be booked now, unless a warning says why not."""
        body = call.body.made()
        request = slot_request_of(body)
        self._guarantee.require_capacity()
        bookings = self._parts.bookings
        try:
            slots = bookings.earliest(call.who, request, user=body.user)
        except RefusedError as refused:
            planned = [each.message for each in refused.violations if each.rule == _PLANNED]
            if not (call.query.despite_planned and planned):
                raise
            slots = bookings.earliest(call.who, request, user=body.user, despite_planned=True)
            return Reply(body=Slots(slots=tuple(slots), warnings=tuple(planned)))
        return Reply(body=Slots(slots=tuple(slots)))


def slot_request_of(body: SlotBody) -> SlotRequest:
    """The slot request of a body."""
    return SlotRequest(
        model=body.model,
        duration=durations.read(body.duration),
        count=1 if body.count is None else body.count,
        memory=body.memory,
        not_before=body.not_before,
        deadline=body.deadline,
        topology=body.topology,
        namespace=body.namespace,
    )
