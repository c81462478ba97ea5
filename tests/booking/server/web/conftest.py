"""A served API for every test that requests one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.booking.server.web.served import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.store.close()
