"""How many examples a search draws: few where a change is judged, all of them in ``make soak``."""

from typing import Final

from hypothesis import settings

SOAK: Final = "soak"
"""The profile of the runs that have the time."""


def examples(gate: int, soak: int) -> settings:
    """A decorator of a test with ``given``.

    Args:
        gate: examples in a run that judges a change.
        soak: examples under the profile ``soak``.
    """
    return settings(max_examples=soak if settings.get_current_profile_name() == SOAK else gate)
