"""Writes to the Booking objects, several at once."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Final

import structlog

from booking.server.metrics import ServerMetrics
from booking.server.mirror.plan import Write
from cluster.kube.errors import ApiError, BadRequest, ClientError, Conflict, NotFound, Unprocessable
from cluster.kube.interface import Kube
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking

log = structlog.get_logger(__name__)

AT_ONCE: Final = 8
"""Writes under way at most."""


class Writes:
    """Sends what a round has planned."""

    def __init__(self, kube: Kube, metrics: ServerMetrics) -> None:
        self._kube = kube
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mirror-write")

    def send(self, writes: Iterable[Write]) -> dict[str, Booking | None]:
        """Those of one verb at once, in the order of verbs: what is created may need what a deletion frees.

        One that is refused does not keep others from being written; after a failure none begins. Returns the
        objects as they are now, by name; None for one that was deleted.

        Raises:
            ApiError: one was not written; none is still under way.
        """
        refused: ApiError | None = None
        written: dict[str, Booking | None] = {}
        for _, kind in groupby(writes, key=lambda write: write.verb):
            refused = self._together(tuple(kind), written) or refused
        if refused:
            raise refused
        return written

    def _together(self, writes: Sequence[Write], written: dict[str, Booking | None]) -> ApiError | None:
        failed = threading.Event()
        each = partial(self._attempt, failed, written)
        at_once: Callable[..., Iterable[ApiError | None]] = self._pool.map if len(writes) > 1 else map
        problems = [problem for problem in at_once(each, writes) if problem]
        for problem in problems:
            if not isinstance(problem, _REFUSALS):
                raise problem
        return problems[0] if problems else None

    def _attempt(
        self, failed: threading.Event, written: dict[str, Booking | None], write: Write
    ) -> ApiError | None:
        """Returns why it was not written; None also when it was not tried, because another has failed."""
        if failed.is_set():
            return None
        try:
            written[write.name] = self._write(write)
        except _REFUSALS as error:
            log.warning("a booking could not be mirrored", booking=write.name, error=str(error))
            return error
        except ApiError as error:
            failed.set()
            return error
        return None

    def _write(self, write: Write) -> Booking | None:
        try:
            written = self._send(write)
        except ApiError as error:
            outcome = "refused" if isinstance(error, ClientError) else "failed"
            self._metrics.writes.labels(verb=write.verb, outcome=outcome).inc()
            raise
        self._metrics.writes.labels(verb=write.verb, outcome="written").inc()
        log.info("mirrored a booking", verb=write.verb, booking=write.name)
        return written

    def _send(self, write: Write) -> Booking | None:
        if write.verb == "create":
            return self._kube.create(BOOKINGS, {"metadata": {"name": write.name}, "spec": write.spec})
        if write.verb == "change":
            metadata = {"uid": write.uid, "resourceVersion": write.version}
            return self._kube.patch(BOOKINGS, write.name, {"metadata": metadata, "spec": write.spec})
        try:
            self._kube.delete(BOOKINGS, write.name, uid=write.uid, resource_version=write.version)
        except NotFound:
            log.info("the Booking object was already deleted", booking=write.name)
        return None


_REFUSALS: Final = (BadRequest, Conflict, NotFound, Unprocessable)
"""Of this write alone: others may succeed."""
