"""The plugin: what it records of a session, and how a broken law ends one, wherever it surfaces."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.laws.broken import LawBrokenError, breach_in
from tests.running import evidence, outcome
from tests.running.outcome import AFTERWARDS, COLLECTION, Played

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


def test_evidence_is_recorded_of_the_first_failure_alone(tmp_path: Path) -> None:
    _, played = session(tmp_path, "def test_a(): assert 0\ndef test_b(): assert 0\n")
    assert [bool(failure.sections) for failure in played.failures] == [True, False]


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


def test_a_failure_at_the_end_of_an_interrupted_session_is_reported_and_hides_nothing(
    tmp_path: Path,
) -> None:
    done, played = session(
        tmp_path,
        "@pytest.fixture(scope='session')\ndef f():\n    yield\n    raise OSError('it does not stop')\n"
        f"@pytest.fixture\ndef g(f):\n    yield\n    raise {BREACH}\n"
        "def test_a(g): pass\ndef test_b(g): pass\n",
    )
    assert [(failure.name, failure.when, failure.law) for failure in played.failures] == [
        ("test_a", "teardown", "L1"),
        ("test_a", AFTERWARDS, None),
    ]
    assert done.returncode == outcome.FAILED
    assert "it does not stop" in done.stdout
    assert "short test summary" in done.stdout


def test_a_law_broken_on_purpose_ends_nothing(tmp_path: Path) -> None:
    done, played = session(
        tmp_path,
        f"def test_a():\n    with pytest.raises(LawBrokenError): raise {BREACH}\ndef test_b(): pass\n",
    )
    assert (done.returncode, played.failures, played.passed) == (0, (), 2)


def test_the_law_is_reported_where_a_test_fails_and_breaks_a_law_at_its_end(tmp_path: Path) -> None:
    _, played = session(
        tmp_path,
        f"@pytest.fixture\ndef f():\n    yield\n    raise {BREACH}\ndef test_a(f): assert 0\n",
    )
    (failure,) = played.failures
    assert (failure.law, failure.when) == ("L1", "teardown")
    assert failure.sections


def test_evidence_is_recorded_of_a_broken_law_though_another_test_failed_before(
    tmp_path: Path,
) -> None:
    _, played = session(tmp_path, f"def test_a(): assert 0\ndef test_b(): raise {BREACH}\n")
    assert [bool(failure.sections) for failure in played.failures] == [True, True]
    assertion = played.failures[1].sections[0]
    assert assertion.newest
    assert any(line.endswith("second") for line in assertion.lines)


def test_a_collection_error_is_a_failure_and_tests_that_did_not_run_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("import nothing_of_this_name\n")
    done, played = session(tmp_path, "def test_a(): pass\n")
    assert [(failure.when, "nothing_of_this_name" in failure.reason) for failure in played.failures] == [
        (COLLECTION, True)
    ]
    assert played.passed == 0
    assert done.returncode > outcome.FAILED


def test_tests_that_did_not_run_any_more_are_counted(tmp_path: Path) -> None:
    _, played = session(tmp_path, "def test_a(): assert 0\ndef test_b(): pass\n", "--maxfail=1")
    assert (len(played.failures), played.unplayed) == (1, 1)


def test_everything_before_the_kill_is_known_of_a_killed_run(tmp_path: Path) -> None:
    program = (
        "import os, signal\ndef test_a(): assert 0\ndef test_b(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done, played = session(tmp_path, program)
    assert done.returncode < 0
    assert [failure.name for failure in played.failures] == ["test_a"]
    assert played.unplayed == 1


def test_nothing_is_known_of_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    assert outcome.read(tmp_path / "played.json") is None


def test_a_broken_law_is_found_in_groups_behind_causes_and_in_cycles() -> None:
    breach = LawBrokenError("L2", "bob-1 was booked")
    group = BaseExceptionGroup("two", [OSError(), BaseExceptionGroup("one", [breach])])
    assert breach_in(group) is breach
    first, second = OSError(), OSError()
    first.__context__, second.__context__ = second, first
    assert breach_in(first) is None
    second.__cause__ = breach
    assert breach_in(first) is breach
    assert breach_in(None) is None


def test_a_reason_is_one_line_and_that_of_a_group_its_first() -> None:
    assert evidence.reason_of(OSError("\n\n  the disk \nis full")) == "OSError: the disk"
    assert evidence.reason_of(BaseExceptionGroup("two", [ValueError(), OSError("x")])) == "ValueError"
    assert evidence.reason_of(None) == ""


def test_a_tests_folder_is_named_after_it() -> None:
    assert evidence.folder_of("tests/e2e/test_x.py::test_y[a b/c]") == "e2e-test_x.py-test_y-a-b-c"
