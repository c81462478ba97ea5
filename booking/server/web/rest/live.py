"""The current state of the cluster, by REST."""

from booking.server.web.interfaces import Parts
from booking.server.web.rest.requests import WhichModel
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply


class LiveViews:
    """The routes ``GET /now`` and ``GET /pods/{namespace}/{name}/why``."""

    def __init__(self, parts: Parts) -> None:
        self._live = parts.live

    def now(self, call: ReadRequest[Nothing, Nothing]) -> Reply:
        """Nodes and devices with their holders, and who would be evicted next."""
        return Reply(body=self._live.now(call.who))

    def queue(self, call: ReadRequest[WhichModel, Nothing]) -> Reply:
        """Who waits for GPUs without a booking."""
        return Reply(body=self._live.queue(call.who, call.query.model))

    def why(self, call: ReadRequest[Nothing, Nothing]) -> Reply:
        """The explanation of a pod."""
        return Reply(body=self._live.why(call.who, call.path["namespace"], call.path["name"]))
