"""A form whose session has ended is kept while its user signs in again, and then sent."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from booking.server.web.pages.kept_form import KeptForm, decoded, encoded
from cluster import names
from tests.booking.server.web.login.entrance import Entrance
from tests.fakes.objects import A100

ORIGIN = {"Origin": "http://localhost"}
HTMX = {**ORIGIN, "HX-Request": "true"}
BOOKING = {"model": A100, "count": "2", "amount": "3", "unit": "days"}


@pytest.fixture
def entrance(tmp_path: Path) -> Iterator[Entrance]:
    made = Entrance(tmp_path)
    yield made
    made.close()


def hidden(page: TestResponse) -> dict[str, str]:
    """The hidden fields of a page's form in its content."""
    content = page.text.partition("<main")[2]
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', content)
    return {name: unescape(text) for name, text in found}


def filled(entrance: Entrance) -> dict[str, str]:
    """Alice's form, whose session then ends."""
    entrance.paste("alice-token")
    form = {**BOOKING, **hidden(entrance.browser.get("/"))}
    entrance.clock.advance(2 * 3600)
    return form


def test_a_booking_is_made_that_was_sent_after_its_session_had_ended(entrance: Entrance) -> None:
    answer = entrance.browser.post("/", data=filled(entrance), headers=ORIGIN)
    assert answer.status_code == 401
    assert entrance.stored == 0
    assert 'href="/login?next=%2Fkept"' in answer.text

    # Others may sign in meanwhile: that cleans up the sessions that have ended.
    entrance.app.test_client().post("/login", data={"token": "bob-token"}, headers=ORIGIN)
    back = entrance.paste("alice-token", then="/kept")
    page = entrance.browser.get(back.headers["Location"])
    assert 'action="/" data-send' in page.text
    sent = entrance.browser.post("/", data=hidden(page), headers=ORIGIN)
    assert sent.status_code == 303
    assert entrance.stored == 1
    assert entrance.browser.get_cookie(names.FORM_COOKIE) is None
    assert entrance.browser.get("/kept").headers["Location"] == "/"


def test_a_form_that_is_checked_while_it_is_filled_in_is_kept_too(entrance: Entrance) -> None:
    answer = entrance.browser.post("/check", data=filled(entrance), headers=HTMX)
    assert answer.headers["HX-Redirect"] == "/login?next=%2Fkept"
    entrance.paste("alice-token")
    page = entrance.browser.get("/kept")
    again = entrance.browser.post("/check", data=hidden(page), headers=ORIGIN)
    assert "Can be booked: 2" in again.text


def test_a_reading_fragment_leads_back_to_what_was_read(entrance: Entrance) -> None:
    answer = entrance.browser.get("/book?model=x&count=2", headers=HTMX)
    assert answer.headers["HX-Redirect"] == "/login?next=%2Fbook%3Fmodel%3Dx%26count%3D2"


def test_nobody_else_sees_or_sends_the_form(entrance: Entrance) -> None:
    entrance.browser.post("/", data=filled(entrance), headers=ORIGIN)
    entrance.paste("bob-token")
    page = entrance.browser.get("/kept")
    assert page.headers["Location"] == "/"
    assert A100 not in page.text
    assert entrance.browser.get_cookie(names.FORM_COOKIE) is None


@pytest.mark.parametrize("csrf", ["", "forged"])
def test_a_form_that_is_not_the_users_own_is_not_kept(entrance: Entrance, csrf: str) -> None:
    answer = entrance.browser.post("/", data={**filled(entrance), "csrf": csrf}, headers=ORIGIN)
    assert answer.status_code == 401
    assert entrance.browser.get_cookie(names.FORM_COOKIE) is None


def test_a_form_too_long_for_a_cookie_is_not_kept_and_that_is_said(entrance: Entrance) -> None:
    answer = entrance.browser.post("/", data={**filled(entrance), "namespace": "x" * 4000}, headers=ORIGIN)
    assert "send the form again" in answer.text
    assert entrance.browser.get_cookie(names.FORM_COOKIE) is None


def test_a_form_is_not_kept_a_day_after_its_session_has_ended(entrance: Entrance) -> None:
    form = filled(entrance)
    entrance.clock.advance(24 * 3600)
    entrance.browser.post("/", data=form, headers=ORIGIN)
    assert entrance.browser.get_cookie(names.FORM_COOKIE) is None


def test_a_form_from_before_its_user_signed_in_elsewhere_is_sent_by_one_press(entrance: Entrance) -> None:
    form = filled(entrance)
    entrance.paste("alice-token")
    answer = entrance.browser.post("/", data=form, headers=ORIGIN)
    assert (answer.status_code, entrance.stored) == (403, 0)
    assert "data-send" not in answer.text
    assert entrance.browser.post("/", data=hidden(answer), headers=ORIGIN).status_code == 303
    assert entrance.stored == 1


def test_a_form_from_another_site_gets_no_button_that_sends_it(entrance: Entrance) -> None:
    form = filled(entrance)
    entrance.paste("alice-token")
    answer = entrance.browser.post("/", data=form, headers={"Origin": "https://elsewhere.example.org"})
    assert answer.status_code == 403
    assert "<form" not in answer.text.partition("<main")[2]


@pytest.mark.parametrize("address", ["//elsewhere.example.org", "https://elsewhere.example.org", "/login"])
def test_a_form_is_sent_to_an_address_of_ours_alone(address: str) -> None:
    form = KeptForm(address, (), "alice")
    assert encoded(form) is None
    good = encoded(KeptForm("/mine", (), "alice"))
    assert good is not None
    assert decoded(good) == KeptForm("/mine", (), "alice")


@pytest.mark.parametrize("cookie", [None, "", "x", "e30=", "bnVsbA==", "\N{BULLET}"])
def test_an_unreadable_cookie_is_no_form(cookie: str | None) -> None:
    assert decoded(cookie) is None
