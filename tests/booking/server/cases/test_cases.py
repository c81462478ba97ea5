from pathlib import Path

import pytest

from booking.server.cases import CaseFileError, Outcome, replay_file
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
    with pytest.raises(CaseFileError) as refusal:
        replayed(file, text)
    return str(refusal.value)


def test_the_example_gets_the_answers_that_it_expects() -> None:
    outcomes = replay_file(ROOT / "docs" / "examples" / "policy-cases.yaml")
    assert len(outcomes) >= 10
    assert [outcome for outcome in outcomes if outcome.differs] == []
    assert {rule for outcome in outcomes for rule in outcome.broken} >= {
        "cooldown",
        "capacity",
        "no-extension",
    }


def test_without_a_policy_file_the_manual_applies(file: Path) -> None:
    (outcome,) = replayed(file, f"{HEAD}{CASE}}}")
    assert (outcome.differs, outcome.broken) == (None, ())


def test_an_answer_that_differs_is_reported_in_a_message(file: Path) -> None:
    (outcome,) = replayed(file, f"{HEAD}{CASE}, expect: [cooldown]}}")
    assert outcome.differs == "It should be refused by cooldown, and it is accepted."
    (outcome,) = replayed(file, f"{HEAD}{CASE.replace('2d', '20d')}}}")
    assert outcome.differs == "It should be accepted, and it is refused by longest."
    assert outcome.messages == ("A booking lasts at most 14 days, this one 20 days.",)
    (outcome,) = replayed(file, f"{HEAD}{CASE}, earliest_start: 2026-03-03T09:00:00Z}}")
    assert outcome.differs == (
        "The earliest start should be 2026-03-03 09:00 UTC, and it is 2026-03-02 09:00 UTC."
    )


def test_the_policy_is_found_next_to_the_file(file: Path) -> None:
    file.with_name("p.yaml").write_text("defaults: {longest: 1d}\n")
    (outcome,) = replayed(file, f"policy: p.yaml\n{HEAD}{CASE}, expect: [longest]}}")
    assert outcome.differs is None


def test_bookings_of_one_node_stay_on_one_node_in_a_case_too(file: Path) -> None:
    booked = "{user: bob, count: 1, start: 2026-03-01T09:00:00Z, end: 2026-03-09T09:00:00Z}"
    history = f"history:\n  - {booked}\n  - {booked.replace('count: 1', 'count: 2')}\n"
    two = CASE.replace("duration: 2d", "duration: 2d, count: 2")
    (outcome,) = replayed(file, f"{HEAD}{history}{two}, expect: [capacity]}}")
    assert outcome.differs is None


EMPTY = "start: 2026-03-02T09:00:00Z, end: 2026-03-02T09:00:00Z"
FIRST_NODE = "maintenance: [{node: n0, start: 2026-03-03T09:00:00Z, end: 2026-03-05T09:00:00Z}]"


@pytest.mark.parametrize(
    ("maintenance", "count", "expected"),
    [
        pytest.param(FIRST_NODE, 2, "[]", id="the other node is left"),
        pytest.param(FIRST_NODE, 3, "[capacity]", id="one node is all that is left"),
        pytest.param(FIRST_NODE.replace("n0", "n0, count: 1"), 3, "[]", id="of one GPU"),
        pytest.param(FIRST_NODE.replace("n0", "n0, model: A100"), 3, "[capacity]", id="of the model"),
        pytest.param(FIRST_NODE.replace("-03T", "-04T"), 3, "[]", id="begins when the booking ends"),
        pytest.param(FIRST_NODE.replace("-03-", "-02-"), 3, "[]", id="is over"),
    ],
)
@pytest.mark.parametrize("place", ["file", "case"])
def test_gpus_under_maintenance_cannot_be_booked(
    file: Path, maintenance: str, count: int, expected: str, place: str
) -> None:
    case = CASE.replace("duration: 2d", f"duration: 2d, count: {count}, topology: any")
    if place == "file":
        text = f"{HEAD}{maintenance}\n{case}, expect: {expected}}}"
    else:
        text = f"{HEAD}{case}, {maintenance}, expect: {expected}}}"
    (outcome,) = replayed(file, text)
    assert outcome.differs is None


def test_maintenance_of_one_model_leaves_the_other_models_of_its_node(file: Path) -> None:
    head = "capacity: {A100: {n0: 1}, L40: {n0: 1}}\n"
    case = CASE.replace("duration: 2d", "duration: 2d, model: A100")
    maintenance = FIRST_NODE.replace("n0", "n0, model: L40")
    (outcome,) = replayed(file, f"{head}{maintenance}\n{case}}}")
    assert outcome.broken == ()


def test_a_booking_without_room_because_of_maintenance_still_counts(file: Path) -> None:
    history = f"history: [{{{BOOKED}, count: 2}}, {{{BOOKED}, count: 2}}]\n"
    (outcome,) = replayed(file, f"{HEAD}{history}{FIRST_NODE}\n{CASE}, expect: [capacity]}}")
    assert outcome.differs is None


def test_a_booking_is_moved_off_a_maintained_node_as_the_server_moves_it(file: Path) -> None:
    head = HEAD.replace("n1: 2", "n1: 2, n2: 2")
    history = f"history: [{{{BOOKED}}}, {{{BOOKED}}}]\n"
    two = CASE.replace("duration: 2d", "duration: 2d, count: 2")
    (outcome,) = replayed(file, f"{head}{history}{FIRST_NODE}\n{two}}}")
    assert outcome.broken == ()


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        pytest.param("", "[]", id="today"),
        pytest.param(", end: 2026-03-02T10:00:00Z", "[]", id="ends later"),
        pytest.param(", start: 2026-02-01T09:00:00Z", "[]", id="began earlier"),
        pytest.param(
            ", start: 2026-02-01T09:00:00Z, end: 2026-03-02T09:00:00Z", "[longest]", id="has just expired"
        ),
        pytest.param(", start: 2026-03-02T09:00:01Z", "[longest]", id="is still to come"),
        pytest.param(", start: 2026-03-02T09:00:00Z, end: 2026-03-02T09:00:01Z", "[]", id="has just begun"),
    ],
)
def test_an_exemption_counts_while_it_holds(file: Path, dates: str, expected: str) -> None:
    case = CASE.replace("2d", "20d")
    exemption = f"exemptions: [{{limits: {{longest: 30d}}{dates}}}]"
    (outcome,) = replayed(file, f"{HEAD}{case}, {exemption}, expect: {expected}}}")
    assert outcome.differs is None


def test_a_mistake_is_reported_with_the_file_name(file: Path) -> None:
    assert refused(file, "cases: 1").startswith(f"{file}: The case file is refused: ")
    assert refused(file, f"{HEAD}{CASE}, change: b-7}}").startswith(f"{file}: The case 'one': ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "Expected `object`"),
        ("[" * 3000, "is not YAML"),
        (HEAD, "missing required field `cases`"),
        (f"{HEAD}{CASE}, expected: []}}", "unknown field `expected`"),
        (f"{HEAD}{CASE.replace('09:00:00Z', '09:00:00')}}}", "$.cases[0].now"),
        (f"{HEAD}{CASE.replace('duration: 2d', '')}}}", "neither an end nor a duration"),
        (f"{HEAD}{CASE.replace('2d', '2 days')}}}", "'2 days' is not a length of time"),
        (f"{HEAD}{CASE}, change: b-7}}", "no booking 'b-7' to change"),
        (
            f"capacity: {{a: {{n: 1}}, b: {{n: 1}}}}\n{CASE}}}",
            "several models: say which one is meant, of a, b",
        ),
        (f"capacity: {{}}\n{CASE}}}", "capacity names no model"),
        (f"{HEAD}history: [{{{BOOKED}, id: mine}}]\n{CASE}, change: b-7}}", "to change: there are mine."),
        (f"policy: gone.yaml\n{HEAD}{CASE}}}", "gone.yaml cannot be read"),
        (f"{HEAD}history: [{{{BOOKED}, count: 5}}]\n{CASE}}}", "does not fit"),
        (f"{HEAD}history: [{{{BOOKED}, count: 0}}]\n{CASE}}}", "is of nothing"),
        (f"{HEAD}history: [{{{BOOKED}, released: 2026-02-01T09:00:00Z}}]\n{CASE}}}", "is of nothing"),
        (f"{HEAD}{CASE}, exemptions: [{{limits: {{cooldwn: 0d}}}}]}}", "is cooldown meant"),
        (
            f"{HEAD}{CASE}, exemptions: [{{limits: {{}}}}]}}",
            "exemption 1: An exemption sets at least one limit",
        ),
        (
            f"{HEAD}{CASE}, exemptions: [{{limits: {{longest: 30d}}, end: 2026-03-01T09:00:00Z}}]}}",
            "not after its start 2026-03-02 09:00 UTC: write when it starts, too.",
        ),
        (
            f"{HEAD}{CASE}, exemptions: [{{limits: {{longest: 30d}}, {EMPTY}}}]}}",
            "exemption 1 ends at 2026-03-02 09:00 UTC, which is not after its start 2026-03-02 09:00 UTC",
        ),
        (
            f"{HEAD}{FIRST_NODE.replace('-05T', '-03T')}\n{CASE}}}",
            "maintenance 1 ends at 2026-03-03 09:00 UTC, which is not after its start",
        ),
        (f"{HEAD}{FIRST_NODE.replace('n0', 'n0, count: 0')}\n{CASE}}}", "maintenance 1 is of no GPU"),
        (
            f"{HEAD}{FIRST_NODE.replace('n0', 'n7')}\n{CASE}}}",
            "maintenance 1 is of 'n7', which is not a node of the file's capacity: there are n0, n1.",
        ),
        (
            f"{HEAD}{FIRST_NODE.replace('n0', 'n0, model: L40')}\n{CASE}}}",
            "which is not a node with GPUs of model 'L40' of the file's capacity: there are none.",
        ),
        (f"{HEAD}{FIRST_NODE.replace('Z, end', ', end')}\n{CASE}}}", "$.maintenance[0].start"),
        (
            f"{HEAD}{CASE.replace('2026-03-02T09:00:00Z', '9999-12-31T23:59:59-05:00')}}}",
            "beyond the calendar",
        ),
    ],
)
def test_a_nonsensical_file_is_refused_with_a_message(file: Path, text: str, expected: str) -> None:
    assert expected in refused(file, text)


def test_a_broken_policy_is_reported_with_its_lines(file: Path) -> None:
    file.with_name("p.yaml").write_text("defaults: {cooldown: 1}\n")
    assert "Line 1, defaults.cooldown" in refused(file, f"policy: p.yaml\n{HEAD}{CASE}}}")


def test_a_file_that_is_missing_or_not_text_is_refused(file: Path) -> None:
    with pytest.raises(CaseFileError, match="cannot be read"):
        replay_file(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CaseFileError, match="not UTF-8"):
        replay_file(file)
