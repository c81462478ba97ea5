"""Booking by mouse, by keyboard alone and without JavaScript; the answer while the user types."""

import re
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.booking.server.web.pages.site import Site
from tests.browser.sample_data import H100, add_bookings
from tests.browser.visitor import DESK, PATIENCE, PHONE, Screen, Visitors
from tests.fakes.objects import A100

pytestmark = pytest.mark.component

expect.set_options(timeout=PATIENCE)
TUESDAY: Final = "2026-03-03T00:00"


def press(page: Page, *keys: str) -> None:
    """One key after the other, as somebody without a mouse does."""
    for key in keys:
        page.keyboard.press(key)


def test_a_booking_is_made_by_keyboard_alone(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page("bob")
    page.goto("/")
    press(page, "Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    press(page, "Enter")
    while page.evaluate("document.activeElement.closest('.days') === null"):
        press(page, "Tab")
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("Tue 3 Mar"))
    press(page, "Enter")
    expect(page.locator("#start")).to_be_focused()
    expect(page.locator("#start")).to_have_value(TUESDAY)
    while page.evaluate("document.activeElement.id !== 'amount'"):
        press(page, "Tab")
    page.keyboard.type("3")
    expect(page.locator("#answer")).to_contain_text("(3 days)")
    press(page, "Enter")
    expect(page.locator("h1")).to_have_text("My bookings")
    expect(page.locator(".note")).to_contain_text("It is guaranteed from now on")
    expect(page.locator("article .span")).to_contain_text("Tue 3 Mar 00:00")
    assert visitors.errors() == []


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=lambda screen: screen.name)
def test_the_button_stays_in_view_while_a_refusal_is_read(
    site: Site, visitors: Visitors, screen: Screen
) -> None:
    add_bookings(site)
    page = visitors.page("alice", screen=screen)
    page.goto(f"/?model={A100}&count=8&topology=any&check=1#book")
    expect(page.locator("#answer .verdict.bad")).to_be_visible()
    page.locator("#answer").scroll_into_view_if_needed()
    expect(page.get_by_role("button", name="Book", exact=True)).to_be_in_viewport(ratio=1)
    page.locator("#count").scroll_into_view_if_needed()
    expect(page.get_by_role("button", name="Book", exact=True)).to_be_in_viewport(ratio=1)


def test_the_answer_is_updated_while_the_user_types(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page("bob")
    page.goto(f"/?model={H100}")
    page.locator("#count").fill("9")
    expect(page.locator("#error-count")).to_contain_text("8")
    expect(page.locator("#count")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#answer")).to_contain_text("cannot be booked")
    page.locator("#count").fill("8")
    expect(page.locator("#error-count")).to_be_empty()
    expect(page.locator("#count")).not_to_have_attribute("aria-invalid", "true")
    slots = page.locator("#answer .slot")
    expect(slots).not_to_have_count(0)
    expect(page.locator("#count")).to_be_focused()
    slots.first.click()
    expect(page.locator("#answer")).to_contain_text("Can be booked")
    expect(page.locator("#start")).not_to_have_value("")
    assert visitors.errors() == []


def test_the_nodes_of_a_model_are_shown_when_its_row_is_opened(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page()
    page.goto("/")
    page.locator("summary", has_text="Nodes and table of A100").click()
    expect(page.get_by_role("heading", name="gpu-a1")).to_be_visible()
    expect(page.get_by_text("driver update")).to_be_visible()
    expect(page.get_by_role("table", name="day by day")).to_be_visible()
    assert visitors.errors() == []


def test_nodes_are_opened_by_keyboard_and_described_in_words(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page()
    page.goto("/")
    summary = page.locator("summary", has_text="Nodes and table of A100")
    expect(page.get_by_role("link", name="Nodes and table of A100")).to_be_hidden()
    summary.focus()
    press(page, "Enter")
    nodes = page.get_by_role("table", name="node by node")
    expect(nodes.get_by_role("row", name="gpu-a1")).to_contain_text("2 yours")
    expect(nodes.get_by_role("columnheader", name="Tue 17 Mar")).to_be_visible()
    expect(summary).to_be_focused()
    assert visitors.errors() == []


def test_a_form_is_sent_once_however_often_it_is_clicked(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page("bob")
    page.goto("/")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.get_by_role("button", name="Book", exact=True).dblclick()
    expect(page.locator("h1")).to_have_text("My bookings")
    assert len([url for url in sent if not url.endswith("/check")]) == 1


def test_a_server_that_does_not_answer_is_reported_where_the_answer_would_be(
    site: Site, visitors: Visitors
) -> None:
    add_bookings(site)
    page = visitors.page("bob")
    page.goto("/")
    page.route("**/check", lambda route: route.abort())
    page.locator("#count").fill("2")
    expect(page.locator("#answer")).to_contain_text("The booking server does not answer")
    page.unroute("**/check")
    page.locator("#count").fill("3")
    expect(page.locator("#answer")).to_contain_text("Can be booked")


def test_everything_works_on_a_phone_without_javascript(site: Site, visitors: Visitors) -> None:
    add_bookings(site)
    page = visitors.page("bob", screen=PHONE, scripts=False)
    page.goto(f"/?model={H100}")
    page.get_by_role("link", name="Nodes and table of H100").click()
    page.get_by_role("link", name="Book from Tue 3 Mar").click()
    expect(page.locator("#start")).to_have_value(TUESDAY)
    page.locator("#count").fill("8")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#answer")).to_contain_text("can be had all the time")
    page.locator("#answer .slot").first.click()
    expect(page.locator("#answer")).to_contain_text("Can be booked")
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.locator("h1")).to_have_text("My bookings")
    expect(page.locator("article")).to_have_count(1)
    assert visitors.errors() == []
