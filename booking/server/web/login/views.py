"""Signing in and out: ``/login``, ``/login/callback``, ``/logout``."""

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, render_template, request

from booking.server.web.authentication import LONGEST_TOKEN
from booking.server.web.login.cached_fetch import FetchError
from booking.server.web.login.id_tokens import claims_unverified
from booking.server.web.login.login_state import LASTS_SECONDS, LoginState
from booking.server.web.login.oidc import BadTokenError, person_of
from booking.server.web.login.provider import Provider
from booking.server.web.login.session_auth import LoginContext, SessionAuth, session_of
from booking.server.web.login.session_csrf import SessionTokens
from booking.server.web.login.sessions import Login
from booking.server.web.pages.assets import Assets
from booking.server.web.pages.layout import protect
from booking.server.web.problems import Kind, ProblemError, problem_of, unavailable
from booking.server.web.request_guard import RequestGuard
from booking.server.web.signing_in import LOGIN, own
from cluster import names

CALLBACK: Final = f"{LOGIN}/callback"
LOGOUT: Final = "/logout"
NOT_SIGNED_IN: Final = Kind("not-signed-in", HTTPStatus.BAD_REQUEST, "You are not signed in")
_LONGEST_WORD: Final = 200


def login_pages(
    context: LoginContext, guard: RequestGuard, *, audience: str, provider: Provider | None
) -> Blueprint:
    """The blueprint for signing in and out.

    Args:
        context: its dependencies.
        guard: counts the requests of clients that are not signed in yet.
        audience: of tokens, for the message that explains how to get one.
        provider: None: people sign in with a Kubernetes token.
    """
    made = Blueprint("login", __name__, template_folder="templates")
    views: Views = OidcViews(context, provider) if provider else TokenViews(context, audience)
    routes: tuple[tuple[str, str, Callable[[], Response]], ...] = (
        ("GET", LOGIN, views.begin),
        ("POST", LOGIN, views.take),
        ("GET", CALLBACK, views.finish),
        ("POST", LOGOUT, views.leave),
    )
    for method, path, view in routes:
        name = view.__name__
        made.add_url_rule(path, name, view, methods=[method], provide_automatic_options=False)

    def count() -> None:
        # A signed-in user may always sign out.
        if request.path != LOGOUT:
            guard.count_anonymous(request)

    made.before_request(count)
    made.register_error_handler(Exception, views.problem)
    made.after_request(protect)
    return made


class Views(ABC):
    """The common part of both ways to sign in."""

    def __init__(self, context: LoginContext) -> None:
        self._context = context
        self._assets = Assets()
        self._forms = SessionTokens(context)

    @abstractmethod
    def begin(self) -> Response:
        """``GET /login``: where signing in begins."""

    def take(self) -> Response:
        """``POST /login``: the form of the page, if it has one."""
        return self._page("This page takes no form.", status=HTTPStatus.METHOD_NOT_ALLOWED)

    def finish(self) -> Response:
        """``GET /login/callback``: back from the provider."""
        return self._page(
            "This address is only for the way back from an identity provider.", status=HTTPStatus.NOT_FOUND
        )

    def leave(self) -> Response:
        """``POST /logout``: the session ends, in the browser and in the database."""
        answer = _redirect(f"{LOGIN}?out=1", HTTPStatus.SEE_OTHER)
        cookie = self._context.cookies.get(request, names.SESSION_COOKIE)
        if cookie is not None and session_of(request, self._context) is not None:
            self._forms.demand(SessionAuth(self._context).principal_of(request), request)
            self._context.sessions.close(cookie)
        self._context.cookies.drop(answer, request, names.SESSION_COOKIE)
        return answer

    def problem(self, error: Exception) -> Response:
        """An error as a page."""
        problem = problem_of(error)
        return self._page(
            problem.detail,
            title=problem.kind.title,
            status=problem.kind.status,
            headers=dict(problem.headers),
        )

    def _enter(self, login: Login, then: str) -> Response:
        """Open a session, set its cookie, and redirect to ``then``."""
        cookies = self._context.cookies
        answer = _redirect(own(then), HTTPStatus.SEE_OTHER)
        opened = self._context.sessions.open(login, cookies.get(request, names.SESSION_COOKIE))
        cookies.set(answer, request, names.SESSION_COOKIE, opened)
        return answer

    def _page(
        self,
        message: str,
        *,
        title: str = "Sign in",
        status: HTTPStatus = HTTPStatus.OK,
        headers: dict[str, str] | None = None,
        audience: str | None = None,
        then: str = "",
    ) -> Response:
        text = render_template(
            "login.html",
            title=title,
            message=message,
            audience=audience,
            then=then,
            login=LOGIN,
            asset=self._assets.address,
        )
        return Response(text, status=status, headers=headers, content_type="text/html; charset=utf-8")


class OidcViews(Views):
    """Signing in by an OIDC provider."""

    def __init__(self, context: LoginContext, provider: Provider) -> None:
        super().__init__(context)
        self._provider = provider

    def begin(self) -> Response:
        """Redirect to the provider; a user who has just signed out is not signed in again at once."""
        if "out" in request.args:
            return self._page("You are signed out.", title="Signed out")
        attempt = LoginState.begin(request.args.get("next", ""))
        try:
            address = self._provider.address(attempt, self._back)
        except FetchError as error:
            raise _not_now(error) from error
        answer = _redirect(address, HTTPStatus.FOUND)
        self._context.cookies.set(answer, request, names.LOGIN_COOKIE, attempt.cookie, seconds=LASTS_SECONDS)
        return answer

    def finish(self) -> Response:
        """Handle the return from the provider: whatever the result, this attempt is over."""
        try:
            answer = self._finish()
        except (ProblemError, BadTokenError, FetchError) as error:
            answer = self.problem(_as_problem(error))
        self._context.cookies.drop(answer, request, names.LOGIN_COOKIE)
        return answer

    def _finish(self) -> Response:
        context, oidc, id_tokens = self._context, self._context.oidc, self._context.id_tokens
        attempt = LoginState.of(context.cookies.get(request, names.LOGIN_COOKIE))
        state = request.args.get("state", "")
        if attempt is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise BadTokenError("That took too long, or began in another window: please sign in again.")
        if "error" in request.args:
            description = request.args.get("error_description") or request.args["error"]
            raise BadTokenError(f"The identity provider says: {description[:_LONGEST_WORD]}")
        if oidc is None or id_tokens is None or request.args.get("iss", oidc.issuer) != oidc.issuer:
            raise BadTokenError("That answer is another provider's.")
        token = self._provider.id_token(request.args.get("code", ""), attempt, self._back)
        person = person_of(id_tokens.of_login(token, attempt.nonce), oidc)
        who = context.person(person)
        return self._enter(Login(who.user, "oidc", person.raw, person.subject, person.email), attempt.then)

    @property
    def _back(self) -> str:
        return f"{self._context.public}{CALLBACK}"


class TokenViews(Views):
    """Signing in by a Kubernetes token, which the API server reviews once and which is not stored."""

    def __init__(self, context: LoginContext, audience: str) -> None:
        super().__init__(context)
        self._audience = audience

    def begin(self) -> Response:
        """The form that takes a token."""
        return self._form("You are signed out." if "out" in request.args else "")

    def take(self) -> Response:
        """Sign in by the form's token."""
        self._context.demand_own_page(request)
        token = request.form.get("token", "").strip()
        try:
            # As if it came in a header.
            token = self._context.bearers.token_in(f"Bearer {token[: LONGEST_TOKEN + 1]}")
            subject = self._context.bearers.subject(token)
            who = self._context.bearers.owner(token)
        except ProblemError as error:
            return self._form(_message(error), status=error.kind.status)
        login = Login(who.user, "kubernetes", subject.name, subject, until=_end_of(token))
        return self._enter(login, request.form.get("next", ""))

    def _form(self, message: str, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
        return self._page(
            message, status=status, audience=self._audience, then=own(request.values.get("next"))
        )


def _redirect(address: str, status: HTTPStatus) -> Response:
    """A redirect to an address."""
    return Response(status=status, headers={"Location": address})


def _end_of(token: str) -> datetime | None:
    """When a valid token expires, if it says so."""
    expiry = claims_unverified(token).get("exp")
    try:
        return datetime.fromtimestamp(int(expiry), UTC) if isinstance(expiry, int | float) else None
    except (OverflowError, ValueError, OSError):
        return None


def _message(error: ProblemError) -> str:
    if error.kind.status == HTTPStatus.UNAUTHORIZED:
        return "That token is unknown, has expired or is meant for somebody else."
    return error.detail


def _as_problem(error: ProblemError | BadTokenError | FetchError) -> ProblemError:
    if isinstance(error, BadTokenError):
        return ProblemError(NOT_SIGNED_IN, str(error))
    return error if isinstance(error, ProblemError) else _not_now(error)


def _not_now(error: FetchError) -> ProblemError:
    return unavailable(f"The identity provider cannot be asked now. {error}")
