"""Which ID tokens are valid."""

import base64
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from booking.server.web.login.id_tokens import IdTokens
from booking.server.web.login.oidc import BadTokenError, Oidc, Person, person_of
from cluster.fake.clock import FakeClock
from cluster.kube.token_review import Subject

OIDC = Oidc(issuer="https://id.example.org", client_id="page", audiences=("kubectl",))
KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})


class FakeKeys:
    """The keys of a provider: one, and a count of renewals."""

    def __init__(self) -> None:
        self.renewed = 0

    def keys(self, *, renew: bool = False) -> KeySet:
        """The set of the provider's only key."""
        self.renewed += renew
        return KeySet([RSAKey.import_key(KEY.as_dict(private=False))])


class Desk:
    """Checks tokens of a provider with one key."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.keys = FakeKeys()
        self.tokens = IdTokens(self.keys, OIDC, self.clock)

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": OIDC.issuer,
            "aud": "page",
            "sub": "alice",
            "nonce": "n",
            "iat": now,
            "exp": now + 300,
        }
        return {name: value for name, value in {**claims, **changed}.items() if value is not None}

    def token(self, *, key: RSAKey = KEY, **changed: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": "one"}, self.claims(**changed), key)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_valid_token_names_its_user(desk: Desk) -> None:
    assert desk.tokens.of_login(desk.token(), "n")["sub"] == "alice"
    assert desk.tokens.shown(desk.token(aud=["kubectl", "others"], nonce=None))["sub"] == "alice"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example.org"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"azp": "another"},
        {"exp": None},
        {"exp": "never"},
        {"iat": None},
        {"sub": None},
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "kubectl"},
    ],
    ids=str,
)
def test_an_invalid_token_signs_nobody_in(desk: Desk, changed: dict[str, Any]) -> None:
    with pytest.raises(BadTokenError):
        desk.tokens.of_login(desk.token(**changed), "n")


def test_an_expired_token_is_refused_as_expired(desk: Desk) -> None:
    token = desk.token()
    desk.clock.advance(329)
    desk.tokens.shown(token)
    desk.clock.advance(2)
    with pytest.raises(BadTokenError, match="expired"):
        desk.tokens.shown(token)


def test_a_token_from_the_future_is_refused(desk: Desk) -> None:
    later = int(desk.clock.now().timestamp()) + 60
    with pytest.raises(BadTokenError):
        desk.tokens.shown(desk.token(nbf=later))
    with pytest.raises(BadTokenError):
        desk.tokens.shown(desk.token(iat=later))


def test_a_token_with_a_forged_key_is_refused_after_the_keys_were_fetched_again(desk: Desk) -> None:
    with pytest.raises(BadTokenError):
        desk.tokens.shown(desk.token(key=OTHER))
    assert desk.keys.renewed == 1


def test_a_token_without_signature_is_refused(desk: Desk) -> None:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    for alg in ("none", "None", "NONE"):
        token = f"{part({'alg': alg, 'kid': 'one'})}.{part(desk.claims())}."
        assert desk.tokens.is_of_provider(token)
        with pytest.raises(BadTokenError):
            desk.tokens.shown(token)


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused(desk: Desk) -> None:
    secret = OctKey.import_key(KEY.as_pem(private=False).replace(b"-----", b""))
    token = jwt.encode({"alg": "HS256", "kid": "one"}, desk.claims(), secret, algorithms=["HS256"])
    with pytest.raises(BadTokenError):
        desk.tokens.shown(token)


@pytest.mark.parametrize("text", ["", ".", "a.b.c", "a" * 1000, "é.é.é", "e30.W10.x", "e30.e30"])
def test_nonsense_is_refused(desk: Desk, text: str) -> None:
    assert not desk.tokens.is_of_provider(text)
    with pytest.raises(BadTokenError):
        desk.tokens.shown(text)


class TestPeople:
    def test_name_and_groups_get_the_prefixes_of_the_api_server(self) -> None:
        oidc = Oidc(issuer="", client_id="", username_claim="name", username_prefix="o:", groups_prefix="g:")
        claims = {"name": "alice", "groups": ["a", "", 3], "email": "alice@example.org"}

        groups = frozenset({"g:a", "system:authenticated"})
        assert person_of(claims, oidc) == Person("alice", Subject("o:alice", groups), "alice@example.org")

    def test_a_single_group_may_be_a_string(self) -> None:
        assert "staff" in person_of({"sub": "alice", "groups": "staff"}, OIDC).subject.groups

    def test_nobody_gets_a_name_that_kubernetes_reserves(self) -> None:
        with pytest.raises(BadTokenError):
            person_of({"sub": "system:admin"}, OIDC)
        groups = person_of({"sub": "alice", "groups": ["system:masters"]}, OIDC).subject.groups
        assert groups == {"system:authenticated"}

    def test_an_unverified_address_is_not_taken(self) -> None:
        claims = {"sub": "alice", "email": "bob@example.org", "email_verified": False}
        assert person_of(claims, OIDC).email is None
        with pytest.raises(BadTokenError):
            person_of(claims, Oidc(issuer="", client_id="", username_claim="email"))

    @pytest.mark.parametrize("claims", [{}, {"sub": ""}, {"sub": 5}])
    def test_a_token_that_names_nobody_is_refused(self, claims: dict[str, Any]) -> None:
        with pytest.raises(BadTokenError, match="does not say who you are"):
            person_of(claims, OIDC)
