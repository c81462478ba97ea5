"""What is taken from kube-scheduler's message on a waiting pod, and what is left out."""

import msgspec
import pytest

from cluster import names
from cluster.decide.explain.scheduler_message import condition_message, of_its_own, whole
from cluster.decide.reasons import ALL, Cause
from cluster.objects.pods import Condition, Pod, PodStatus
from tests.fakes.objects import a_pod

_HEAD = "0/3 nodes are available: "


def _with(*conditions: Condition) -> Pod:
    return msgspec.structs.replace(a_pod().obj, status=PodStatus(conditions=conditions))


def _own(message: str) -> str | None:
    return of_its_own(a_pod().unschedulable(message).obj)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ((), None),
        ((Condition(type="PodScheduled", status="True", message="bound"),), None),
        ((Condition(type="Ready", status="False", message="not yet"),), None),
        ((Condition(type="PodScheduled", status="False"),), None),
        ((Condition(type="PodScheduled", status="False", message=""),), None),
        (
            (
                Condition(type="Ready", status="False", message="not yet"),
                Condition(type="PodScheduled", status="False", message="no"),
            ),
            "no",
        ),
    ],
)
def test_the_message_is_that_of_a_false_pod_scheduled_condition(
    conditions: tuple[Condition, ...], message: str | None
) -> None:
    assert condition_message(_with(*conditions)) == message


def test_a_pod_without_conditions_has_no_message() -> None:
    pod = msgspec.structs.replace(a_pod().obj, status=PodStatus(conditions=None))
    assert (condition_message(pod), whole(pod), of_its_own(pod)) == (None, None, None)


@pytest.mark.parametrize("message", ["no nodes", "no nodes."])
def test_the_whole_message_ends_with_one_full_stop(message: str) -> None:
    assert whole(a_pod().unschedulable(message).obj) == "The scheduler says: no nodes."


@pytest.mark.parametrize(
    "message",
    ["binding was refused", "In short: 0/3 nodes are available: 3 no.", "x/3 nodes are available: 3 no."],
)
def test_a_message_that_is_no_count_of_nodes_is_reported_as_it_is(message: str) -> None:
    assert _own(message) == f"The scheduler says: {message.rstrip('.')}."


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ("3 Insufficient cpu.", "3 nodes: Insufficient cpu"),
        ("1 Insufficient cpu.", "1 node: Insufficient cpu"),
        (
            "12 Insufficient cpu, 1 node(s) were cordoned.",
            "12 nodes: Insufficient cpu; 1 node: node(s) were cordoned",
        ),
        ("1 node(s) had taint {a: b, c: d}, 2 no.", "1 node: node(s) had taint {a: b, c: d}; 2 nodes: no"),
        ("1 a reason\nof two lines, 2 no.", "1 node: a reason\nof two lines; 2 nodes: no"),
    ],
)
def test_each_reason_of_its_own_filters_is_reported_with_its_number_of_nodes(
    reasons: str, expected: str
) -> None:
    assert _own(_HEAD + reasons) == f"The scheduler's own filters say of {expected}."


@pytest.mark.parametrize(
    "tail",
    [
        " preemption: 0/3 nodes are available: 3 No victims found.",
        " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims found.",
        " no new claims to deallocate,\npreemption: 3 of many\nlines.",
    ],
)
def test_what_the_scheduler_adds_about_claims_and_preemption_is_left_out(tail: str) -> None:
    assert _own(f"{_HEAD}3 Insufficient cpu.{tail}") == (
        "The scheduler's own filters say of 3 nodes: Insufficient cpu."
    )


@pytest.mark.parametrize("cause", ALL, ids=lambda cause: cause.code)
def test_reasons_of_the_extender_do_not_count_as_the_scheduler_s_own(cause: Cause) -> None:
    assert _own(f"{_HEAD}2 {cause.reason('x').with_code}.") is None
    assert _own(f"{_HEAD}2 {cause.reason('x').with_code}, 1 Insufficient cpu.") == (
        "The scheduler's own filters say of 1 node: Insufficient cpu."
    )


@pytest.mark.parametrize(
    ("resource", "is_known"),
    [
        (names.GPU_RESOURCE, True),
        (f"{names.MIG_RESOURCE_PREFIX}1g.5gb", True),
        (f"{names.GPU_RESOURCE}.shared", False),
        ("example.com/gpu", False),
    ],
)
def test_too_few_gpus_are_explained_elsewhere_and_other_devices_are_not(
    resource: str, *, is_known: bool
) -> None:
    assert (_own(f"{_HEAD}3 Insufficient {resource}.") is None) == is_known


def test_a_message_about_the_pod_alone_is_reported_without_a_number() -> None:
    assert _own(f"{_HEAD}pod has unbound claims. preemption: 0/3 no.") == (
        "The scheduler's own filters say: pod has unbound claims."
    )


def test_a_message_that_ends_after_the_number_of_nodes_is_ignored() -> None:
    assert _own(_HEAD + ".") is None
