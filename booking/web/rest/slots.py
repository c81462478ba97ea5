"""When GPUs are available, by REST."""

from booking import durations
from booking.records import SlotRequest
from booking.web.interfaces import Parts
from booking.web.mirror_barrier import MirrorBarrier
from booking.web.rest.requests import SlotBody
from booking.web.rest.responses import Slots
from booking.web.rest.routes import Nothing, ReadRequest, Reply


class SlotViews:
    """The route ``POST /slots``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._guarantee = MirrorBarrier(parts.mirror, parts.not_guaranteed_reason, parts.unknown_capacity)

    def earliest(self, call: ReadRequest[Nothing, SlotBody]) -> Reply:
        """The first slots; each could be booked now."""
        body = call.body.made()
        request = slot_request_of(body)
        self._guarantee.require_capacity()
        slots = self._parts.bookings.earliest(call.who, request, user=body.user)
        return Reply(body=Slots(slots=tuple(slots)))


def slot_request_of(body: SlotBody) -> SlotRequest:
    """The slot request of a body."""
    return SlotRequest(
        model=body.model,
        duration=durations.read(body.duration),
        count=1 if body.count is None else body.count,
        not_before=body.not_before,
        deadline=body.deadline,
        topology=body.topology,
        namespace=body.namespace,
    )
