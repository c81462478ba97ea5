"""What a case file may say, and how it is read."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from booking.server.cases.file import (
    Booked,
    CaseFile,
    CaseFileError,
    CaseRequest,
    Exempted,
    Maintained,
    OneCase,
    read_cases,
)
from tests.fakes.records import day

SPAN = {"start": "2026-03-02T09:00:00Z", "end": "2026-03-04T09:00:00Z"}
CASE = {"name": "one", "now": "2026-03-02T09:00:00Z", "user": "alice", "request": {"duration": "2d"}}
FILE = {"capacity": {"A100": {"n0": 2}}, "cases": [CASE]}


def read(**more: Any) -> CaseFile:
    """A file as people write it: instants are not quoted."""
    return read_cases(msgspec.yaml.encode({**FILE, **more}).decode().replace("'", ""))


def of_case(**more: Any) -> OneCase:
    (case,) = read(cases=[{**CASE, **more}]).cases
    return case


def refused(**more: Any) -> str:
    with pytest.raises(CaseFileError) as refusal:
        read(**more)
    return str(refusal.value)


def test_a_file_needs_capacity_and_cases_and_nothing_else() -> None:
    case = OneCase(name="one", now=day(0), user="alice", request=CaseRequest(duration="2d"))
    assert read() == CaseFile(capacity={"A100": {"n0": 2}}, cases=(case,))
    assert read(cases=[]).cases == ()


def test_shared_history_and_maintenance_are_at_the_top_and_a_cases_own_are_with_it() -> None:
    bob, node = {"user": "bob", **SPAN}, {"node": "n0", **SPAN}
    shared = read(policy="p.yaml", history=[bob], maintenance=[node])
    assert shared.policy == "p.yaml"
    assert shared.history == of_case(history=[bob]).history == (Booked(user="bob", start=day(0), end=day(2)),)
    assert shared.maintenance == of_case(maintenance=[node]).maintenance
    assert shared.maintenance == (Maintained(node="n0", start=day(0), end=day(2)),)


def test_a_booking_is_one_gpu_of_the_only_model_by_default() -> None:
    plain = Booked(user="bob", start=day(0), end=day(2))
    assert (plain.count, plain.model, plain.id, plain.topology, plain.waived) == (1, "", "", None, False)
    stored = {"user": "bob", **SPAN, "count": 3, "topology": "any", "waived": True, "released": SPAN["end"]}
    (found,) = read(history=[stored]).history
    assert (found.count, found.topology, found.waived, found.released) == (3, "any", True, day(2))


def test_an_exemption_names_its_limits_and_optionally_its_model_and_span() -> None:
    exemptions = of_case(exemptions=[{"limits": {"cooldown": "0d"}}, {"limits": {}, "model": "A100", **SPAN}])
    assert exemptions.exemptions == (
        Exempted(limits={"cooldown": "0d"}),
        Exempted(limits={}, model="A100", start=day(0), end=day(2)),
    )


@pytest.mark.parametrize(
    ("written", "hours"),
    [("2026-03-02T09:00:00Z", 0), ("2026-03-02T09:00:00+01:00", -1), ("2026-03-02T09:00:00-05:30", 5.5)],
)
def test_an_instant_has_an_offset(written: str, hours: float) -> None:
    assert of_case(now=written).now == day(0) + timedelta(hours=hours)


@pytest.mark.parametrize("written", ["2026-03-02T09:00:00", "2026-03-02", "tomorrow", 1, None])
def test_an_instant_without_an_offset_is_refused(written: object) -> None:
    assert "$.cases[0].now" in refused(cases=[{**CASE, "now": written}])


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"capacity": None}, "$.capacity"),
        ({"capacity": {"A100": 2}}, "$.capacity[...]"),
        ({"capacity": {"A100": {"n0": -1}}}, "$.capacity[...][...]"),
        ({"capacity": {"A100": {"n0": 100_001}}}, "$.capacity[...][...]"),
        ({"capacity": {"A100": {"n0": "two"}}}, "$.capacity[...][...]"),
        ({"history": [{"user": "bob", **SPAN, "count": -1}]}, "$.history[0].count"),
        ({"history": [{"user": "bob", **SPAN, "topology": "ring"}]}, "$.history[0].topology"),
        ({"history": [{"user": "bob", "start": SPAN["start"]}]}, "$.history[0]"),
        ({"history": [{**SPAN}]}, "$.history[0]"),
        ({"history": [{"user": "bob", **SPAN, "node": "n0"}]}, "unknown field `node`"),
        ({"maintenance": [{"node": "n0", **SPAN, "gpus": 1}]}, "unknown field `gpus`"),
        ({"cases": [{**CASE, "expect": "longest"}]}, "$.cases[0].expect"),
        ({"cases": [{**CASE, "request": {"gpus": 1}}]}, "unknown field `gpus`"),
        ({"cases": [{**CASE, "request": None}]}, "$.cases[0].request"),
        ({"cases": [{**CASE, "exemptions": [{"limit": {}}]}]}, "$.cases[0].exemptions[0]"),
        ({"cases": [CASE, {**CASE, "user": None}]}, "$.cases[1].user"),
        ({"case": []}, "unknown field `case`"),
    ],
)
def test_an_unexpected_key_or_value_is_refused_with_its_place(more: dict[str, Any], where: str) -> None:
    message = refused(**more)
    assert message.startswith("The case file is refused: ")
    assert message.endswith(".")
    assert where in message
