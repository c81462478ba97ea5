"""A browser, and a site of its own for each test: a real booking server on a port, the cluster a fake."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.booking.server.web.pages.site import Site
from tests.browser.visitor import Visitors, address_of, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def visitors(browser: Browser, site: Site) -> Iterator[Visitors]:
    with address_of(site) as address:
        made = Visitors(browser, address)
        yield made
        made.close()
