"""The page *Availability* over HTTP, as a browser requests it: on one persistent connection, on loopback.

The floor, in turns with it, is a file that the same server answers from memory.
"""

import http.client
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns

BOOKINGS: Final = 5_000
CALLS: Final = 200
PERCENTS: Final = (50, 95)
_KINDS: Final = {
    percent: Kind(
        f"page-p{percent}",
        f"page Availability, {BOOKINGS} bookings of the four weeks that it shows, p{percent}",
        "ms",
        "a file of the same server, from memory",
        target=Target(value=100) if percent == max(PERCENTS) else None,
    )
    for percent in PERCENTS
}


class Reader:
    """Asks as alice's browser does."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def see(self, address: str) -> bytes:
        """One round trip."""
        self._connection.request("GET", address, headers={"Authorization": "Bearer alice-token"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{address} answered {answer.status}: {content[:300].decode()}")
        return content

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def measure(_lab: Lab) -> Iterator[Row]:
    """The median and the slow end."""
    with child("tests.bench.page_server", str(BOOKINGS)) as port:
        reader = Reader(int(port))
        if reader.see("/").count(b'class="row"') < 2:
            raise RuntimeError("The page shows no models; what is measured is not its work.")
        ours, least = in_turns(CALLS, lambda: reader.see("/"), lambda: reader.see("/static/icon.svg"))
        reader.close()
    for percent, kind in _KINDS.items():
        yield kind.row(1000 * percentile(ours, percent), 1000 * percentile(least, percent))


MEASURE: Final = Measure("page", tuple(_KINDS.values()), measure)
