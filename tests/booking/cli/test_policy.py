"""What a policy decides, before it is in force; and the one that is."""

import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from booking.cli.__main__ import gpu
from booking.durations import Duration
from booking.policy.policy import Policy
from devcluster.paths import CHECKOUT
from tests.booking.cli.conftest import Screen, Terminal
from tests.booking.server.web.served import Served
from tests.fakes.objects import A100, A6000


class OfPools(Served):
    """A booking server whose policy has other limits for a model."""

    def ruling(self) -> Policy:
        """A week at most."""
        return Policy(pools={A100: {"longest": Duration(days=7)}})


EXAMPLE = CHECKOUT / "docs" / "examples" / "policy-cases.yaml"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A copy of the example, to be spoiled."""
    for name in ("policy.yaml", EXAMPLE.name):
        (tmp_path / name).write_text((EXAMPLE.parent / name).read_text())
    return tmp_path / EXAMPLE.name


def test_cases_decided_as_expected_are_counted(terminal: Terminal) -> None:
    number = len(yaml.safe_load(EXAMPLE.read_text())["cases"])
    assert terminal.says("policy", "test", str(EXAMPLE)) == f"{number} cases are decided as expected.\n"


def test_a_case_decided_differently_is_reported_with_the_message_for_the_user(
    terminal: Terminal, cases: Path
) -> None:
    cases.write_text(cases.read_text().replace("expect: [longest, off-the-grid]", "expect: []"))
    done = terminal.run("policy", "test", str(cases))
    assert done.exit_code == 1
    assert "It should be accepted, and it is refused by longest, off-the-grid." in done.stdout
    assert "A booking lasts at most" in done.stdout
    assert "1 of " in done.stderr


@pytest.fixture
def spoiled(cases: Path) -> Path:
    """The example with one case that is decided differently than it expects."""
    cases.write_text(cases.read_text().replace("expect: [longest, off-the-grid]", "expect: []"))
    return cases


def outcomes(terminal: Terminal, path: Path, form: str) -> dict[str, Any]:
    """The output for programs of a file with a case that differs."""
    done = terminal.run("policy", "test", "-o", form, str(path))
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: 1 of ")
    read: dict[str, Any] = json.loads(done.stdout) if form == "json" else yaml.safe_load(done.stdout)
    return read


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_every_outcome_and_the_counts(terminal: Terminal, spoiled: Path, form: str) -> None:
    report = outcomes(terminal, spoiled, form)
    names = [case["name"] for case in yaml.safe_load(spoiled.read_text())["cases"]]
    assert (report["cases"], report["differing"]) == (len(names), 1)
    assert [each["name"] for each in report["outcomes"]] == names
    assert {each["file"] for each in report["outcomes"]} == {str(spoiled)}
    (wrong,) = (each for each in report["outcomes"] if each["differs"] is not None)
    assert (wrong["expected"], wrong["broken"]) == ([], ["longest", "off-the-grid"])
    assert wrong["differs"] == "It should be accepted, and it is refused by longest, off-the-grid."
    assert len(wrong["messages"]) == 2


def test_programs_get_every_outcome_even_when_none_differs(terminal: Terminal) -> None:
    report = json.loads(terminal.says("policy", "test", "-o", "json", str(EXAMPLE)))
    assert report["differing"] == 0
    assert len(report["outcomes"]) == report["cases"] > 0


def test_wide_shows_every_case_with_its_expected_and_its_actual_answer(
    terminal: Terminal, spoiled: Path
) -> None:
    done = terminal.run("policy", "test", "-o", "wide", str(spoiled))
    assert done.exit_code == 1
    titles, *rows = done.stdout.splitlines()
    assert titles.split() == ["FILE", "CASE", "EXPECTED", "ANSWER", "DIFFERS", "MESSAGES"]
    assert len(rows) == len(yaml.safe_load(spoiled.read_text())["cases"])
    (wrong,) = (row for row in rows if "It should be" in row)
    assert re.split(" {3,}", wrong)[2:4] == ["accepted", "longest, off-the-grid"]
    assert "A booking lasts at most" in wrong
    good = terminal.says("policy", "test", "-o", "wide", str(EXAMPLE)).splitlines()
    assert good[-1].endswith(" cases are decided as expected.")


def test_the_output_of_names_lists_the_cases_that_differ(terminal: Terminal, spoiled: Path) -> None:
    done = terminal.run("policy", "test", "-o", "name", str(spoiled), str(EXAMPLE))
    assert done.exit_code == 1
    assert done.stdout == (
        f"{spoiled}: eight days of an A100 are too long, and a quarter past is off the hour\n"
    )
    assert terminal.says("policy", "test", "-o", "name", str(EXAMPLE)) == ""


def test_a_long_run_shows_its_progress(
    cases: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen, slow, text = Screen(), cases.with_name("slow.yaml"), cases.read_text()
    os.mkfifo(slow)

    def written_once_it_is_waited_for() -> None:
        screen.spoke.wait(60)
        slow.write_text(text)

    writing = threading.Thread(target=written_once_it_is_waited_for)
    writing.start()
    monkeypatch.setattr(sys, "stderr", screen)
    gpu.main(["policy", "test", str(slow)], standalone_mode=False)
    writing.join()
    assert f"\rreplaying the cases of {slow} |" in screen.getvalue()
    assert "are decided as expected" in capsys.readouterr().out


def test_a_file_that_cannot_be_used_is_reported_in_a_message(terminal: Terminal, cases: Path) -> None:
    cases.write_text("cases: 1")
    assert "Traceback" not in terminal.fails("policy", "test", str(cases))
    (cases.parent / "policy.yaml").write_text("limits: {longest: never}")
    cases.write_text(EXAMPLE.read_text())
    assert "is refused" in terminal.fails("policy", "test", str(cases))


def test_the_policy_in_force_is_shown_with_the_users_own_limits(terminal: Terminal) -> None:
    for form, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        shown = read(terminal.says("policy", "show", "-o", form))
        assert shown["policy"]["zone"] == "UTC"
        assert shown["me"]["user"] == "alice"


def test_people_read_their_limits_below_the_version_and_the_server_of_the_policy(terminal: Terminal) -> None:
    title, columns, *rows = terminal.says("policy", "show").splitlines()
    assert title == (
        f"Policy v1 (in the form of version 1) of the booking server {terminal.url}, for alice."
        " Days are those of UTC."
    )
    assert columns.split("   ")[0] == "LIMIT"
    limits = dict(row.split(maxsplit=1) for row in rows)
    assert (limits["longest"], limits["tolerance"]) == ("14 days", "5 minutes")
    assert (limits["max_active"], limits["horizon"]) == ("1", "none")
    assert (limits["scope"], limits["may_extend"]) == ("user", "true")
    assert "zone" not in limits


def test_wide_shows_the_limits_for_everybody_as_well(terminal: Terminal) -> None:
    _, columns, *rows = terminal.says("policy", "show", "-o", "wide").splitlines()
    assert columns.endswith("FOR EVERYBODY")
    (longest,) = (row for row in rows if row.startswith("longest"))
    assert longest.split(maxsplit=1)[1].split() == ["14", "days", "14", "days"]


def test_the_name_of_a_policy_is_its_version(terminal: Terminal) -> None:
    assert terminal.says("policy", "show", "-o", "name") == "v1\n"


class TestModels:
    """Limits of one model."""

    @pytest.fixture
    def served(self, tmp_path: Path) -> Iterator[Served]:
        """Where an A100 may be had for a week."""
        made = OfPools(tmp_path)
        yield made
        made.store.close()

    def test_the_limits_for_a_model_are_shown(self, terminal: Terminal) -> None:
        assert "longest                14 days" in terminal.says("policy", "show")
        output = terminal.says("policy", "show", "--model", "a100")
        assert f"for alice who books GPUs of model {A100}." in output
        assert "longest                7 days" in output

    def test_an_unknown_model_is_refused_with_the_known_ones(self, terminal: Terminal) -> None:
        stderr = terminal.fails("policy", "show", "--model", "h200")
        assert f"No model's name contains 'h200': there are {A100}, {A6000}." in stderr
        stderr = terminal.fails("policy", "show", "--model", "nvidia")
        assert f"2 models contain 'nvidia': {A100}, {A6000}." in stderr
