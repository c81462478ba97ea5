"""The laws are watched in every test on the session's cluster, whether it asks for that or not."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing was broken when the test and its own fixtures had come to their end."""
    if "cluster" not in request.fixturenames:
        yield
        return
    watch = request.getfixturevalue("live_watch")
    yield
    watch.check()
