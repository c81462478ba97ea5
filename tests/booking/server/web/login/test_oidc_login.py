"""People sign in by an OIDC provider, which is a process of its own."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from cluster import names
from tests.booking.server.web.login.entrance import HTTP, Entrance, Idp, free_port, jwt_like, provider
from tests.fakes.apiserver import Answer, scripted_server

WELL_KNOWN = "/.well-known/openid-configuration"


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with provider() as (running, _):
        yield running


@pytest.fixture
def entrance(tmp_path: Path, idp: Idp) -> Iterator[Entrance]:
    made = Entrance(
        tmp_path, idp.issuer, username_prefix="oidc:", groups_prefix="oidc:", audiences=("kubectl",)
    )
    yield made
    made.close()


def id_token(entrance: Entrance, idp: Idp, *, client: str = "gpu-booking-page", sub: str = "alice") -> str:
    """One that the provider makes for a client."""
    assert entrance.provider is not None
    back = "http://localhost/back"
    query = f"response_type=code&client_id={client}&redirect_uri={back}&scope=openid"
    location = idp.sign_in(f"{idp.issuer}/oauth2/authorize?{query}", sub)
    code = dict(parse_qsl(urlsplit(location).query))["code"]
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": back,
        "client_id": client,
        "client_secret": "any",
    }
    answer = HTTP.request("POST", f"{idp.issuer}/oauth2/token", fields=fields, encode_multipart=False)
    return str(answer.json()["id_token"])


def test_people_come_back_to_where_they_wanted_to_go(entrance: Entrance, idp: Idp) -> None:
    away = entrance.browser.get("/mine")
    assert away.headers["Location"] == "/login?next=%2Fmine"

    answer = entrance.come_back(idp, then="/mine")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/mine"
    assert entrance.me().get_json()["user"] == "alice"
    assert entrance.browser.get_cookie(names.LOGIN_COOKIE) is None


def test_the_code_is_requested_for_this_browser_alone(entrance: Entrance, idp: Idp) -> None:
    away = entrance.browser.get("/login")
    query = dict(parse_qsl(urlsplit(away.headers["Location"]).query))

    assert away.headers["Location"].startswith(f"{idp.issuer}/oauth2/authorize?")
    assert query["redirect_uri"] == "http://localhost/login/callback"
    assert query["scope"] == "openid profile email"
    assert query["code_challenge_method"] == "S256"
    secret = entrance.browser.get_cookie(names.LOGIN_COOKIE)
    assert secret is not None
    assert len({query["state"], query["nonce"], query["code_challenge"], secret.value.split(".")[0]}) == 4


def test_the_code_is_exchanged_with_the_verifier_of_this_browsers_login(tmp_path: Path) -> None:
    """PKCE (RFC 7636): a provider compares them; the provider of the other tests does not."""
    with scripted_server() as server:
        ends = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks"}
        metadata = {"issuer": server.url, **{name: server.url + path for name, path in ends.items()}}
        token, keys = {"id_token": jwt_like(iss=server.url)}, {"keys": []}
        server.answers(*(Answer(body=json.dumps(each).encode()) for each in (metadata, token, keys)))
        entrance = Entrance(tmp_path, server.url, secret_file=None)
        query = dict(parse_qsl(urlsplit(entrance.browser.get("/login").headers["Location"]).query))
        back = {"state": query["state"], "code": "the-code"}
        # A provider without keys cannot have made a token.
        assert entrance.browser.get("/login/callback", query_string=back).status_code == 503
        entrance.close()

    assert [each.target for each in server.received] == [WELL_KNOWN, "/token", "/jwks"]
    shown = dict(parse_qsl(server.received[1].body.decode()))
    digest = hashlib.sha256(shown["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == query["code_challenge"]
    assert len(shown["code_verifier"]) >= 43
    assert shown | {"code_verifier": ""} == {
        "grant_type": "authorization_code",
        "code": "the-code",
        "redirect_uri": query["redirect_uri"],
        "client_id": "gpu-booking-page",
        "code_verifier": "",
    }


def test_roles_and_groups_have_the_names_that_the_api_server_knows(entrance: Entrance, idp: Idp) -> None:
    idp.put("bob", groups=["gpu-staff", "system:masters"])
    entrance.access.administrators = {"oidc:gpu-staff"}
    entrance.come_back(idp, "bob")

    me = entrance.me().get_json()
    assert (me["user"], me["is_administrator"]) == ("bob", True)
    assert me["groups"] == ["oidc:gpu-staff", "oidc:system:masters", "system:authenticated"]


def test_an_address_is_kept_and_shown_to_its_owner_alone(entrance: Entrance, idp: Idp) -> None:
    idp.put("alice", email="alice@example.org", email_verified=True)
    entrance.come_back(idp)

    with entrance.store.reading() as reading:
        assert reading.users_with_email("alice@example.org") == ["alice"]
    known = {each["source"]: each["names"] for each in entrance.me().get_json()["known_as"]}
    assert known["maia"] == ["alice@example.org"]
    assert entrance.me().text.count("example.org") == 1


def test_a_wrong_state_signs_nobody_in(entrance: Entrance, idp: Idp) -> None:
    answer = entrance.come_back(idp, state="another")

    assert answer.status_code == 400
    assert entrance.me().status_code == 401


def test_an_answer_in_another_providers_name_signs_nobody_in(entrance: Entrance, idp: Idp) -> None:
    back = idp.sign_in(entrance.browser.get("/login").headers["Location"], "alice")
    answer = entrance.browser.get(f"{back}&iss=https://evil.example.org")

    assert answer.status_code == 400
    assert entrance.me().status_code == 401


def test_a_login_that_another_browser_began_cannot_be_finished(entrance: Entrance, idp: Idp) -> None:
    away = entrance.browser.get("/login")
    other = entrance.app.test_client()
    answer = other.get(idp.sign_in(away.headers["Location"], "bob"))

    assert answer.status_code == 400
    assert entrance.me(other).status_code == 401


def test_a_wrong_nonce_signs_nobody_in(entrance: Entrance, idp: Idp) -> None:
    answer = entrance.come_back(idp, nonce="another")

    assert answer.status_code == 400
    assert "another login" in answer.text
    assert entrance.me().status_code == 401


def test_a_code_can_be_used_once(entrance: Entrance, idp: Idp) -> None:
    away = entrance.browser.get("/login")
    attempt = entrance.browser.get_cookie(names.LOGIN_COOKIE)
    assert attempt is not None
    back = idp.sign_in(away.headers["Location"], "alice")
    assert entrance.browser.get(back).status_code == 303
    assert entrance.browser.get(back).status_code == 400

    other = entrance.app.test_client()
    other.set_cookie(names.LOGIN_COOKIE, attempt.value)
    answer = other.get(back)
    assert answer.status_code == 400
    assert "its own code" in answer.text
    assert entrance.me(other).status_code == 401


def test_a_refusal_of_the_provider_is_shown_as_plain_text(entrance: Entrance) -> None:
    away = entrance.browser.get("/login")
    state = dict(parse_qsl(urlsplit(away.headers["Location"]).query))["state"]
    query = {"state": state, "error": "access_denied", "error_description": "<script>alert(1)</script>"}
    answer = entrance.browser.get("/login/callback", query_string=query)

    assert answer.status_code == 400
    assert "&lt;script&gt;" in answer.text


def test_signing_out_does_not_sign_in_again_at_once(entrance: Entrance) -> None:
    answer = entrance.browser.get("/login?out=1")

    assert answer.status_code == 200
    assert "signed out" in answer.text


class TestBearers:
    @pytest.mark.parametrize("client", ["gpu-booking-page", "kubectl"])
    def test_an_id_token_for_us_or_a_trusted_client_is_accepted(
        self, entrance: Entrance, idp: Idp, client: str
    ) -> None:
        token = id_token(entrance, idp, client=client)
        answer = entrance.me(headers={"Authorization": f"Bearer {token}"})

        assert answer.get_json()["user"] == "alice"
        assert entrance.tokens.calls.total() == 0

    def test_an_id_token_for_another_client_is_refused(self, entrance: Entrance, idp: Idp) -> None:
        token = id_token(entrance, idp, client="another")

        assert entrance.me(headers={"Authorization": f"Bearer {token}"}).status_code == 401

    def test_an_expired_id_token_is_refused(self, entrance: Entrance, idp: Idp) -> None:
        token = id_token(entrance, idp)
        entrance.wall.advance(3600 + 31)
        answer = entrance.me(headers={"Authorization": f"Bearer {token}"})

        assert answer.status_code == 401
        assert "expired" in answer.get_json()["detail"]

    def test_tokens_of_the_cluster_are_still_accepted(self, entrance: Entrance) -> None:
        assert entrance.me(headers={"Authorization": "Bearer alice-token"}).get_json()["user"] == "alice"


class TestProvider:
    def test_login_is_answered_with_503_if_the_provider_does_not_respond(self, tmp_path: Path) -> None:
        entrance = Entrance(tmp_path, f"http://127.0.0.1:{free_port()}")
        answer = entrance.browser.get("/login")

        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        entrance.close()

    def test_new_keys_are_fetched_and_old_ones_forgotten(self, tmp_path: Path) -> None:
        with provider() as (first, port):
            entrance = Entrance(tmp_path, first.issuer)
            old = {"Authorization": f"Bearer {id_token(entrance, first)}"}
            assert entrance.me(headers=old).status_code == 200
        with provider(port) as (second, _):
            new = {"Authorization": f"Bearer {id_token(entrance, second)}"}
            entrance.wall.advance(10)
            assert entrance.me(headers=new).status_code == 200
            assert entrance.me(headers=old).status_code == 401
        entrance.close()
