"""Where a user continues who had to sign in while filling in a form."""

from http import HTTPStatus

from flask import Response, request

from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout
from booking.server.web.signing_in import HOME


class KeptPage:
    """The page ``/kept``: it sends the form that was kept, at once or by its button."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame

    def show(self) -> Response:
        """``GET /kept``; shown once, and only to the user who filled in the form."""
        visit = self._frame.visit()
        kept = self._parts.kept
        if kept is None:
            return _home()
        form = kept.waiting(visit.who, request)
        answer = _home() if form is None else self._frame.page("kept.html", visit, form=form, sends=True)
        kept.drop(answer, request)
        return answer


def _home() -> Response:
    return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": HOME})
