"""Signing in with a Kubernetes token, where there is no identity provider: an accessible page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.booking.server.web.login.entrance import Entrance
from tests.browser.visitor import DESK, PATIENCE, PHONE, Visitors, address_of, findings, width_of

pytestmark = pytest.mark.component

expect.set_options(timeout=PATIENCE)
REFUSED = "error: Failed to load resource: the server responded with a status of 401 (UNAUTHORIZED)"


@pytest.fixture
def strangers(browser: Browser, tmp_path: Path) -> Iterator[Visitors]:
    """Visitors who have not signed in yet."""
    entrance = Entrance(tmp_path)
    with address_of(entrance) as address:
        made = Visitors(browser, address)
        yield made
        made.close()
    entrance.close()


@pytest.mark.parametrize("path", ["/login", "/login?out=1"], ids=["the form", "after signing out"])
def test_the_login_page_is_accessible(strangers: Visitors, path: str) -> None:
    page = strangers.page(None, screen=DESK, scheme="light")
    page.goto(path)
    assert findings(page) == []
    assert width_of(page) <= DESK.width
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": PHONE.width, "height": PHONE.height})
    assert findings(page) == []
    assert width_of(page) <= PHONE.width
    assert strangers.errors() == []


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_form_whose_session_has_ended_is_sent_after_signing_in(
    tmp_path: Path, browser: Browser, *, scripts: bool
) -> None:
    entrance = Entrance(tmp_path)
    with address_of(entrance) as address:
        visitors = Visitors(browser, address)
        page = visitors.page(None, scripts=scripts)
        page.goto("/login?next=/")
        page.get_by_label("Token").fill("alice-token")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Availability")
        entrance.clock.advance(3 * 3600)
        page.get_by_role("button", name="Book", exact=True).click()
        expect(page.locator("h1")).to_have_text("You are not signed in any more")
        page.get_by_role("link", name="Sign in").click()
        page.get_by_label("Token").fill("alice-token")
        page.keyboard.press("Enter")
        if not scripts:
            expect(page.locator("h1")).to_have_text("You are signed in again")
            page.get_by_role("button", name="Send it").click()
        expect(page.locator("h1")).to_have_text("My bookings")
        expect(page.locator("article")).to_have_count(1)
        visitors.close()
    entrance.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_user_signs_in_by_keyboard_continues_and_signs_out(strangers: Visitors, *, scripts: bool) -> None:
    page = strangers.page(None, scripts=scripts)
    page.goto("/mine")
    page.get_by_label("Token").fill("a-guess")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("unknown, has expired or is meant for somebody else")
    assert strangers.errors() == [REFUSED]
    page.get_by_label("Token").fill("alice-token")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("My bookings")
    expect(page.locator(".who")).to_contain_text("alice")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("You are signed out.")
    page.goto("/mine")
    expect(page.get_by_label("Token")).to_be_visible()
    assert strangers.errors() == []
