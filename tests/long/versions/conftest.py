"""Each file is played on the version of Kubernetes that its ``DESIGN`` names."""

from collections.abc import Iterator

import pytest

from tests.e2e.testbed import Testbed


@pytest.fixture(scope="module")
def testbed(request: pytest.FixtureRequest) -> Iterator[Testbed]:
    bed = Testbed(request.module.DESIGN)
    try:
        yield bed
    finally:
        bed.close()
