"""``python -m tests.browser``: pictures of the pages for the documents, of the same data and instant."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import Page

from cluster.process import logs
from devcluster.paths import CHECKOUT
from tests.booking.server.web.pages.site import Site
from tests.browser import doors, moving_picture
from tests.browser.sample_data import H100, add_audit_entries, add_bookings, add_cluster
from tests.browser.visitor import DESK, PHONE, Scheme, Screen, Visitors, address_of, chromium
from tests.fakes.objects import A100

ADMINISTRATOR: Final = "bob"
IMAGES: Final = CHECKOUT / "docs" / "images"
PICTURES: Final[tuple[tuple[str, str, Screen, Scheme], ...]] = (
    ("availability", f"/?model={H100}&count=4&start=2026-03-04T09:00&amount=3&check=1", DESK, "light"),
    ("availability-dark", f"/?open={A100}", DESK, "dark"),
    ("availability-phone", "/", PHONE, "light"),
    ("my-bookings", "/mine", DESK, "light"),
    ("my-bookings-phone", "/mine", PHONE, "dark"),
    ("now", "/now", DESK, "light"),
    ("now-dark", "/now", DESK, "dark"),
    ("now-phone", "/now", PHONE, "light"),
    ("why", "/why/vision/ablation", DESK, "light"),
    ("admin-maintenance", "/admin", DESK, "light"),
    ("admin-bookings", "/admin/bookings", DESK, "dark"),
    ("admin-policy", "/admin/policy", DESK, "light"),
)
"""Name, address, screen, scheme. A page that is added here gets its picture."""


def main() -> None:
    """Take them all."""
    logs.configure(level="error")
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, chromium() as browser:
        site = Site(Path(folder))
        add_bookings(site)
        add_cluster(site)
        add_audit_entries(site)
        site.signing_in.administrators.add(ADMINISTRATOR)
        with address_of(site) as address:
            visitors = Visitors(browser, address)
            for name, page_address, screen, scheme in PICTURES:
                page = visitors.page(_who(page_address), screen=screen, scheme=scheme)
                _take(page, page_address, IMAGES / f"{name}.png")
            visitors.close()
        doors.take(browser, Path(folder), IMAGES)
        moving_picture.take(browser, Path(folder), IMAGES / "tour.png")
        site.store.close()


def _who(address: str) -> str:
    """Alice has bookings; bob has none, and is an administrator."""
    return ADMINISTRATOR if "check" in address or address.startswith("/admin") else "alice"


def _take(page: Page, address: str, target: Path) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=target, full_page=True)


if __name__ == "__main__":
    main()
