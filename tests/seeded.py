"""Chance that is the same each time."""

from random import Random


def seeded(seed: int) -> Random:
    """A source of the same numbers for the same seed; nothing secret comes of it."""
    return Random(seed)  # noqa: S311
