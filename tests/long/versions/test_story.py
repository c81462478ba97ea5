"""The chart is installed by Helm and the story played by its pods, on older versions of Kubernetes."""

import pytest

from tests.long.versions.cases import play_story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # Kubernetes and images may be built first


@pytest.mark.parametrize(
    ("how", "minor"),
    [
        ("emulates", "1.36"),
        ("emulates", "1.35"),
        ("emulates", "1.34"),
        ("kubernetes", "1.34"),
        ("kubernetes", "1.30"),
    ],
)
def test_the_story_is_played_to_its_end(how: str, minor: str) -> None:
    play_story(how, minor)
