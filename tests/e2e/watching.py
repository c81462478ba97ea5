"""The laws are watched in every test on the session's cluster, whether it asks for that or not."""

from collections.abc import Iterator

import pytest

from tests.e2e.testbed import Testbed


@pytest.fixture(autouse=True)
def watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing was broken when the test and its own fixtures had come to their end."""
    if "testbed" not in request.fixturenames:
        yield
        return
    testbed: Testbed = request.getfixturevalue("testbed")
    assert testbed.live_watch
    yield
    testbed.check_laws()
