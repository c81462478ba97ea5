"""The worlds of tests/scenarios."""

from tests.scenarios.conftest import faults, new_world, world

__all__ = ["faults", "new_world", "world"]
