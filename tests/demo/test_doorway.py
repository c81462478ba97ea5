"""Who is let in, and what of a page the bar changes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from demo.web.doorway import ACT, ENTER, STATE, Doorway
from demo.web.visitors import Visitors

PORT = 8765
GUESSED = "guessed"
HOME = f"http://127.0.0.1:{PORT}"
PAGE = b"<!doctype html><html><head><title>t</title></head><body><p>page</p></body></html>"


class Lab:
    """A booking server that tells which cookies and tokens it is shown, behind a doorway."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str | None]] = []
        self.acts: list[tuple[str, str]] = []
        self.seen: list[Mapping[str, Any]] = []
        self.visitors = Visitors(PORT, self._opened)
        doorway = Doorway(
            self._app,
            self.visitors,
            hosts=frozenset({f"127.0.0.1:{PORT}"}),
            act=lambda _visitor, person, value: self.acts.append((person, value)),
            shown=lambda person: f"<i>{person}'s bar</i>",
            state=lambda person: {"person": person},
            person="alice",
        )
        self.browser = Client(doorway)

    def _opened(self, person: str, before: str | None) -> str:
        self.sessions.append((person, before))
        return f"session-{len(self.sessions)}"

    def _app(self, environ: Any, start_response: Any) -> list[bytes]:
        self.seen.append(dict(environ))
        content = b"<p>fragment</p>" if environ["PATH_INFO"] == "/inside" else PAGE
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", "1")])
        return [content]

    def get(self, address: str, **more: Any) -> TestResponse:
        return self.browser.get(address, base_url=HOME, **more)

    def enter(self) -> TestResponse:
        return self.get(f"{ENTER}?key={self.visitors.secret}")

    def act(self, value: str, token: str | None = None, **more: Any) -> TestResponse:
        form = {"do": value, "token": self.visitors.secret if token is None else token}
        return self.browser.post(ACT, base_url=HOME, data=form, **more)


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("address", ["/", "/now", STATE, f"{ENTER}?key=guessed", ENTER])
def test_who_has_not_come_by_the_printed_address_sees_nothing(lab: Lab, address: str) -> None:
    answer = lab.get(address)
    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert "has printed" in answer.text
    assert not lab.seen


def test_the_printed_address_lets_in_as_alice(lab: Lab) -> None:
    answer = lab.enter()
    assert (answer.status_code, answer.location) == (HTTPStatus.SEE_OTHER, "/now")
    page = lab.get("/now", headers={"Accept-Encoding": "gzip"})
    assert "HTTP_ACCEPT_ENCODING" not in lab.seen[-1], "the bar cannot be written into a compressed page"
    assert "<body><i>alice's bar</i><p>page" in page.text
    assert page.content_length == len(page.data)
    assert lab.seen[-1]["HTTP_COOKIE"] == "gpu-booking-session=session-1"


def test_a_fragment_has_no_bar(lab: Lab) -> None:
    lab.enter()
    assert lab.get("/inside").text == "<p>fragment</p>"


def test_another_person_has_another_session_and_the_one_before_ends(lab: Lab) -> None:
    lab.enter()
    lab.act("be bob")
    assert lab.sessions == [("alice", None), ("bob", "session-1")]
    assert lab.get(STATE).json == {"person": "bob"}


def test_nobody_becomes_a_person_whom_the_bar_does_not_offer(lab: Lab) -> None:
    lab.enter()
    lab.act("be student-1")
    assert lab.get(STATE).json == {"person": "alice"}
    assert lab.sessions == [("alice", None)]


def test_a_button_leads_back_to_the_page_that_it_was_on(lab: Lab) -> None:
    lab.enter()
    answer = lab.act("start 1", headers={"Referer": f"{HOME}/why/a/b?c=d"})
    assert answer.location == "/why/a/b?c=d"
    assert lab.acts == [("alice", "start 1")]


@pytest.mark.parametrize("referer", ["http://elsewhere.example/x", f"{HOME}//elsewhere.example/x", "", "::["])
def test_a_button_leads_nowhere_else(lab: Lab, referer: str) -> None:
    lab.enter()
    assert lab.act("gpu", headers={"Referer": referer}).location == "/now"


def test_a_form_of_another_site_changes_nothing(lab: Lab) -> None:
    lab.enter()
    assert lab.act("gpu", GUESSED).status_code == HTTPStatus.FORBIDDEN
    assert lab.act("gpu", "").status_code == HTTPStatus.FORBIDDEN
    assert lab.get(f"{ACT}?do=gpu&token={lab.visitors.secret}").status_code == HTTPStatus.FORBIDDEN
    assert not lab.acts


def test_a_stranger_may_not_act_even_with_the_token(lab: Lab) -> None:
    assert lab.act("gpu").status_code == HTTPStatus.FORBIDDEN
    assert not lab.acts


def test_no_name_of_another_site_leads_here(lab: Lab) -> None:
    answer = lab.browser.get(
        "/", base_url=f"http://rebound.example:{PORT}", headers={"Authorization": "Bearer x"}
    )
    assert answer.status_code == HTTPStatus.MISDIRECTED_REQUEST
    assert not lab.seen


def test_the_command_line_passes_with_its_token(lab: Lab) -> None:
    assert lab.get("/api/v1/bookings", headers={"Authorization": "Bearer x"}).status_code == HTTPStatus.OK
    assert "HTTP_COOKIE" not in lab.seen[-1]
