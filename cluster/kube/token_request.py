"""Gets a ServiceAccount's token for the booking server from the API server, with the account's own token.

A ServiceAccount's token for the API server is not valid elsewhere, and must not be sent there: its receiver
could act in the cluster. Source: authentication.k8s.io/v1 TokenRequest; RFC 7519 for a token's claims.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

from cluster import names
from cluster.decide.identity import ACCOUNTS
from cluster.kube.connection import ApiServerAccess
from cluster.kube.errors import Malformed
from cluster.kube.transport import Call, Timeouts, Transport
from cluster.objects.meta import Instant, Partial
from cluster.process.clock import Clock

LIFE_SECONDS: Final = 600
"""The shortest lifetime that the API server grants."""


class TokenClaims(msgspec.Struct, frozen=True):
    """Claims of a token. They are not verified, and only decide which request is made."""

    sub: str = ""
    aud: str | tuple[str, ...] = ()
    exp: float | None = None


class TokenRequestStatus(Partial, frozen=True):
    """``status`` of a TokenRequest."""

    token: str = ""
    expiration_timestamp: Instant | None = None


class TokenRequest(Partial, frozen=True):
    """A TokenRequest, reduced to its answer."""

    status: TokenRequestStatus = TokenRequestStatus()


def account_of(token: str, audience: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount whose token this is; None if no other token is needed.

    No other is needed if the token already has the audience, or is not a ServiceAccount's.
    """
    claims = _claims(token)
    if claims is None or not claims.sub.startswith(ACCOUNTS) or audience in _audiences(claims):
        return None
    namespace, _, name = claims.sub.removeprefix(ACCOUNTS).partition(":")
    return (namespace, name) if namespace and name else None


def end_of(token: str) -> datetime | None:
    """When a token ends, as it says itself; None if it does not say so."""
    claims = _claims(token)
    try:
        return datetime.fromtimestamp(claims.exp, UTC) if claims and claims.exp is not None else None
    except (OverflowError, ValueError, OSError):
        return None


def token_for(
    connection: ApiServerAccess, clock: Clock, account: tuple[str, str], audience: str
) -> TokenRequestStatus:
    """A short-lived token of the account for an audience, and its end.

    Raises:
        ApiError: the caller is not allowed one, or the API server could not be reached.
    """
    namespace, name = (quote(each, safe="") for each in account)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"spec": {"audiences": [audience], "expirationSeconds": LIFE_SECONDS}}
    transport = Transport(connection, clock, user_agent=names.PRODUCT, timeouts=Timeouts())
    call = Call(verb="POST", path=path, body=msgspec.json.encode(body))
    try:
        return msgspec.json.decode(transport.send(call), type=TokenRequest).status
    except msgspec.MsgspecError as error:
        raise Malformed(call.request, f"it is not a TokenRequest: {error}") from error
    finally:
        transport.close()


def _audiences(claims: TokenClaims) -> tuple[str, ...]:
    return (claims.aud,) if isinstance(claims.aud, str) else claims.aud


def _claims(token: str) -> TokenClaims | None:
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=TokenClaims
        )
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return None
