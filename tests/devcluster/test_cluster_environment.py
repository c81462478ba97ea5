"""What a cluster's processes inherit of the caller's environment."""

import os

from devcluster import cluster


def test_processes_do_not_inherit_which_test_has_started_them() -> None:
    assert "PYTEST_CURRENT_TEST" in os.environ
    inherited = cluster._inherited()
    assert "PYTEST_CURRENT_TEST" not in inherited
    assert inherited["PATH"] == os.environ["PATH"]
