"""What the controller has recorded of fair shares, read from its ConfigMap now and then."""

from collections.abc import Mapping
from typing import Final

import structlog

from booking.fair_shares.queue import NOTHING_OWED
from booking.fair_shares.stored_record import KEY, books_of, decoded
from cluster import names
from cluster.decide.fairshare import Books
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import CONFIG_MAPS
from cluster.objects.meta import UNREADABLE
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

READ_EVERY: Final = 10.0
"""Seconds for which an answer counts; the controller writes once a minute."""


class ShareRecord:
    """Reads the record. May be called by several threads: each answer is whole."""

    def __init__(self, kube: Kube, clock: Clock, namespace: str) -> None:
        """Args: namespace: the product's."""
        self._kube, self._clock, self._namespace = kube, clock, namespace
        self._known: tuple[float, Mapping[str, Books]] | None = None
        """When it was read, monotonic, and what it says."""

    def books(self) -> Mapping[str, Books]:
        """Model -> what was owed when it was written; nothing where it is missing or cannot be read."""
        now = self._clock.monotonic()
        if self._known is None or now - self._known[0] >= READ_EVERY:
            self._known = (now, self._read())
        return self._known[1]

    def _read(self) -> Mapping[str, Books]:
        try:
            found = self._kube.get(CONFIG_MAPS, names.SHARES_RECORD, namespace=self._namespace)
            return books_of(decoded((found.data or {}).get(KEY, "{}")))
        except NotFound:
            return NOTHING_OWED
        except (ApiError, *UNREADABLE) as error:
            log.info("the record of fair shares cannot be read", error=str(error))
            return NOTHING_OWED
