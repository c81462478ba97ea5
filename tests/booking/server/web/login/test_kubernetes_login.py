"""People sign in with a Kubernetes token, where there is no OIDC provider."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from booking.server.store import Store, Writing
from booking.server.web.login.sessions import Sessions
from cluster import names
from cluster.kube.errors import Request, Unreachable
from tests.booking.server.web.login.entrance import Entrance, jwt_like


@pytest.fixture
def entrance(tmp_path: Path) -> Iterator[Entrance]:
    made = Entrance(tmp_path)
    yield made
    made.close()


def cookie(entrance: Entrance) -> str:
    found = entrance.browser.get_cookie(names.SESSION_COOKIE)
    assert found is not None
    return found.value


class SignedOutMeanwhile:
    """A store to which the end of a session is written before anything else."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance, self.read = entrance, entrance.store.read

    def write(self, decide: Callable[[Writing], None]) -> None:
        self._entrance.context.sessions.close(cookie(self._entrance))
        self._entrance.store.write(decide)


def test_the_form_explains_how_to_get_a_token_and_keeps_the_page_to_return_to(entrance: Entrance) -> None:
    answer = entrance.browser.get("/login?next=/mine")

    assert answer.status_code == 200
    assert "kubectl create token NAME -n NAMESPACE --audience gpu-booking" in answer.text
    assert 'name="next" value="/mine"' in answer.text


def test_a_user_with_a_token_is_signed_in_and_redirected(entrance: Entrance) -> None:
    answer = entrance.paste("alice-token")

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/mine"
    assert entrance.me().get_json()["user"] == "alice"
    assert "Signed in as" in entrance.browser.get("/mine").text


def test_neither_token_nor_cookie_is_stored(entrance: Entrance) -> None:
    entrance.paste("alice-token")

    files = [path.read_bytes() for path in entrance.file.parent.iterdir() if path.is_file()]
    for secret in ("alice-token", cookie(entrance)):
        assert not any(secret.encode() in each for each in files)
    assert any(b"alice" in each for each in files)


def test_the_cookie_is_bound_to_the_host_and_hidden_from_scripts(entrance: Entrance) -> None:
    [plain] = entrance.paste("alice-token").headers.getlist("Set-Cookie")
    assert "HttpOnly" in plain
    assert "SameSite=Lax" in plain
    assert "Path=/" in plain
    assert "Secure" not in plain
    assert "Domain" not in plain

    away = {"base_url": "http://gpus.example.org", "headers": {"Origin": "https://gpus.example.org"}}
    [kept] = entrance.paste("alice-token", **away).headers.getlist("Set-Cookie")
    assert kept.startswith(f"__Host-{names.SESSION_COOKIE}=")
    assert "Secure" in kept


def test_an_invalid_token_is_refused_and_not_shown(entrance: Entrance) -> None:
    answer = entrance.paste("carol-token")

    assert answer.status_code == 401
    assert "unknown, has expired or is meant for somebody else" in answer.text
    assert "carol-token" not in answer.text
    assert not answer.headers.getlist("Set-Cookie")


def test_an_outage_of_the_api_server_is_answered_with_503(entrance: Entrance) -> None:
    entrance.tokens.problem = Unreachable(Request("POST", "/apis"), "refused")

    assert entrance.paste("alice-token").status_code == 503


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example.org"}, {"Origin": "null"}, {"Origin": ""}],
    ids=["another site", "hidden", "empty"],
)
def test_another_sites_page_signs_nobody_in(entrance: Entrance, headers: dict[str, str]) -> None:
    answer = entrance.paste("bob-token", headers=headers)

    assert answer.status_code == 403
    assert not answer.headers.getlist("Set-Cookie")


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example.org/",
        "//evil.example.org",
        "/\\evil.example.org",
        "/\t/evil.example.org",
        "mine",
        "",
    ],
)
def test_login_never_redirects_to_another_site(entrance: Entrance, then: str) -> None:
    assert entrance.paste("alice-token", then=then).headers["Location"] == "/"


def test_each_login_is_a_new_session_and_ends_the_one_before(entrance: Entrance) -> None:
    entrance.browser.set_cookie(names.SESSION_COOKIE, "a" * 43)
    entrance.paste("alice-token")
    first = cookie(entrance)
    assert first != "a" * 43

    entrance.paste("bob-token")
    assert entrance.me().get_json()["user"] == "bob"
    entrance.browser.set_cookie(names.SESSION_COOKIE, first)
    assert entrance.me().status_code == 401


class TestForgery:
    def token(self, entrance: Entrance) -> str:
        return entrance.browser.get("/mine").text.split('name="csrf" value="')[1].split('"')[0]

    def test_forms_carry_a_token_of_the_session(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        first = self.token(entrance)
        entrance.paste("alice-token")

        assert first != self.token(entrance)

    @pytest.mark.parametrize("csrf", ["", "another"])
    def test_a_form_without_the_sessions_token_changes_nothing(self, entrance: Entrance, csrf: str) -> None:
        entrance.paste("alice-token")
        origin = {"Origin": "http://localhost"}

        assert entrance.browser.post("/logout", data={"csrf": csrf}, headers=origin).status_code == 403
        assert entrance.me().status_code == 200

    @pytest.mark.parametrize("headers", [{}, {"Origin": "https://evil.example.org"}])
    def test_a_request_of_another_sites_page_changes_nothing_by_rest_either(
        self, entrance: Entrance, headers: dict[str, str]
    ) -> None:
        entrance.paste("alice-token")
        before = entrance.stored
        body = {"model": "NVIDIA-A100-SXM4-80GB", "duration": "P2D"}

        assert entrance.browser.post("/api/v1/bookings", json=body, headers=headers).status_code == 403
        assert entrance.stored == before
        ours = {"Origin": "http://localhost"}
        assert entrance.browser.post("/api/v1/bookings", json=body, headers=ours).status_code == 201

    def test_signing_out_ends_the_session_for_every_holder_of_the_cookie(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        kept, csrf = cookie(entrance), self.token(entrance)
        answer = entrance.browser.post("/logout", data={"csrf": csrf}, headers={"Origin": "http://localhost"})

        assert answer.status_code == 303
        assert answer.headers["Location"] == "/login?out=1"
        assert entrance.browser.get_cookie(names.SESSION_COOKIE) is None
        entrance.browser.set_cookie(names.SESSION_COOKIE, kept)
        assert entrance.me().status_code == 401
        assert "signed out" in entrance.browser.get("/login?out=1").text


class TestTime:
    def test_a_form_sent_too_late_changes_nothing_and_leads_to_the_login(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        entrance.clock.advance(2 * 3600)
        before = entrance.stored
        form, origin = {"csrf": "x"}, {"Origin": "http://localhost"}
        answer = entrance.browser.post("/mine/b-1/release", data=form, headers=origin)

        assert answer.status_code == 401
        assert "Your session has ended, and nothing was changed." in answer.text
        assert 'href="/login?next=%2Fmine"' in answer.text
        assert "kubectl" not in answer.text
        assert entrance.stored == before
        home = entrance.browser.post("/", data=form, headers=origin)
        assert 'href="/login"' in home.text

    def test_an_idle_session_ends(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        entrance.clock.advance(2 * 3600 - 1)
        assert entrance.me().status_code == 200
        entrance.clock.advance(2 * 3600 - 1)
        assert entrance.me().status_code == 200
        entrance.clock.advance(2 * 3600)
        assert entrance.me().status_code == 401

    def test_every_session_ends_after_twelve_hours(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        for _ in range(11):
            entrance.clock.advance(3600)
            assert entrance.me().status_code == 200
        entrance.clock.advance(3600)
        assert entrance.me().status_code == 401

    def test_a_request_under_way_brings_no_session_back_whose_user_signs_out(
        self, entrance: Entrance
    ) -> None:
        entrance.paste("alice-token")
        entrance.clock.advance(3600)
        store = cast("Store", SignedOutMeanwhile(entrance))
        sessions = Sessions(store, entrance.clock, idle=timedelta(hours=2), longest=timedelta(hours=12))
        assert sessions.find(cookie(entrance))
        assert entrance.me().status_code == 401

    def test_no_session_outlives_the_token_that_began_it(self, entrance: Entrance) -> None:
        token = jwt_like(exp=int(entrance.clock.now().timestamp()) + 600)
        entrance.tokens.names[token] = "alice"
        entrance.paste(token)
        entrance.clock.advance(599)
        assert entrance.me().status_code == 200
        entrance.clock.advance(1)
        assert entrance.me().status_code == 401


def test_a_session_has_the_role_that_the_api_server_reports_now(entrance: Entrance) -> None:
    entrance.tokens.groups = frozenset({"gpu-staff"})
    entrance.paste("alice-token")
    assert not entrance.me().get_json()["is_administrator"]

    entrance.access.administrators = {"gpu-staff"}
    entrance.clock.advance(10)
    assert entrance.me().get_json()["is_administrator"]

    entrance.access.problem = Unreachable(Request("POST", "/apis"), "refused")
    entrance.clock.advance(10)
    assert entrance.me().status_code == 503
