"""The laws are watched in every end-to-end test that uses a cluster, and on clusters that others start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import own
from tests.e2e.attached import Attached
from tests.running import outcome

CONFTEST = """
import pytest
from tests.e2e.watching import watched
from tests.laws.broken import LawBrokenError
from tests.laws.watcher import LawWatcher
from cluster.process.clock import SystemClock

class Bed:
    def __init__(self):
        self.live_watch = LawWatcher(SystemClock())
    def check_laws(self):
        self.live_watch.check()

@pytest.fixture(scope="session")
def testbed(): return Bed()

@pytest.fixture
def live_watch(testbed): return testbed.live_watch

@pytest.fixture
def playground(testbed): return "a namespace"
"""
TESTS = """
from contextlib import suppress
from tests.laws.broken import LawBrokenError

def test_a(): pass

def test_b(playground, request):
    with suppress(LawBrokenError):
        request.getfixturevalue("live_watch")._break([("L1", "GPU-1 has two pods")])

def test_c(playground): pass
"""


def test_a_law_broken_in_a_test_that_does_not_request_the_laws_is_seen(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    file = tmp_path / "played.json"
    words = ["-q", "-p", "no:randomly", f"--rootdir={tmp_path}", *outcome.arguments(file, tmp_path / "logs")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)], capture_output=True, text=True, check=False
    )
    played = outcome.read(file)
    assert played is not None, done.stdout + done.stderr
    assert [(failure.name, failure.law) for failure in played.failures] == [("test_b", "L1")]
    assert played.unplayed == 1


def test_it_is_an_error_that_a_cluster_which_never_started_was_not_watched() -> None:
    with pytest.raises(AssertionError, match="its laws were not watched"), Attached(own("nobody")):
        pass


def test_an_error_inside_is_not_hidden_by_a_cluster_that_never_started() -> None:
    with pytest.raises(OSError, match="no story"), Attached(own("nobody")):
        raise OSError("no story")
