"""A law that is broken on a real cluster is reported by the gate's stage, in its first and its last line."""

from pathlib import Path

import pytest

from tests.running.e2e import judge, report

pytestmark = pytest.mark.e2e

FIXTURES = """
from tests.long.conftest import *
from tests.long.test_double_allocation import pre_stop_hook, gate, lister, provocation

from tests.running import outcome


def pytest_configure(config):
    outcome.load(config)
"""
NAIVE = """
import pytest

from tests.long.test_double_allocation import a_naive_plugin, give_one_device_twice

pytestmark = pytest.mark.e2e


def test_naive(cluster, playground, provocation):
    give_one_device_twice(playground, a_naive_plugin(cluster, playground, provocation), provocation)


def test_later(playground):
    raise AssertionError("it is played after a law was broken")
"""


def test_a_plugin_that_gives_one_device_to_two_pods_ends_the_stage(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = e2e\n")
    (tmp_path / "plays").mkdir()
    (tmp_path / "plays" / "conftest.py").write_text(FIXTURES)
    (tmp_path / "plays" / "test_naive.py").write_text(NAIVE)

    found = judge("plays", [], checkout=tmp_path)

    assert found.red == "law L1 broken in plays/test_naive.py::test_naive"
    shown = report(found)
    assert any("Law L1 is broken: " in line for line in shown)
    assert any(line.startswith("pods of ") for line in shown)
    assert not any("it is played after" in line for line in shown)
