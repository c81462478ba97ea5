"""Where tests marked ``component`` are: a run of those alone need not import everybody else's."""

from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PLACES: Final = (
    "tests/booking/cli/test_installed.py",
    "tests/booking/server/service/test_risks.py",
    "tests/booking/server/store",
    "tests/booking/server/web/pages/test_bad_input.py",
    "tests/booking/server/web/rest/test_openapi.py",
    "tests/booking/server/web/test_database_gone.py",
    "tests/browser",
    "tests/charts",
    "tests/demo",
)
LONG: Final = "tests/long"
"""Has its own way of being collected."""


def has_none(path: Path) -> bool:
    """Whether neither this file nor anything in this folder is marked so."""
    places = [ROOT / place for place in PLACES]
    return not any(path.is_relative_to(place) or place.is_relative_to(path) for place in places)


def is_misplaced(item: pytest.Item) -> bool:
    """Whether it is marked so and would not be found: its place is missing here."""
    is_ours = item.get_closest_marker("component") and not item.path.is_relative_to(ROOT / LONG)
    return bool(is_ours) and has_none(item.path)
