"""The demo as a visitor sees it: one address, and the story of a booked GPU by clicks alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.demo_visit import press
from tests.browser.visitor import DESK, PATIENCE, PHONE, SCHEMES, Scheme, Screen, findings, width_of
from tests.demo.demo_process import started

pytestmark = pytest.mark.component

expect.set_options(timeout=PATIENCE)
PAGES = ("/", "/now")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with started(tmp_path, "--no-browser") as (_, printed):
        found = re.search(r"http://\S+/demo/enter\S+", printed)
        assert found, printed
        yield found[0]


def entered(
    browser: Browser, address: str, *, screen: Screen = DESK, scheme: Scheme = "light", scripts: bool = True
) -> tuple[Page, list[str]]:
    """A visitor who has opened the address, and everything that goes wrong before them."""
    context = browser.new_context(
        base_url=address.split("/demo/", maxsplit=1)[0],
        viewport={"width": screen.width, "height": screen.height},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        java_script_enabled=scripts,
    )
    context.set_default_timeout(PATIENCE)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    return page, wrong


def test_alices_job_takes_a_gpu_of_bobs_who_is_warned_and_sees_why(browser: Browser, address: str) -> None:
    page, wrong = entered(browser, address)
    expect(page).to_have_url(re.compile("/now$"))
    expect(page.locator(".who")).to_contain_text("alice")
    press(page, "1 GPU")
    press(page, "x60")
    everything = page.locator("#demo-all")
    page.locator(".demo-feed summary").click()
    expect(everything).to_contain_text("needed by the booked pod vision/alice-job")
    expect(everything).to_contain_text("came back without a GPU")
    expect(everything).to_contain_text(re.compile(r"alice-job-\d+ runs on h100-01, with 1 GPU"))
    press(page, "bob")
    expect(page.locator(".who")).to_contain_text("bob")
    page.locator(".demo-feed summary").click()
    everything.locator("li", has_text="came back without a GPU").get_by_role("link").last.click()
    expect(page.locator(".explanation")).to_contain_text("vision/alice-job")
    press(page, "x1")
    assert wrong == []


def test_an_administrator_breaks_a_gpu_drains_a_node_and_goes_a_day_ahead(
    browser: Browser, address: str
) -> None:
    page, wrong = entered(browser, address)
    press(page, "administrator")
    expect(page.get_by_role("link", name="Admin")).to_be_visible()
    press(page, "Break a GPU")
    expect(page.locator(".counts")).to_contain_text("1 unhealthy")
    press(page, "Drain a node")
    expect(page.get_by_text("The node is cordoned.")).to_be_visible()
    press(page, "Repair GPU")
    press(page, "Reopen node")
    before = page.locator("#demo-time").text_content() or ""
    press(page, "+1 day")
    expect(page.locator("[value=leap]")).to_have_attribute("aria-pressed", "false")
    after = page.locator("#demo-time").text_content() or ""
    assert before[:3] != after[:3]
    expect(page.locator(".counts")).to_contain_text("booked")
    assert wrong == []


def test_a_share_of_a_gpu_is_shown_beside_those_of_others(browser: Browser, address: str) -> None:
    page, wrong = entered(browser, address)
    press(page, "bob")
    shared = page.locator(".gpus tr", has_text="In shares")
    expect(shared).to_contain_text("24.0 of 79.1 GiB, 3 pods")
    press(page, "Share")
    expect(shared).to_contain_text("43.8 of 79.1 GiB, 4 pods")
    shared.get_by_role("link", name=re.compile("bob-share")).click()
    expect(page.locator(".explanation")).to_be_visible()
    assert wrong == []


def test_the_bar_works_without_scripts(browser: Browser, address: str) -> None:
    page, _ = entered(browser, address, scripts=False)
    press(page, "bob")
    press(page, "Notebook")
    expect(page.locator("#demo-feed")).to_contain_text("speech/jupyter-bob")


def test_a_booking_is_made_on_the_demos_page(browser: Browser, address: str) -> None:
    page, wrong = entered(browser, address)
    press(page, "bob")
    page.goto("/")
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.locator("h1")).to_have_text("My bookings")
    expect(page.locator(".note")).to_contain_text("It is guaranteed from now on")
    assert wrong == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", [DESK, PHONE], ids=lambda screen: screen.name)
def test_pages_with_the_bar_fit_the_screen_and_can_be_read_by_everybody(
    browser: Browser, address: str, screen: Screen, scheme: Scheme
) -> None:
    page, wrong = entered(browser, address, screen=screen, scheme=scheme)
    for place in PAGES:
        page.goto(place)
        page.wait_for_load_state("networkidle")
        assert width_of(page) <= screen.width, place
        assert findings(page) == [], place
    assert wrong == []
