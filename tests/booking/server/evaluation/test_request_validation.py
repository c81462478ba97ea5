from datetime import UTC, datetime, timedelta, timezone

import pytest

from booking import durations
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.request_validation import (
    of_demand,
    of_instant,
    of_instants,
    of_namespace,
    of_question,
    of_span,
)
from booking.server.rule_context import RuleContext
from cluster.objects.bookings import Topology
from tests.fakes.objects import A100, A6000
from tests.fakes.records import CLUSTER, a_record, day
from tests.fakes.rule_cases import a_case

SECOND = timedelta(seconds=1)
LAST = durations.after(day(0), Limits().farthest, Limits().tz)


def wrong(model: str, count: int) -> list[str]:
    found = of_demand(model, count, topology="single-node", capacity=CLUSTER)
    return [violation.rule for violation in found]


@pytest.mark.parametrize("namespace", [None, "lab", "a", "1", "a-b-2", "x" * 63])
def test_a_namespace_that_kubernetes_accepts_is_accepted(namespace: str | None) -> None:
    assert not list(of_namespace(namespace))


@pytest.mark.parametrize(
    "namespace", ["", "-a", "a-", "A", "a.b", "a b", "x" * 64, "lab\n", "é", "<b>", "'; --", "a/b"]
)
def test_a_namespace_that_kubernetes_would_refuse_is_reported(namespace: str) -> None:
    assert [violation.rule for violation in of_namespace(namespace)] == ["not-a-namespace"]


def test_the_number_of_an_unknown_model_is_wrong_only_above_the_total_of_all_models() -> None:
    total = sum(CLUSTER.total(model) for model in CLUSTER.models)
    assert wrong("H100", total) == ["unknown-model"]
    assert wrong("H100", total + 1) == ["unknown-model", "more-than-exist"]
    assert wrong("H100", 10**9) == ["unknown-model", "more-than-exist"]


@pytest.mark.parametrize("count", [0, -1, -(10**12)])
def test_fewer_than_one_gpu_is_refused(count: int) -> None:
    assert wrong(A100, count) == ["count-below-one"]


@pytest.mark.parametrize(
    ("model", "closest"),
    [
        ("a6000", A6000),
        ("nvidia-a100-sxm4-80gb", A100),
        ("NVIDIA-A100-SXM-80GB", A100),
        ("H100-PCIe-9", None),
    ],
)
def test_the_closest_model_is_proposed_when_there_is_one(model: str, closest: str | None) -> None:
    (violation,) = of_demand(model, 1, topology="any", capacity=CLUSTER)
    assert ("did you mean" in violation.message) == (closest is not None)
    assert closest is None or f"did you mean {closest}?" in violation.message


# --- how many ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "count", "topology", "found"),
    [
        (A100, 1, "any", []),
        (A100, 4, "single-node", []),
        (A100, 5, "single-node", [("more-than-one-node-has", 4)]),
        (A100, 6, "single-node", [("more-than-one-node-has", 4)]),
        (A100, 6, "any", []),
        (A100, 7, "single-node", [("more-than-exist", 6)]),
        (A100, 7, "any", [("more-than-exist", 6)]),
        (A6000, 2, "single-node", []),
        (A6000, 3, "any", [("more-than-exist", 2)]),
        (A100, 0, "any", [("count-below-one", 1)]),
    ],
)
def test_no_more_than_exist_may_be_booked_and_on_one_node_no_more_than_it_has(
    model: str, count: int, topology: Topology, found: list[tuple[str, int]]
) -> None:
    violations = list(of_demand(model, count, topology=topology, capacity=CLUSTER))
    assert [(violation.rule, violation.limit) for violation in violations] == found
    assert [violation.actual for violation in violations] == [count] * len(found)


def test_no_number_is_reported_for_a_cluster_without_gpus() -> None:
    (violation,) = of_demand(A100, 9, topology="any", capacity=Capacity({}))
    assert violation.message == f"There is no GPU model '{A100}' here: no node reports GPUs at present."
    (violation,) = of_demand("H100", 9, topology="any", capacity=Capacity({A100: {}}))
    assert violation.rule == "unknown-model"


# --- when --------------------------------------------------------------------------------------------

RUNNING = a_record(day(-1), day(2))
PLANNED = a_record(day(1), day(3))


@pytest.mark.parametrize(
    ("moment", "rule"),
    [
        (day(1), None),
        (day(1).astimezone(timezone(timedelta(hours=14))), None),
        (day(1).replace(tzinfo=None), "no-offset"),
        (datetime.max.replace(tzinfo=UTC), None),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "beyond-the-calendar"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "beyond-the-calendar"),
    ],
)
def test_an_instant_needs_an_offset_and_must_exist_in_utc(moment: datetime, rule: str | None) -> None:
    found = [*of_instant("deadline", moment)]
    assert [violation.rule for violation in found] == ([] if rule is None else [rule])
    assert all(violation.message.startswith("The deadline ") for violation in found)
    assert [violation.rule for violation in of_instants(start=moment, end=moment)] == [rule] * (
        2 * len(found)
    )
    assert not list(of_instants(start=None, end=day(1)))


@pytest.mark.parametrize(
    ("model", "start", "end", "found"),
    [
        (None, day(0), day(1), []),
        (A100, day(0), day(1), []),
        (None, day(-9), day(-8), []),
        (A100, day(1), day(1), ["ends-before-it-starts"]),
        ("H100", day(1), day(0), ["unknown-model", "ends-before-it-starts"]),
        ("H100", day(1).replace(tzinfo=None), day(0), ["unknown-model", "no-offset"]),
        (None, day(1).replace(tzinfo=None), day(0).replace(tzinfo=None), ["no-offset", "no-offset"]),
    ],
)
def test_a_query_needs_an_existing_model_and_a_span_that_ends_later(
    model: str | None, start: datetime, end: datetime, found: list[str]
) -> None:
    wrong = of_question(model, start, end, capacity=CLUSTER)
    assert [violation.rule for violation in wrong] == found


@pytest.mark.parametrize(
    ("case", "found"),
    [
        (a_case(day(0), day(1)), []),
        (a_case(day(0) - SECOND, day(1)), ["starts-in-the-past"]),
        (a_case(day(1), day(1)), ["ends-before-it-starts"]),
        (a_case(day(1), day(0)), ["ends-before-it-starts"]),
        (a_case(day(-1), day(-2)), ["ends-before-it-starts", "starts-in-the-past"]),
        (a_case(day(1), LAST), []),
        (a_case(day(1), LAST + SECOND), ["too-far-ahead"]),
        (a_case(LAST + SECOND, LAST), ["ends-before-it-starts", "too-far-ahead"]),
        (a_case(day(0.5), day(2), changing=PLANNED), []),
        (a_case(day(-1), day(2), changing=PLANNED), ["starts-in-the-past"]),
        (a_case(RUNNING.start, day(3), changing=RUNNING), []),
        (a_case(RUNNING.start, day(0) + SECOND, changing=RUNNING), []),
        (a_case(RUNNING.start, day(0), changing=RUNNING), ["ends-in-the-past"]),
        (a_case(RUNNING.start, RUNNING.start, changing=RUNNING), ["ends-before-it-starts"]),
        (a_case(day(1), day(3), changing=RUNNING), ["has-begun"]),
        (a_case(day(-2), day(-1.5), changing=RUNNING), ["has-begun", "ends-in-the-past"]),
        (a_case(RUNNING.end, day(9), changing=RUNNING, now=RUNNING.end), []),
    ],
)
def test_a_span_begins_in_the_future_ends_later_and_lies_within_the_calendar(
    case: RuleContext, found: list[str]
) -> None:
    assert [violation.rule for violation in of_span(case)] == found


def test_a_start_in_the_past_may_be_now_and_a_running_booking_keeps_its_start() -> None:
    (past,) = of_span(a_case(day(-1), day(1)))
    assert (past.earliest_start, past.limit) == (day(0), "2026-03-02T09:00:00Z")
    (begun,) = of_span(a_case(day(1), day(3), changing=RUNNING))
    assert (begun.earliest_start, begun.limit) == (None, "2026-03-01T09:00:00Z")
    assert "is running since 2026-03-01 09:00 UTC" in begun.message
