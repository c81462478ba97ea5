"""*Who am I*: the names by which the signed-in user is known."""

from flask import Response

from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout


class WhoamiPage:
    """The page ``/whoami``."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame

    def show(self) -> Response:
        """``GET /whoami``."""
        visit = self._frame.visit()
        return self._frame.page("whoami.html", visit, known=self._parts.bookings.known_names(visit.who))
