"""A testbed on which claims can be booked."""

from collections.abc import Iterator

import pytest

from tests.e2e.testbed import Testbed
from tests.long.dra.ground import CLAIMS


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    bed = Testbed(CLAIMS)
    try:
        yield bed
    finally:
        bed.close()
