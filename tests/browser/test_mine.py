"""What users do with their own bookings, with and without JavaScript."""

from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.booking.server.web.pages.site import DAY, Site
from tests.browser.sample_data import add_bookings
from tests.browser.visitor import PATIENCE, Visitors

pytestmark = pytest.mark.component

expect.set_options(timeout=PATIENCE)
IN_MARCH: Final = "2026-03-{:02}T10:00"


def opened(page: Page, act: str) -> Any:
    """A form of the one card, shown."""
    page.locator("summary", has_text=act).click()
    return page.locator("details", has=page.locator("summary", has_text=act)).locator("form")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_running_booking_is_extended_and_released(site: Site, visitors: Visitors, *, scripts: bool) -> None:
    now = site.clock.now()
    site.add(now - DAY, now + 2 * DAY, user="alice", count=2, node="node-a")
    page = visitors.page(scripts=scripts)
    page.goto("/mine")
    form = opened(page, "Extend or shorten")
    form.locator("input[name=end]").fill(IN_MARCH.format(30))
    if not scripts:
        form.get_by_role("button", name="Check").click()
    expect(page.locator(".verdict")).to_contain_text("14 days")
    page.locator("input[name=end]").fill(IN_MARCH.format(6))
    if scripts:
        expect(page.locator(".verdict")).to_contain_text("Possible")
    page.get_by_role("button", name="Change the end").click()
    expect(page.locator(".note")).to_contain_text("Changed")
    expect(page.locator(".span")).to_contain_text("Fri 6 Mar 10:00")
    opened(page, "Release").get_by_role("button", name="Release now").click()
    expect(page.locator(".note")).to_contain_text("Given back")
    page.get_by_role("link", name="Past").click()
    expect(page.locator("tbody tr")).to_contain_text("given back early")
    assert visitors.errors() == []


def test_a_running_booking_gets_more_gpus(site: Site, visitors: Visitors) -> None:
    now = site.clock.now()
    site.add(now - DAY, now + 2 * DAY, user="alice", count=2, node="node-a")
    page = visitors.page()
    page.goto("/mine")
    form = opened(page, "More or fewer GPUs")
    form.locator("input[name=count]").fill("99")
    expect(form.locator(".verdict")).to_contain_text("99")
    form.locator("input[name=count]").fill("3")
    expect(form.locator(".verdict")).to_contain_text("Possible")
    form.get_by_role("button", name="Change the number").click()
    expect(page.locator(".booking h2")).to_contain_text("3 \N{MULTIPLICATION SIGN}")
    assert visitors.errors() == []


def test_a_planned_booking_is_moved_and_cancelled(site: Site, visitors: Visitors) -> None:
    now = site.clock.now()
    site.add(now + 3 * DAY, now + 5 * DAY, user="alice", node="node-a")
    page = visitors.page()
    page.goto("/mine")
    form = opened(page, "Move")
    form.locator("input[name=start]").fill(IN_MARCH.format(9))
    expect(form.locator(".verdict")).to_contain_text("Possible")
    form.get_by_role("button", name="Move").click()
    expect(page.locator(".span")).to_contain_text("Wed 11 Mar 10:00")
    opened(page, "Cancel").get_by_role("button", name="Cancel this booking").click()
    expect(page.locator(".note")).to_contain_text("Cancelled")
    assert visitors.errors() == []


def test_a_change_made_elsewhere_is_not_overwritten(site: Site, visitors: Visitors) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + 2 * DAY, user="alice", node="node-a")
    page = visitors.page()
    page.goto("/mine")
    longer = msgspec.structs.replace(record, end=now + 3 * DAY)
    site.store.write(lambda writing: writing.replace(longer))
    opened(page, "Release").get_by_role("button", name="Release now").click()
    expect(page.locator(".verdict")).to_contain_text("has changed since you saw it")
    expect(page.locator(".state.active")).to_be_visible()


def test_a_countdown_counts_in_the_words_that_the_server_chose(site: Site, visitors: Visitors) -> None:
    now = site.clock.now()
    site.add(now - DAY, now + timedelta(hours=26, seconds=30), user="alice", node="node-a")
    page = visitors.page()
    page.clock.install()
    page.goto("/mine")
    countdown = page.locator("time[data-countdown]")
    for passed, words in (
        ("00:00", "1 day 2 h"),
        ("03:00:00", "23 h"),
        ("22:30:00", "30 min"),
    ):
        page.clock.fast_forward(passed)
        expect(countdown).to_contain_text(words)
    page.clock.fast_forward("00:40:00")
    expect(page.locator(".progress")).to_have_text("It is over: load the page again.")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_one_click_changes_a_booking_at_risk_to_what_is_available(
    site: Site, visitors: Visitors, *, scripts: bool
) -> None:
    add_bookings(site)
    page = visitors.page(scripts=scripts)
    page.goto("/mine")
    risk = page.locator(".risk")
    expect(risk).to_contain_text("driver update")
    if not scripts:
        risk.get_by_role("link", name="See what you could have instead").click()
    risk.get_by_role("button").first.click()
    expect(page.locator(".note.good")).to_contain_text("Changed")
    expect(page.locator(".risk")).to_have_count(0)
    page.get_by_role("link", name="vision/notebook").click()
    expect(page.locator("h1")).to_have_text("Why?")
