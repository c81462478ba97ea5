"""Verifies ID tokens: signature, issuer, audience, times, nonce."""

import base64
import binascii
import hmac
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

import msgspec
from joserfc import jwt
from joserfc.errors import BadSignatureError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry

from booking.server.web.login.oidc import BadTokenError, Oidc
from cluster.process.clock import Clock

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures by a private key: no shared secret, and never ``none``."""
LEEWAY_SECONDS: Final = 30
"""Tolerated difference between the provider's clock and ours."""


class Keys(Protocol):
    """The part of ``Provider`` that is used here."""

    def keys(self, *, renew: bool = False) -> KeySet:
        """The provider's keys; see ``Provider``."""
        ...


class IdTokens:
    """Verifies tokens of one provider."""

    def __init__(self, provider: Keys, oidc: Oidc, clock: Clock) -> None:
        self._provider = provider
        self._oidc = oidc
        self._clock = clock

    def is_of_provider(self, token: str) -> bool:
        """Whether a token claims to be the provider's."""
        return claims_unverified(token).get("iss") == self._oidc.issuer

    def of_login(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Claims of a token that was issued for this login.

        Raises:
            BadTokenError: it was not.
            FetchError: the provider's keys cannot be fetched.
        """
        claims = self._claims(token, {self._oidc.client_id})
        claim = claims.get("nonce")
        if not isinstance(claim, str) or not hmac.compare_digest(claim.encode(), nonce.encode()):
            raise BadTokenError("The ID token was made for another login.")
        return claims

    def shown(self, token: str) -> Mapping[str, Any]:
        """Claims of a token that a client shows.

        Raises:
            BadTokenError: it is not valid here.
            FetchError: the provider's keys cannot be fetched.
        """
        return self._claims(token, {self._oidc.client_id, *self._oidc.audiences})

    def _claims(self, token: str, audiences: Collection[str]) -> Mapping[str, Any]:
        keys = self._provider.keys()
        if not _is_signed_by(token, keys):
            # The provider may have new keys.
            keys = self._provider.keys(renew=True)
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            self._registry(audiences).validate(claims)
        except ExpiredTokenError as error:
            raise BadTokenError("The ID token has expired.") from error
        except (JoseError, ValueError, TypeError) as error:
            raise BadTokenError("The ID token is not one of the provider's for us.") from error
        if claims.get("azp", next(iter(audiences))) not in audiences:
            raise BadTokenError("The ID token was made for another client.")
        return claims

    def _registry(self, audiences: Collection[str]) -> JWTClaimsRegistry:
        return JWTClaimsRegistry(
            now=int(self._clock.now().timestamp()),
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._oidc.issuer},
            aud={"essential": True, "values": list(audiences)},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
        )


def _is_signed_by(token: str, keys: KeySet) -> bool:
    """False if other keys might help; True if one of these has signed it, or it is otherwise invalid."""
    try:
        jwt.decode(token, keys, algorithms=ALGORITHMS)
    except (BadSignatureError, InvalidKeyIdError):
        return False
    except (JoseError, ValueError, TypeError):
        return True
    return True


def claims_unverified(token: str) -> Mapping[str, Any]:
    """The unverified claims of a token; empty if it is not a JWT."""
    payload = token.partition(".")[2].partition(".")[0]
    try:
        padded = payload + "=" * (-len(payload) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=dict[str, Any])
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError):
        return {}
