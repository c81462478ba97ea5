"""What a policy decides, before it is in force; and the one that is."""

from pathlib import Path

import pytest
import yaml

from devcluster.places import CHECKOUT
from tests.booking.cli.conftest import Terminal

EXAMPLE = CHECKOUT / "docs" / "examples" / "policy-cases.yaml"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A copy of the example, to be spoiled."""
    for name in ("policy.yaml", EXAMPLE.name):
        (tmp_path / name).write_text((EXAMPLE.parent / name).read_text())
    return tmp_path / EXAMPLE.name


def test_cases_that_are_decided_as_expected_are_counted(terminal: Terminal) -> None:
    number = len(yaml.safe_load(EXAMPLE.read_text())["cases"])
    assert terminal.says("policy", "test", str(EXAMPLE)) == f"{number} cases are decided as expected.\n"


def test_a_case_that_is_decided_otherwise_is_told_with_what_a_user_would_read(
    terminal: Terminal, cases: Path
) -> None:
    cases.write_text(cases.read_text().replace("expect: [longest, off-the-grid]", "expect: []"))
    done = terminal.run("policy", "test", str(cases))
    assert done.exit_code == 1
    assert "accepted was expected, and it is longest, off-the-grid." in done.stdout
    assert "A booking lasts at most" in done.stdout
    assert "1 of " in done.stderr


def test_a_file_that_cannot_be_used_is_told_in_a_sentence(terminal: Terminal, cases: Path) -> None:
    cases.write_text("cases: 1")
    assert "Traceback" not in terminal.fails("policy", "test", str(cases))
    (cases.parent / "policy.yaml").write_text("limits: {longest: never}")
    cases.write_text(EXAMPLE.read_text())
    assert "is refused" in terminal.fails("policy", "test", str(cases))


def test_the_policy_in_force_is_shown_with_what_it_means_for_oneself(terminal: Terminal) -> None:
    shown = yaml.safe_load(terminal.says("policy", "show"))
    assert shown["policy"]["zone"] == "UTC"
    assert shown["me"]["user"] == "alice"
