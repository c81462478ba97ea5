"""The moving picture of the README: the demo, in which a booked pod gets its GPU, and bob's comes back."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect

from tests.browser.apng import moving
from tests.browser.demo_visit import opened, press
from tests.browser.visitor import Screen

SCREEN: Final = Screen("picture", 1000, 640)
SHOWN: Final = 4000
"""Milliseconds of each view."""
_CAPTION: Final = """text => {
  document.getElementById('caption')?.remove();
  const bar = Object.assign(document.createElement('div'), {id: 'caption', textContent: text});
  bar.style.cssText = 'position:fixed;left:0;right:0;bottom:0;padding:12px 24px;z-index:99;'
    + 'background:#1b1f24;color:#fff;font:600 18px/1.3 system-ui,sans-serif';
  document.body.append(bar);
}"""


def take(browser: Browser, folder: Path, target: Path) -> None:
    """Start a demo, go through it, and write the picture.

    Args:
        browser: Chromium.
        folder: for what the demo keeps meanwhile.
        target: the file of the picture.
    """
    with opened(browser, folder, SCREEN) as page:
        pictures = [(picture, SHOWN) for picture in _views(page)]
    target.write_bytes(moving(pictures))


def _views(page: Page) -> Iterator[bytes]:
    feed, everything = page.locator("#demo-feed"), page.locator("#demo-all")
    yield _view(page, "The demo: 36 GPUs, no cluster. Alice has booked an H100, and others use all of them.")
    press(page, "1 GPU")
    expect(feed).to_contain_text("needed by the booked pod")
    yield _view(page, "She starts a pod. The pod that loses least has to leave for it, with notice.")
    press(page, "x60")
    expect(everything).to_contain_text("came back without a GPU")
    expect(everything).to_contain_text(re.compile(r"alice-job-\d+ runs on"))
    press(page, "x1")
    yield _view(page, "Bob's pod has come back without a GPU. Alice's runs on the GPU that was kept for it.")
    press(page, "bob")
    expect(page.locator(".who")).to_contain_text("bob")
    page.locator(".demo-feed summary").click()
    everything.locator("li", has_text="came back without a GPU").get_by_role("link").last.click()
    expect(page.locator(".explanation")).to_be_visible()
    yield _view(page, "Bob sees why.", ".explanation")
    page.goto("/")
    yield _view(page, "What is free in the next four weeks, model by model.")
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.locator(".note")).to_contain_text("It is guaranteed from now on")
    yield _view(page, "So he books: for that time the GPU is his pods' for certain.")


def _view(page: Page, caption: str, at: str = "") -> bytes:
    """What is seen of a page, with a line of text below."""
    page.wait_for_load_state("domcontentloaded")
    if at:
        page.locator(at).evaluate("element => element.scrollIntoView({block: 'center'})")
    page.evaluate(_CAPTION, caption)
    return page.screenshot(caret="initial")
