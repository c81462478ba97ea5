"""HTTP to the OIDC provider: its metadata, its keys, and ID tokens for codes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from urllib3.exceptions import HTTPError

from booking.server.web.login.addresses import is_trusted
from booking.server.web.login.cached_fetch import CachedFetch, FetchError
from booking.server.web.login.login_state import LoginState
from booking.server.web.login.oidc import BadTokenError, Oidc
from cluster.process.clock import Clock

LONGEST_ANSWER: Final = 2**20
_TIMEOUT: Final = urllib3.Timeout(connect=2.0, read=5.0)
"""Short, because a user waits for the answer."""
D = TypeVar("D")


class Metadata(msgspec.Struct, frozen=True):
    """The provider's metadata (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(msgspec.Struct, frozen=True):
    """The provider's answer to a code."""

    id_token: str


class Provider:
    """The site's provider. Thread-safe."""

    def __init__(self, oidc: Oidc, clock: Clock) -> None:
        self._oidc = oidc
        self._pool = urllib3.PoolManager(
            num_pools=4, cert_reqs="CERT_REQUIRED", ca_certs=str(oidc.ca_file) if oidc.ca_file else None
        )
        self._metadata = CachedFetch(self._fetch_metadata, clock)
        self._keys = CachedFetch(self._fetch_keys, clock)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def keys(self, *, renew: bool = False) -> KeySet:
        """The provider's keys; ``renew``: a token is signed by none of the cached ones.

        Raises:
            FetchError: they cannot be fetched.
        """
        return self._keys.get(renew=renew)

    def address(self, attempt: LoginState, back: str) -> str:
        """Where a browser goes to sign in; afterwards it comes ``back``.

        Raises:
            FetchError: the provider's metadata cannot be fetched.
        """
        address: str = prepare_grant_uri(
            self._metadata.get().authorization_endpoint,
            self._oidc.client_id,
            "code",
            redirect_uri=back,
            scope=list(self._oidc.scopes),
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier),
            code_challenge_method="S256",
        )
        return address

    def id_token(self, code: str, attempt: LoginState, back: str) -> str:
        """Exchange a code for an ID token.

        Raises:
            BadTokenError: the code is not accepted.
            FetchError: the provider cannot be reached.
        """
        metadata = self._metadata.get()
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": attempt.verifier,
        }
        headers = self._proof(fields, metadata)
        status, body = self._ask("POST", metadata.token_endpoint, fields=fields, headers=headers)
        if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise BadTokenError("The identity provider does not accept its own code: it may have been used.")
        if status != HTTPStatus.OK:
            raise FetchError(f"The identity provider answered the code with {status}.")
        return _decoded(body, Tokens, metadata.token_endpoint).id_token

    def _proof(self, fields: dict[str, str], metadata: Metadata) -> Mapping[str, str]:
        """Headers that authenticate us as a client; client id and secret may go into ``fields`` instead."""
        if self._oidc.secret_file is None:
            fields["client_id"] = self._oidc.client_id
            return {}
        try:
            secret = self._oidc.secret_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise FetchError(f"The client secret cannot be read: {error.strerror}.") from error
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            return urllib3.make_headers(basic_auth=f"{self._oidc.client_id}:{secret}")
        fields |= {"client_id": self._oidc.client_id, "client_secret": secret}
        return {}

    def _fetch_metadata(self) -> Metadata:
        url = f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = _decoded(self._document(url), Metadata, url)
        if found.issuer != self._oidc.issuer:
            raise FetchError(f"{url} speaks for the issuer {found.issuer!r}, not {self._oidc.issuer!r}.")
        for each in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            if not is_trusted(each):
                raise FetchError(f"{url} names an address without TLS: {each}.")
        return found

    def _fetch_keys(self) -> KeySet:
        url = self._metadata.get().jwks_uri
        found = _decoded(self._document(url), dict[str, Any], url)
        listed = [key for key in found.get("keys", ()) if key.get("use", "sig") == "sig"]
        try:
            return KeySet.import_key_set({"keys": listed})
        except (JoseError, ValueError, TypeError) as error:
            raise FetchError(f"{url} has no keys that can be used: {error}.") from error

    def _document(self, url: str) -> bytes:
        status, body = self._ask("GET", url)
        if status != HTTPStatus.OK:
            raise FetchError(f"{url} answers with {status}.")
        return body

    def _ask(
        self,
        method: str,
        url: str,
        *,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        wanted = {"Accept": "application/json", **(headers or {})}
        if fields:
            wanted["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            answer = self._pool.request(
                method,
                url,
                body=urlencode(fields) if fields else None,
                headers=wanted,
                timeout=_TIMEOUT,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = answer.read(LONGEST_ANSWER)
            answer.release_conn()
        except (HTTPError, OSError) as error:
            raise FetchError(f"{url} does not answer: {error}.") from error
        return answer.status, body


def _decoded(body: bytes, into: type[D], url: str) -> D:
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FetchError(f"What {url} says is not what an OpenID provider says: {error}.") from error
