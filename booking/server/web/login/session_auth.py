"""The user behind a request: by a bearer token of the cluster or the provider, or a session's cookie."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flask import Request, g

from booking.principals import Principal
from booking.server.store_records import Session
from booking.server.web.authentication import Authenticator, principal_of
from booking.server.web.login.addresses import is_same_origin
from booking.server.web.login.cached_fetch import FetchError
from booking.server.web.login.cookies import Cookies
from booking.server.web.login.id_tokens import IdTokens
from booking.server.web.login.oidc import BadTokenError, Oidc, Person, person_of
from booking.server.web.login.sessions import Sessions
from booking.server.web.problems import FORGED, ProblemError, unavailable
from booking.server.web.roles import Roles
from cluster import names
from cluster.decide.identity import Rule
from cluster.kube.token_review import Subject

_HARMLESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, kw_only=True)
class LoginContext:
    """The dependencies of the login."""

    bearers: Authenticator
    sessions: Sessions
    cookies: Cookies
    roles: Roles
    rules: Sequence[Rule]
    public: str | None = None
    """URL by which people reach us."""
    oidc: Oidc | None = None
    id_tokens: IdTokens | None = None
    """Verifies the provider's tokens, if there is a provider."""

    def person(self, person: Person, *, asks_role: bool = True) -> Principal:
        """The principal for a person whom the provider names; see ``SigningIn.principal_of``.

        Raises:
            ProblemError: 403 for a name without a user, 503.
        """
        roles = self.roles if asks_role else None
        return principal_of("oidc", person.raw, person.subject, rules=self.rules, roles=roles)

    def demand_own_page(self, request: Request) -> None:
        """Check that a browser sends the request from one of our pages.

        Raises:
            ProblemError: 403.
        """
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        if not is_same_origin(origin, site, host=request.host, public=self.public):
            raise ProblemError(FORGED, "Nothing was changed: the request came from another site's page.")


class SessionAuth:
    """Identifies callers by a token or a session's cookie: an implementation of ``SigningIn``."""

    def __init__(self, context: LoginContext) -> None:
        self._context = context

    def principal_of(self, request: Request, *, asks_role: bool = True) -> Principal:
        """The caller: a token takes precedence over a cookie.

        Raises:
            ProblemError: 401, 403, 503.
        """
        header = request.headers.get("Authorization")
        if header is None:
            session = session_of(request, self._context)
            return (
                self._context.bearers.principal(None)
                if session is None
                else self._signed_in(session, request, asks_role=asks_role)
            )
        token = self._context.bearers.token_in(header)
        id_tokens, oidc = self._context.id_tokens, self._context.oidc
        if id_tokens is None or oidc is None or not id_tokens.is_of_provider(token):
            return self._context.bearers.owner(token, asks_role=asks_role)
        try:
            return self._context.person(person_of(id_tokens.shown(token), oidc), asks_role=asks_role)
        except BadTokenError as error:
            raise self._context.bearers.refusal(str(error), error=True) from error
        except FetchError as error:
            raise unavailable(f"The identity provider cannot be asked for its keys. {error}") from error

    def is_guess(self, request: Request) -> bool:
        """Whether it has a new or invalid token of the cluster; the provider's are verified locally."""
        header = request.headers.get("Authorization")
        if header is None or self._context.bearers.has_been_good(header):
            return False
        id_tokens = self._context.id_tokens
        return id_tokens is None or not id_tokens.is_of_provider(header.partition(" ")[2].strip())

    def _signed_in(self, session: Session, request: Request, *, asks_role: bool) -> Principal:
        # A browser sends cookies with requests that other sites' pages cause, too.
        if request.method not in _HARMLESS:
            self._context.demand_own_page(request)
        subject = Subject(session.data["subject"], frozenset(session.groups))
        source = session.data["source"]
        roles = self._context.roles if asks_role else None
        return principal_of(source, session.name, subject, rules=self._context.rules, roles=roles)


def session_of(request: Request, context: LoginContext) -> Session | None:
    """The session of a request; read once per request."""
    if "session" not in g:
        g.session = context.sessions.find(context.cookies.get(request, names.SESSION_COOKIE))
    found: Session | None = g.session
    return found
