"""The chart is installed by Helm and the story played by its pods, on older versions of Kubernetes."""

import pytest

from tests.clusters import own
from tests.e2e.attached import Attached
from tests.e2e.story_run import check_story, run

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
    name = own(f"story-{how[0]}{minor.replace('.', '')}")
    with Attached(name):
        played = run(name, f"--{how}", minor)
    check_story(played)
    assert "the chart is installed, and all of its pods are ready" in played.stdout
