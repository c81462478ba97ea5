"""Somebody before a screen: a page of Chromium that is signed in, and everything that went wrong in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from cluster.process.probes import serve
from tests.booking.server.web.pages.site import Site

VENDOR: Final = Path(__file__).parent / "vendor"
AXE: Final = VENDOR / "axe-core-4.14.1.min.js"
AT_REST: Final = """
Promise.allSettled(document.getAnimations().filter(a => a instanceof CSSTransition).map(a => a.finished))
"""
"""Where a scheme changes in an open page, its colours fade from one to the other."""
PATIENCE: Final = 60_000
"""Milliseconds that anything may take on a busy machine."""

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = get_args(Scheme)


@dataclass(frozen=True)
class Screen:
    """How large it is."""

    name: str
    width: int
    height: int


DESK: Final = Screen("desk", 1440, 900)
PHONE: Final = Screen("phone", 360, 740)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's, which needs no download."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def address_of(site: Site) -> Iterator[str]:
    """The site on a free port."""
    server = serve(site.app, "127.0.0.1", 0, threads=8)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


class Visitors:
    """Makes pages that are signed in."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._contexts: list[BrowserContext] = []
        self._errors: list[str] = []

    def page(
        self,
        user: str | None = "alice",
        *,
        screen: Screen = DESK,
        scheme: Scheme = "light",
        scripts: bool = True,
    ) -> Page:
        """A new window of somebody's; None: nobody is signed in."""
        context = self._browser.new_context(
            base_url=self._address,
            viewport={"width": screen.width, "height": screen.height},
            color_scheme=scheme,
            java_script_enabled=scripts,
            extra_http_headers={"Authorization": f"Bearer {user}-token"} if user else {},
            reduced_motion="reduce",
            locale="en-GB",
        )
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self._report(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._report(f"error: {error}"))
        page.on("requestfailed", self._failed)
        return page

    def _failed(self, request: Request) -> None:
        # Who goes on to another page waits no longer for what the one before has asked.
        if request.failure != "net::ERR_ABORTED":
            self._report(f"failed: {request.url}: {request.failure}")

    def _report(self, problem: str) -> None:
        self._errors.append(problem)

    def errors(self) -> list[str]:
        """What browsers have complained about since this was asked last."""
        found, self._errors = self._errors, []
        return found

    def close(self) -> None:
        """Close all windows."""
        for context in self._contexts:
            context.close()


def findings(page: Page) -> list[str]:
    """What axe-core calls serious or critical, once all colours have come to rest."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    page.evaluate(AT_REST)
    report: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['id']}: {node['target']}: {node['failureSummary']}"
        for found in report["violations"]
        if found["impact"] in {"serious", "critical"}
        for node in found["nodes"]
    ]


def open_all(page: Page) -> None:
    """Open everything that can be opened, and wait for what it shows; rows of models are all alike."""
    closed = page.locator("details:not([open]):not(.more) > summary")
    while closed.count():
        closed.first.click()
    page.wait_for_load_state("networkidle")


def width_of(page: Page) -> int:
    """How wide the page is, beyond the screen too."""
    return int(page.evaluate("document.documentElement.scrollWidth"))
