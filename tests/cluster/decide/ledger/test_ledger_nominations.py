"""Nominated pods in the views of their nodes."""

import pytest

from cluster.decide.ledger import Ledger
from tests.cluster.decide.ledger.test_ledger import G0
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a_node, a_pod

NOMINATED = a_pod().asks(1).nominated_to("n0")


def a_ledger(*pods: PodBuilder) -> Ledger:
    ledger = Ledger()
    for name in ("n0", "n1"):
        ledger.apply_node(a_node(name, a100(0, name)))
        ledger.view(name)
    for pod in pods:
        ledger.apply_pod(pod.obj)
    return ledger


def nominated_uids(ledger: Ledger, node: str = "n0") -> list[str]:
    return [each.uid for each in ledger.view(node).nominated]


def test_the_view_of_a_node_has_its_nominated_pods_by_uid() -> None:
    ledger = a_ledger(a_pod("q").asks(1).nominated_to("n0"), NOMINATED, a_pod("r").asks(1).nominated_to("n1"))

    assert nominated_uids(ledger) == ["uid-p", "uid-q"]
    assert nominated_uids(ledger, "n1") == ["uid-r"]
    assert ledger.nominated == {"uid-p", "uid-q", "uid-r"}
    assert ledger.nomination("uid-r") == "n1"
    assert ledger.nomination("unknown") is None


@pytest.mark.parametrize(
    "after",
    [
        a_pod().asks(1),
        NOMINATED.on("n1"),
        NOMINATED.ended(),
        NOMINATED.terminating(),
        NOMINATED.nominated_to("n1"),
    ],
    ids=["cleared", "bound elsewhere", "ended", "terminating", "for another node"],
)
def test_a_nomination_ends_when_the_pod_no_longer_waits_for_the_node(after: PodBuilder) -> None:
    ledger = a_ledger(NOMINATED)
    assert nominated_uids(ledger) == ["uid-p"]

    ledger.apply_pod(after.at(2).obj)

    assert nominated_uids(ledger) == []


def test_a_pod_that_is_nominated_for_another_node_moves_there() -> None:
    ledger = a_ledger(NOMINATED)

    ledger.apply_pod(NOMINATED.nominated_to("n1").at(2).obj)

    assert nominated_uids(ledger, "n1") == ["uid-p"]
    assert ledger.nomination("uid-p") == "n1"


def test_a_nomination_ends_with_its_pod() -> None:
    ledger = a_ledger(NOMINATED, a_pod("q").asks(1).nominated_to("n0"))
    assert nominated_uids(ledger) == ["uid-p", "uid-q"]

    ledger.forget_pod("uid-p")

    assert nominated_uids(ledger) == ["uid-q"]
    assert ledger.nominated == {"uid-q"}


@pytest.mark.parametrize("node", ["n0", "n1"])
def test_a_pod_whose_bind_is_decided_needs_no_more_room_on_its_nominated_node(node: str) -> None:
    ledger = a_ledger(NOMINATED)
    assert nominated_uids(ledger) == ["uid-p"]

    ledger.assume(NOMINATED.obj, node, {"main": (f"GPU-{node}-0",)})
    assert nominated_uids(ledger) == []
    ledger.forget_assumed("uid-p")

    assert nominated_uids(ledger) == ["uid-p"]


@pytest.mark.parametrize("node", ["n0", "n1"])
def test_a_pod_with_a_hold_needs_no_more_room_on_its_nominated_node(node: str) -> None:
    ledger = a_ledger(NOMINATED)
    assert nominated_uids(ledger) == ["uid-p"]

    ledger.apply_pod(NOMINATED.kept(node, G0).at(2).obj)
    assert nominated_uids(ledger) == []
    ledger.apply_pod(NOMINATED.at(3).obj)

    assert nominated_uids(ledger) == ["uid-p"]


def test_the_same_nomination_again_leaves_the_view_as_it_is() -> None:
    ledger = a_ledger(NOMINATED)
    before = ledger.view("n0")

    ledger.apply_pod(NOMINATED.at(2).obj)

    assert ledger.view("n0") is before


def models(ledger: Ledger) -> list[frozenset[str]]:
    return [each.selector.models for each in ledger.view("n0").nominated]


def test_a_covered_nominated_pod_needs_devices_of_its_booking_s_model() -> None:
    ledger = a_ledger(NOMINATED.wants(A6000), a_pod("q").asks(1).wants(A6000).nominated_to("n0"))
    assert models(ledger) == [{A6000}, {A6000}]

    ledger.serve({"uid-p": A100})
    assert models(ledger) == [{A100}, {A6000}]
    ledger.serve({})

    assert models(ledger) == [{A6000}, {A6000}]


def test_cover_reported_before_a_pod_is_seen_counts_once_it_is() -> None:
    ledger = a_ledger()
    ledger.serve({"uid-p": A100})

    ledger.apply_pod(NOMINATED.wants(A6000).obj)

    assert models(ledger) == [{A100}]


def test_only_nodes_whose_nominated_pods_have_other_cover_change() -> None:
    ledger = a_ledger(NOMINATED, a_pod("q").asks(1).nominated_to("n1"))
    ledger.serve({"uid-p": A100, "uid-q": A100, "uid-waits": A100})
    generation = ledger.generation

    ledger.serve({"uid-p": A6000, "uid-q": A100})

    assert ledger.changed_since(generation) == ["n0"]
