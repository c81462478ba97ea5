"""The lab behind the bar for a whole day: its button goes so far at once."""

from datetime import timedelta
from pathlib import Path

from tests.demo.watched_site import go_through


def test_a_day_is_gone_through_with_all_that_happens_in_it(tmp_path: Path) -> None:
    go_through(tmp_path, timedelta(days=1))
