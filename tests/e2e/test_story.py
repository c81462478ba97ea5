"""``make run ONCE=1 PROCESSES=1`` plays the story to its end. With images: tests/long/test_story.py."""

import pytest

from tests.clusters import own
from tests.e2e.attached import Attached
from tests.e2e.story_run import check_story, run

pytestmark = pytest.mark.e2e


@pytest.mark.budget(60)
def test_the_story_is_played_to_its_end() -> None:
    name = own("story")
    with Attached(name) as laws:
        played = run(name, "--processes", until=laws.has_failed)
    check_story(played)
