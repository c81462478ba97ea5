"""The moving picture of the README: somebody books GPUs, and looks at what becomes of pods."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

from tests.browser.apng import moving
from tests.browser.sample_data import H100
from tests.browser.visitor import Screen, Visitors

SCREEN: Final = Screen("picture", 960, 600)
SHOWN: Final = 3500
"""Milliseconds of each view."""
_CAPTION: Final = """text => {
  document.getElementById('caption')?.remove();
  const bar = Object.assign(document.createElement('div'), {id: 'caption', textContent: text});
  bar.style.cssText = 'position:fixed;left:0;right:0;bottom:0;padding:12px 24px;z-index:99;'
    + 'background:#1b1f24;color:#fff;font:600 18px/1.3 system-ui,sans-serif';
  document.body.append(bar);
}"""


def take(visitors: Visitors, target: Path) -> None:
    """Go through the pages, and write the picture. Bob has no booking yet, and makes one."""
    target.write_bytes(moving([(picture, SHOWN) for picture in _views(visitors)]))


def _views(visitors: Visitors) -> Iterator[bytes]:
    bob = visitors.page("bob", screen=SCREEN)
    bob.goto("/")
    yield _view(bob, "Bob looks at what is free in the next four weeks, model by model.")
    bob.goto(f"/?model={H100}")
    bob.locator("#count").fill("8")
    bob.locator("#amount").fill("2")
    expect(bob.locator("#answer .slot")).not_to_have_count(0)
    yield _view(bob, "He asks for eight H100s for two days. The answer comes while he types.", "#answer")
    bob.locator("#answer .slot").first.click()
    expect(bob.locator("#answer")).to_contain_text("Can be booked")
    yield _view(bob, "One of the times that are offered will do.", "#answer")
    bob.locator("#start").press("Enter")
    expect(bob.locator(".note")).to_contain_text("It is guaranteed from now on")
    yield _view(bob, "Booked: for these two days the eight GPUs are his pods' for certain.")
    alice = visitors.page("alice", screen=SCREEN)
    alice.goto("/now")
    yield _view(alice, "Until then everybody uses them. Every GPU, its holder, and who would leave first.")
    alice.goto("/why/vision/ablation")
    yield _view(alice, "A pod waits, or may lose its GPU? The page says why, and what would change it.")


def _view(page: Page, caption: str, at: str = "") -> bytes:
    """What is seen of a page, with a line of text below."""
    page.wait_for_load_state("networkidle")
    if at:
        page.locator(at).evaluate("element => element.scrollIntoView({block: 'center'})")
    page.evaluate(_CAPTION, caption)
    return page.screenshot(caret="initial")
