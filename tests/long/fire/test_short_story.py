"""The short story without any harm: what all the stories under fire are compared with."""

import pytest

from tests.long.fire.conftest import StoryMaker
from tests.long.fire.short_story import EXPECTED, MOMENTS

pytestmark = pytest.mark.e2e


def test_the_undisturbed_short_story_ends_as_expected_and_no_pod_is_refused(story: StoryMaker) -> None:
    reached: list[str] = []
    short = story(reached.append)
    assert short.play() == EXPECTED
    assert short.refused == []
    assert tuple(reached) == MOMENTS
