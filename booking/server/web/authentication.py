"""The caller: a Kubernetes bearer token, reviewed by the API server; identity rules map it to a user id.

The review's result is cached for ten seconds under the token's SHA-256, never with the token.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import structlog

from booking.principals import Principal
from booking.server.ttl_cache import KnownUsers, TtlCache
from booking.server.web.problems import NO_TOKEN, NOT_A_USER, ProblemError, unavailable
from booking.server.web.roles import Roles
from cluster import names
from cluster.decide.identity import Rule, Source, is_address, user_of
from cluster.kube.errors import ApiError
from cluster.kube.token_review import Subject, Tokens
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

LONGEST_TOKEN: Final = 16 * 1024
LONGEST_NAME: Final = 253
"""Characters of a user id: as many as a Booking object accepts."""

_HEADER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
"""A bearer token as defined by RFC 6750, section 2.1."""


class Authenticator:
    """Identifies the caller. Thread-safe."""

    def __init__(
        self, tokens: Tokens, rules: Sequence[Rule], clock: Clock, roles: Roles, *, audience: str
    ) -> None:
        """Args: audience: the one that messages advise people to request."""
        self._tokens = tokens
        self._rules = tuple(rules)
        self._roles = roles
        self._audience = audience
        # Never keyed by the token: the cache may end up in a dump.
        self._known: TtlCache[bytes, Subject | None] = TtlCache(clock)
        self._acquaintances: KnownUsers[bytes] = KnownUsers()

    def principal(self, authorization: str | None) -> Principal:
        """The caller that the header ``Authorization`` identifies.

        Raises:
            ProblemError: 401 without a valid token, 403 for a name without a user, 503 when the API server
                could not be reached.
        """
        return self.owner(self.token_in(authorization))

    def token_in(self, authorization: str | None) -> str:
        """The token in that header.

        Raises:
            ProblemError: 401.
        """
        if authorization is None:
            raise self.refusal("The request carries no token.")
        found = _HEADER.fullmatch(authorization)
        if not found or len(found[1]) > LONGEST_TOKEN:
            raise self.refusal("The header Authorization is not of the form: Bearer TOKEN.", error=True)
        return found[1]

    def owner(self, token: str, *, asks_role: bool = True) -> Principal:
        """The owner of a token; for ``asks_role`` see ``SigningIn.principal_of``.

        Raises:
            ProblemError: see ``principal``.
        """
        subject = self.subject(token)
        roles = self._roles if asks_role else None
        return principal_of("kubernetes", subject.name, subject, rules=self._rules, roles=roles)

    def subject(self, token: str) -> Subject:
        """The owner of a token by the API server's review.

        Raises:
            ProblemError: 401 or 503.
        """
        digest = _digest(token)
        known = self._known.get(digest, lambda: self._queried(token))
        if known is None:
            self._acquaintances.drop(digest)
            raise self.refusal("The token is unknown, has expired or is meant for somebody else.", error=True)
        self._acquaintances.add(digest)
        return known

    def has_been_good(self, authorization: str | None) -> bool:
        """Whether the token in that header was good when it came last: then it was not guessed."""
        found = _HEADER.fullmatch(authorization or "")
        return found is not None and _digest(found[1]) in self._acquaintances

    def _queried(self, token: str) -> Subject | None:
        try:
            return self._tokens.owner_of(token)
        except ApiError as error:
            log.warning("a token review failed", error=str(error))
            raise unavailable(
                "The Kubernetes API server could not be asked whose the token is. Nothing was changed; try"
                " again soon."
            ) from error

    def refusal(self, message: str, *, error: bool = False) -> ProblemError:
        """The answer to a client that is not signed in; error: it sent a token."""
        challenge = f'Bearer realm="{self._audience}"' + (', error="invalid_token"' if error else "")
        return ProblemError(
            NO_TOKEN,
            f"{message} Make one with: kubectl create token NAME -n NAMESPACE --audience {self._audience};"
            " and send it in the header: Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": challenge},
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def principal_of(
    source: Source, raw: str, subject: Subject, *, rules: Sequence[Rule], roles: Roles | None
) -> Principal:
    """A user who is known.

    Args:
        source: where the name comes from.
        raw: the name.
        subject: user and groups as the API server knows them, for roles and groups.
        rules: map names to user ids.
        roles: decides who is an administrator; None: nobody, since it does not matter.

    Raises:
        ProblemError: 403 for a name without a user, 503.
    """
    user = user_of(source, raw, rules)
    if user is None or len(user) > LONGEST_NAME or not user.isprintable():
        seen = " An address is not a user id by itself, because everybody who may see pods sees user ids."
        raise ProblemError(
            NOT_A_USER,
            f"You are {raw!r}, and no identity rule of this installation maps that name to a user. Its"
            f" administrator can add one ({names.setting('identity_rules')})."
            f"{seen if is_address(raw) else ''}",
        )
    return Principal(
        user=user,
        name=raw,
        account=subject.name,
        groups=subject.groups,
        is_administrator=roles is not None and roles.is_administrator(subject),
    )
