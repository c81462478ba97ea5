"""Every database that the store knows: tests that take ``url`` or ``store`` run on each."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booking.server.store import Store, open_store
from tests.databases import EACH_KIND, a_database


@pytest.fixture(params=EACH_KIND)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return a_database(request.param, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened
