"""The story on whole Kubernetes of more versions; played where it is named (``make test-long ONLY=...``)."""

import pytest

from tests.long.versions.cases import play_story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # Kubernetes and images may be built first


@pytest.mark.parametrize("minor", ["1.36", "1.35", "1.33", "1.32", "1.31"])
def test_the_story_is_played_to_its_end(minor: str) -> None:
    play_story("kubernetes", minor)
