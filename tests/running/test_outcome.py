"""The plugin: what it records of a session, and how a broken law ends one, wherever it surfaces."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import outcome
from tests.running.outcome import AFTERWARDS, Played

BREACH = "LawBrokenError('L1', 'GPU-1 has two pods', ['first', 'second'])"
HEAD = "import pytest\nfrom tests.laws.broken import LawBrokenError\n"


def session(folder: Path, program: str, *words: str) -> tuple[subprocess.CompletedProcess[str], Played]:
    """Play a file of tests with the plugin, in a process of its own."""
    (folder / "test_some.py").write_text(HEAD + program)
    record = folder / "record" / "played.json"
    record.parent.mkdir()
    options = [*outcome.arguments(record, folder / "logs"), "-p", "no:randomly", f"--rootdir={folder}", "-q"]
    command = [sys.executable, "-m", "pytest", *options, *words, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    played = outcome.read(record)
    assert played is not None, done.stdout + done.stderr
    return done, played


def test_a_failure_is_recorded_with_its_reason_and_the_state_of_the_machine(tmp_path: Path) -> None:
    done, played = session(
        tmp_path,
        "@pytest.fixture\ndef broken():\n    raise ValueError('no such node\\nnode-a')\n"
        "def test_a(): pass\n"
        "def test_b(): assert 1 == 2\n"
        "def test_c(broken): pass\n"
        "def test_d(): pytest.skip('no')\n",
    )
    assert done.returncode == 1
    assert [(failure.name, failure.when, failure.reason) for failure in played.failures] == [
        ("test_b", "call", "AssertionError: assert 1 == 2"),
        ("test_c", "setup", "ValueError: no such node"),
    ]
    assert (played.passed, played.skipped, played.unplayed) == (1, 1, 0)
    first = played.failures[0]
    assert first.law is None
    assert first.at.endswith("+00:00")
    assert first.sections[0].title == "assertion"
    assert first.sections[0].lines[0].endswith("assert 1 == 2")


@pytest.mark.parametrize(
    ("surfaces", "when"),
    [
        (f"def test_b(): raise {BREACH}\n", "call"),
        (f"@pytest.fixture\ndef f():\n    raise {BREACH}\ndef test_b(f): pass\n", "setup"),
        (f"@pytest.fixture\ndef f():\n    yield\n    raise {BREACH}\ndef test_b(f): pass\n", "teardown"),
        (
            (
                f"@pytest.fixture\ndef f():\n    yield\n    raise {BREACH}\n"
                "@pytest.fixture\ndef g():\n    yield\n    raise OSError\n"
                "def test_b(f, g): pass\n"
            ),
            "teardown",
        ),
        (f"def test_b():\n    try: raise {BREACH}\n    except LawBrokenError: raise OSError\n", "call"),
        (f"def test_b():\n    try: raise {BREACH}\n    finally: raise OSError\n", "call"),
    ],
    ids=["test", "set-up", "tear-down", "two tear-downs", "behind another error", "in a finally"],
)
def test_a_broken_law_ends_the_session_at_once(tmp_path: Path, surfaces: str, when: str) -> None:
    done, played = session(tmp_path, f"def test_a(): pass\n{surfaces}def test_c(): pass\n")
    (failure,) = played.failures
    assert (failure.name, failure.when, failure.law) == ("test_b", when, "L1")
    assert failure.reason == "LawBrokenError: Law L1 is broken: GPU-1 has two pods"
    assert (played.passed, played.unplayed) == (1, 1)
    assert done.returncode == outcome.FAILED
    assert "law L1 broken in test_some.py::test_b" in done.stdout


SHARED = f"@pytest.fixture(scope='session')\ndef f():\n    yield\n    raise {BREACH}\n"


def test_a_law_broken_after_the_last_test_is_reported_like_any_other(tmp_path: Path) -> None:
    done, played = session(tmp_path, f"{SHARED}def test_a(f): pass\n")
    (failure,) = played.failures
    assert (failure.law, failure.when) == ("L1", AFTERWARDS)
    assert done.returncode == outcome.FAILED


def test_a_law_broken_on_purpose_ends_nothing(tmp_path: Path) -> None:
    done, played = session(
        tmp_path,
        f"def test_a():\n    with pytest.raises(LawBrokenError): raise {BREACH}\ndef test_b(): pass\n",
    )
    assert (done.returncode, played.failures, played.passed) == (0, (), 2)
