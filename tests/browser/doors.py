"""Pictures of the README's doors, from the demo: a visitor's, a person's, an administrator's, a group's."""

from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect

from tests.browser.demo_visit import opened, press
from tests.browser.visitor import Screen

SCREEN: Final = Screen("door", 1280, 800)
NAMES: Final = ("door-demo", "door-person", "door-administrator", "door-group")
"""Of the pictures, in their order."""


def take(browser: Browser, folder: Path, images: Path) -> None:
    """Start a demo, go through the doors, and write a picture of each.

    Args:
        browser: Chromium.
        folder: for what the demo keeps meanwhile.
        images: where the pictures go.
    """
    with opened(browser, folder, SCREEN) as page:
        for name, through in zip(NAMES, (_demo, _person, _administrator, _group), strict=True):
            through(page)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=images / f"{name}.png")


def _demo(page: Page) -> None:
    """Alice's pod has been started, and somebody makes way for it."""
    press(page, "1 GPU")
    expect(page.locator("#demo-feed")).to_contain_text("needed by the booked pod")


def _person(page: Page) -> None:
    """Bob has booked, and sees what he has and how to use it."""
    press(page, "bob")
    expect(page.locator(".who")).to_contain_text("bob")
    page.goto("/")
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.locator(".note")).to_contain_text("It is guaranteed from now on")


def _administrator(page: Page) -> None:
    """An administrator sees everybody's bookings, and can evict a pod."""
    press(page, "administrator")
    page.get_by_role("link", name="Admin").click()
    page.get_by_role("link", name="Bookings and pods").click()
    expect(page.locator("h1")).to_have_text("Admin")


def _group(page: Page) -> None:
    """Bob's jobs want more GPUs than there are: the line, and what everybody holds and deserves."""
    press(page, "bob")
    for _ in range(3):
        press(page, "8 GPUs")
    page.goto("/queue")
    expect(page.get_by_role("main")).to_contain_text("bob")
