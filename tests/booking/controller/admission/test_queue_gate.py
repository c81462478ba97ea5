"""A pod that no booking covers and for which no GPU is free waits behind our scheduling gate, if so set."""

import pytest

from booking.controller.admission.free_gpus import FreeGpus
from booking.controller.admission.review import IN_LINE
from cluster import names
from tests.booking.controller.admission.fake_cluster_view import (
    HUB,
    OURSELVES,
    FakeClusterView,
    Json,
    a_pod,
    reviewed,
)

OURS = {"name": names.QUEUE}
OTHERS = {"name": "kueue.x-k8s.io/admission"}


def gates(pod: Json, creator: str = "bob", has: FreeGpus = "full", **settings: object) -> list[Json] | None:
    """The gates that a new pod gets."""
    after, _ = reviewed(pod, creator, FakeClusterView(has=has), **{"queue_gate": True, **settings})
    found: list[Json] | None = after["spec"].get("schedulingGates")
    return found


def test_an_unbooked_pod_gets_the_gate_and_its_creator_is_warned() -> None:
    pod, outcome = reviewed(a_pod(), "bob", FakeClusterView(has="full"), queue_gate=True)
    assert pod["spec"]["schedulingGates"] == [OURS]
    assert IN_LINE in outcome.warnings


def test_a_pod_behind_the_gate_is_admitted_like_all_others() -> None:
    pod, outcome = reviewed(a_pod(), "bob", FakeClusterView(has="full"), queue_gate=True)
    without, _ = reviewed(a_pod(), "bob", FakeClusterView(has="full"))
    assert outcome.kind == "opportunistic"
    assert {**pod["spec"], "schedulingGates": None} == {**without["spec"], "schedulingGates": None}
    assert pod["metadata"] == without["metadata"]


@pytest.mark.parametrize("has", ["free", "unknown"])
def test_a_pod_gets_no_gate_while_a_gpu_is_free_or_may_be(has: FreeGpus) -> None:
    assert gates(a_pod(), has=has) is None


def test_a_pod_gets_the_gate_while_others_wait_for_the_free_gpus() -> None:
    view = FakeClusterView(has="free", is_for_others=True)
    assert reviewed(a_pod(), "bob", view, queue_gate=True)[0]["spec"]["schedulingGates"] == [OURS]
    assert "schedulingGates" not in reviewed(a_pod(), "bob", view)[0]["spec"]
    notebook = a_pod(annotations={names.HUB_USER: "bob"})
    assert reviewed(notebook, HUB, view, queue_gate=True)[1].kind == "opportunistic"


def test_l6_a_stale_cache_makes_no_pod_wait() -> None:
    pod, outcome = reviewed(a_pod(), "bob", FakeClusterView(has="full"), is_certain=False, queue_gate=True)
    assert "schedulingGates" not in pod["spec"]
    assert IN_LINE not in outcome.warnings


def test_without_the_setting_no_pod_gets_the_gate() -> None:
    view = FakeClusterView(has="full")
    assert "schedulingGates" not in reviewed(a_pod(), "bob", view)[0]["spec"]
    assert view.room_queries == []


def test_a_pod_that_a_booking_covers_gets_no_gate() -> None:
    assert gates(a_pod(), "alice") is None


def test_a_pod_with_a_grant_of_maia_gets_no_gate() -> None:
    granted = a_pod(annotations={names.HUB_USER: "bob", names.TERMINATE_AT: "2026-11-24T09:00:00Z"})
    assert gates(granted, HUB, maia=True, unbooked_notebooks="queue") is None


def test_a_pod_that_names_its_node_gets_no_gate() -> None:
    assert gates(a_pod(spec={"nodeName": "n0"})) is None


def test_a_pod_that_may_start_without_a_gpu_is_stripped_and_gets_no_gate() -> None:
    pod, outcome = reviewed(a_pod(), "bob", FakeClusterView(has="full"), queue_gate=True, unbooked="strip")
    assert outcome.kind == "stripped"
    assert "schedulingGates" not in pod["spec"]


def test_a_pod_that_comes_back_with_its_request_gets_the_gate_again() -> None:
    back = a_pod(annotations={names.USER: "bob", names.RECREATED_FROM: "uid-1"})
    assert gates(back, OURSELVES) == [OURS]


def test_other_scheduling_gates_stay() -> None:
    assert gates(a_pod(spec={"schedulingGates": [OTHERS]})) == [OTHERS, OURS]
    assert gates(a_pod(spec={"schedulingGates": [OTHERS]}), has="free") == [OTHERS]


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("queue_gate", [True, False])
def test_l7_users_cannot_set_our_gate_themselves(*, gpus: int, queue_gate: bool) -> None:
    forged = a_pod(gpus=gpus, spec={"schedulingGates": [OURS, OTHERS]})
    after, outcome = reviewed(forged, "bob", FakeClusterView(has="free"), queue_gate=queue_gate)
    assert after["spec"]["schedulingGates"] == [OTHERS]
    assert outcome.forged == (names.QUEUE,)
    assert gates(a_pod(gpus=gpus, spec={"schedulingGates": [OURS]}), has="free") is None


def of_a_gang(size: str = "4", **more: str) -> Json:
    return a_pod(annotations={names.GANG_SIZE: size, names.GANG: "run", **more})


def test_a_pod_of_a_gang_waits_for_the_others_though_gpus_are_free() -> None:
    pod, outcome = reviewed(of_a_gang(), "bob", FakeClusterView(has="free"), gives_turns=lambda: True)
    assert pod["spec"]["schedulingGates"] == [OURS]
    assert any("together with the other pods of its gang" in text for text in outcome.warnings)
    assert IN_LINE not in outcome.warnings


@pytest.mark.parametrize("pod", [of_a_gang("1"), of_a_gang("all"), a_pod(annotations={names.GANG_SIZE: "4"})])
def test_what_is_no_gang_is_a_pod_like_others_and_its_user_is_warned(pod: Json) -> None:
    after, outcome = reviewed(pod, "bob", FakeClusterView(has="free"), gives_turns=lambda: True)
    assert "schedulingGates" not in after["spec"]
    assert any(names.GANG_SIZE in text for text in outcome.warnings)


def test_gangs_mean_nothing_where_nobody_gives_turns() -> None:
    assert gates(of_a_gang(), has="free") is None
