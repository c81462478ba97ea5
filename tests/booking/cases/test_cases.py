from pathlib import Path

import pytest

from booking.cases import CaseFileError, Outcome, replay_file
from docs.tables.markdown import ROOT

HEAD = "capacity: {A100: {n0: 2, n1: 2}}\n"
BOOKED = "user: bob, start: 2026-03-01T09:00:00Z, end: 2026-03-09T09:00:00Z"
CASE = "cases:\n  - {name: one, now: 2026-03-02T09:00:00Z, user: alice, request: {duration: 2d}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cases.yaml"


def replayed(file: Path, text: str) -> tuple[Outcome, ...]:
    file.write_text(text)
    return replay_file(file)


def refused(file: Path, text: str) -> str:
    with pytest.raises(CaseFileError) as told:
        replayed(file, text)
    return str(told.value)


def test_the_example_answers_as_it_says() -> None:
    outcomes = replay_file(ROOT / "docs" / "examples" / "policy-cases.yaml")
    assert len(outcomes) >= 10
    assert [outcome for outcome in outcomes if outcome.differs] == []
    assert {rule for outcome in outcomes for rule in outcome.broken} >= {
        "cooldown",
        "capacity",
        "no-extension",
    }


def test_without_a_policy_file_it_is_the_manual(file: Path) -> None:
    (outcome,) = replayed(file, f"{HEAD}{CASE}}}")
    assert (outcome.differs, outcome.broken) == (None, ())


def test_an_answer_that_differs_is_told_in_a_sentence(file: Path) -> None:
    (outcome,) = replayed(file, f"{HEAD}{CASE}, expect: [cooldown]}}")
    assert outcome.differs == "cooldown was expected, and it is accepted."
    (outcome,) = replayed(file, f"{HEAD}{CASE.replace('2d', '20d')}}}")
    assert outcome.differs == "accepted was expected, and it is longest."
    assert outcome.sentences == ("A booking lasts at most 14 days, this one 20 days.",)
    (outcome,) = replayed(file, f"{HEAD}{CASE}, earliest_start: 2026-03-03T09:00:00Z}}")
    assert outcome.differs == (
        "The earliest start was expected at 2026-03-03 09:00 UTC, and it is 2026-03-02 09:00 UTC."
    )


def test_the_policy_is_found_beside_the_file(file: Path) -> None:
    file.with_name("p.yaml").write_text("defaults: {longest: 1d}\n")
    (outcome,) = replayed(file, f"policy: p.yaml\n{HEAD}{CASE}, expect: [longest]}}")
    assert outcome.differs is None


def test_promises_for_one_node_are_kept_in_a_case_too(file: Path) -> None:
    booked = "{user: bob, count: 1, start: 2026-03-01T09:00:00Z, end: 2026-03-09T09:00:00Z}"
    history = f"history:\n  - {booked}\n  - {booked.replace('count: 1', 'count: 2')}\n"
    two = CASE.replace("duration: 2d", "duration: 2d, count: 2")
    (outcome,) = replayed(file, f"{HEAD}{history}{two}, expect: [capacity]}}")
    assert outcome.differs is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "Expected `object`"),
        ("[" * 3000, "is not YAML"),
        (HEAD, "missing required field `cases`"),
        (f"{HEAD}{CASE}, expected: []}}", "unknown field `expected`"),
        (f"{HEAD}{CASE.replace('09:00:00Z', '09:00:00')}}}", "$.cases[0].now"),
        (f"{HEAD}{CASE.replace('duration: 2d', '')}}}", "neither an end nor a duration"),
        (f"{HEAD}{CASE.replace('2d', '2 days')}}}", "'2 days' is no length of time"),
        (f"{HEAD}{CASE}, change: b-7}}", "no booking 'b-7' to change"),
        (f"capacity: {{a: {{n: 1}}, b: {{n: 1}}}}\n{CASE}}}", "several models"),
        (f"policy: gone.yaml\n{HEAD}{CASE}}}", "gone.yaml cannot be read"),
        (f"{HEAD}history: [{{{BOOKED}, count: 5}}]\n{CASE}}}", "does not fit"),
        (f"{HEAD}history: [{{{BOOKED}, count: 0}}]\n{CASE}}}", "is of nothing"),
        (f"{HEAD}history: [{{{BOOKED}, released: 2026-02-01T09:00:00Z}}]\n{CASE}}}", "is of nothing"),
        (f"{HEAD}{CASE}, exemptions: [{{limits: {{cooldwn: 0d}}}}]}}", "is cooldown meant"),
        (f"{HEAD}{CASE}, exemptions: [{{limits: {{}}}}]}}", "at least one limit"),
        (
            f"{HEAD}{CASE.replace('2026-03-02T09:00:00Z', '9999-12-31T23:59:59-05:00')}}}",
            "beyond the calendar",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_a_sentence(file: Path, text: str, told: str) -> None:
    assert told in refused(file, text)


def test_a_broken_policy_is_told_with_its_lines(file: Path) -> None:
    file.with_name("p.yaml").write_text("defaults: {cooldown: 1}\n")
    assert "Line 1, defaults.cooldown" in refused(file, f"policy: p.yaml\n{HEAD}{CASE}}}")


def test_a_file_that_is_not_there_or_not_text_is_refused(file: Path) -> None:
    with pytest.raises(CaseFileError, match="cannot be read"):
        replay_file(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CaseFileError, match="not UTF-8"):
        replay_file(file)
