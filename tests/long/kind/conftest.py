"""The laptop of tests/kind."""

from tests.kind.conftest import laptop

__all__ = ["laptop"]
