"""Every page in Chromium, in both schemes, at a desk and on a phone: no complaint, nothing unreachable."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.booking.server.web.pages.site import Site
from tests.browser.sample_data import add_audit_entries, add_bookings, add_cluster
from tests.browser.visitor import DESK, PHONE, SCHEMES, Visitors, address_of, findings, open_all, width_of
from tests.fakes.objects import A100

pytestmark = pytest.mark.component

PAGES: Final = {
    "availability": f"/?open={A100}",
    "refused": f"/?model={A100}&count=7&amount=20&check=1",
    "mine": "/mine",
    "past": "/mine?past=1",
    "missing": "/mine?booked=b-nobody",
    "now": "/now",
    "why": "/why/vision/ablation",
    "whom to ask about": "/why",
    "maintenance": "/admin",
    "exemptions": "/admin/exemptions",
    "everybody's": "/admin/bookings",
    "whoami": "/whoami",
    "policy": "/admin/policy",
    "audit": "/admin/audit",
    "denied": "/admin/denied",
}
"""Name -> address. A page that is added here is looked at in every way."""
MISSING: Final = "error: Failed to load resource: the server responded with a status of 404 (NOT FOUND)"


@pytest.fixture(scope="module")
def visitors(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitors]:
    """Visitors of a site that nobody changes."""
    site = Site(tmp_path_factory.mktemp("site"))
    add_bookings(site)
    add_cluster(site)
    add_audit_entries(site)
    site.signing_in.administrators.add("alice")
    with address_of(site) as address:
        made = Visitors(browser, address)
        yield made
        made.close()
    site.store.close()


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible(visitors: Visitors, name: str) -> None:
    page = visitors.page()
    page.goto(PAGES[name])
    open_all(page)
    for screen in (DESK, PHONE):
        page.set_viewport_size({"width": screen.width, "height": screen.height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert findings(page) == [], (screen, scheme)
            assert width_of(page) <= screen.width, (screen, scheme)
    assert visitors.errors() == ([MISSING] if name == "missing" else [])
