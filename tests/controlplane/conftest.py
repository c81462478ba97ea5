"""Tests on one real API server: of one that fails, its cluster's logs are kept."""

import pytest

from tests.running import outcome


def pytest_configure(config: pytest.Config) -> None:
    """The state in which a test failed is kept."""
    outcome.load(config)
