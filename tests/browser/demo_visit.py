"""A demo in a process of its own, and a page of Chromium that has opened its address."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.visitor import PATIENCE, Screen
from tests.demo.demo_process import started


@contextmanager
def opened(browser: Browser, folder: Path, screen: Screen) -> Iterator[Page]:
    """The page, signed in as alice.

    Args:
        browser: Chromium.
        folder: for what the demo keeps meanwhile.
        screen: of the visitor.
    """
    with started(folder, "--no-browser") as (_, printed):
        address = re.search(r"http://\S+/demo/enter\S+", printed)
        if address is None:
            raise ValueError(f"The demo has printed no address: {printed}")
        context = browser.new_context(
            base_url=address[0].split("/demo/", maxsplit=1)[0],
            viewport={"width": screen.width, "height": screen.height},
            color_scheme="light",
            reduced_motion="reduce",
            locale="en-GB",
        )
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page = context.new_page()
        page.goto(address[0])
        yield page
        context.close()


def press(page: Page, button: str) -> None:
    """Press a button of the demo's bar."""
    page.locator("#demo-bar").get_by_role("button", name=button, exact=True).click()
