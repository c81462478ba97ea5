"""The frame of all pages: visitor, site's clock, navigation, and problems as sentences."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from flask import Response, render_template, request
from werkzeug.exceptions import HTTPException

from booking.principals import Principal
from booking.server.web.pages.assets import Assets
from booking.server.web.pages.csrf import FIELD
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.kept_form import KeptForm
from booking.server.web.pages.site_clock import SiteClock
from booking.server.web.problems import CONTENT_TYPE, NO_TOKEN, Kind, ProblemError, answered, problem_of
from booking.server.web.signing_in import HOME, KEPT, login_for

PLACES: Final[tuple[tuple[str, str], ...]] = (
    ("/", "Availability"),
    ("/mine", "My bookings"),
    ("/now", "Now"),
    ("/queue", "Queue"),
    ("/why", "Why"),
)
"""Address -> title, for all users."""
ADMINISTRATION: Final[tuple[tuple[str, str], ...]] = (("/admin", "Admin"),)
"""Address -> title, for administrators only."""

_MARK: Final = "continue"
"""Query parameter: where a paginated list continues."""
_NO_PAGE: Final = Kind("no-page", HTTPStatus.NOT_FOUND, "There is no such page")
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Visit:
    """A request of a signed-in user: who, when, and the token of their forms."""

    who: Principal
    clock: SiteClock
    csrf: str


class _StaleFormError(Exception):
    """A form of ours without the token of the present session."""

    def __init__(self, visit: Visit) -> None:
        super().__init__("The form was too old.")
        self.visit = visit


class PageLayout:
    """Authenticates users, and renders templates with the common frame."""

    def __init__(self, parts: PageParts, assets: Assets) -> None:
        self._parts = parts
        self._assets = assets

    def visit(self) -> Visit:
        """Identify the caller; a form that they submit must carry our token.

        Raises:
            ProblemError: no user is signed in, or the form came from elsewhere.
        """
        who = self._parts.guard.enter(request)
        clock = SiteClock(self._parts.zone(), self._parts.clock.now())
        visit = Visit(who, clock, self._parts.csrf.token(who, request))
        if request.method == "POST":
            self._demand(visit)
        return visit

    def _demand(self, visit: Visit) -> None:
        try:
            self._parts.csrf.demand(visit.who, request)
        except ProblemError as error:
            # Of a session's user it is known that one of our own pages sent the form.
            if is_fragment() or "Authorization" in request.headers:
                raise
            raise _StaleFormError(visit) from error

    def page(
        self, template: str, visit: Visit, *, status: HTTPStatus = HTTPStatus.OK, **values: Any
    ) -> Response:
        """Render a page, or a fragment of one."""
        text = render_template(
            template,
            who=visit.who,
            clock=visit.clock,
            csrf=visit.csrf,
            here=_place(request.path),
            same_page=same_page(),
            places=PLACES + (ADMINISTRATION if visit.who.is_administrator else ()),
            asset=self._assets.address,
            **values,
        )
        return Response(text, status=status, content_type="text/html; charset=utf-8")

    def no_page(self, error: HTTPException) -> Response:
        """An unknown address or method: a page for browsers, a problem for programs."""
        wanted = request.accept_mimetypes.best_match((CONTENT_TYPE, "text/html"))
        is_browser = request.method == "GET" and wanted == "text/html"
        if not is_browser or request.path.startswith("/api/"):
            return answered(problem_of(error))
        return protect(self.problem(ProblemError(_NO_PAGE, "Nothing can be seen at this address.")))

    def problem(self, error: Exception) -> Response:
        """Any failure as a page; for htmx as a message in place of the answer."""
        if isinstance(error, _StaleFormError):
            return self._once_more(error.visit)
        problem = problem_of(error)
        if problem.kind is NO_TOKEN and "Authorization" not in request.headers:
            here = request.full_path.rstrip("?")
            if is_fragment():
                # htmx would insert the login page into this one.
                answer = Response()
                then = here if request.method == "GET" else KEPT if self._keep(answer) else self._origin()
                answer.headers["HX-Redirect"] = login_for(then)
                return answer
            if request.method == "GET":
                return Response(status=HTTPStatus.FOUND, headers={"Location": login_for(here)})
            return self._signed_out(problem)
        text = render_template(
            "message.html" if is_fragment() else "problem.html",
            title=problem.kind.title,
            message=problem.detail,
            asset=self._assets.address,
        )
        return Response(
            text,
            status=problem.kind.status,
            headers=dict(problem.headers),
            content_type="text/html; charset=utf-8",
        )

    def _signed_out(self, problem: ProblemError) -> Response:
        """The answer to a form after the session has ended: it is kept until its user is back."""
        answer = Response(
            status=problem.kind.status,
            headers=dict(problem.headers),
            content_type="text/html; charset=utf-8",
        )
        is_kept = self._keep(answer)
        what = "the form is kept and sent then." if is_kept else "and send the form again."
        text = render_template(
            "problem.html",
            title="You are not signed in any more",
            message=f"Your session has ended, and nothing was changed. Sign in, {what}",
            login=login_for(KEPT if is_kept else self._origin()),
            asset=self._assets.address,
        )
        answer.set_data(text)
        return answer

    def _keep(self, answer: Response) -> bool:
        return self._parts.kept is not None and self._parts.kept.keep(answer, request)

    def _origin(self) -> str:
        """The page that a form in this request is from."""
        place = _place(request.path)
        return place if place in dict(PLACES + ADMINISTRATION) else HOME

    def _once_more(self, visit: Visit) -> Response:
        """The answer to a form from before its user signed in again: it takes one press to send it anew."""
        fields = tuple((name, text) for name, text in request.form.items(multi=True) if name != FIELD)
        form = KeptForm(request.full_path.rstrip("?"), fields, visit.who.user)
        return self.page("kept.html", visit, status=HTTPStatus.FORBIDDEN, form=form, sends=False)


def page_mark() -> str | None:
    """Where this page of a list begins, from the query; None: it is the first."""
    return request.args.get(_MARK)


def same_page(**more: str) -> str:
    """The query of this page of a list with ``more`` added; empty if there are no parameters."""
    mark = page_mark()
    query = more if mark is None else {**more, _MARK: mark}
    return f"?{urlencode(query)}" if query else ""


def _place(path: str) -> str:
    """The entry of the navigation that an address belongs to."""
    return f"/{path.split('/')[1]}"


def is_fragment() -> bool:
    """Whether htmx requests a fragment to replace a part of the page."""
    return "HX-Request" in request.headers


def protect(answer: Response) -> Response:
    """Set the headers of every answer."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer
