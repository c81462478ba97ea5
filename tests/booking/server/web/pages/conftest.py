"""A site for every test that requests one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.booking.server.web.pages.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()
