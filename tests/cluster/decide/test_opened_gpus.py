"""Numbered GPUs that reservation pods have: nobody has them whole, and shares are given of open ones."""

from collections.abc import Iterable

import pytest

from cluster import names
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.placement import choose
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.objects.pods import Pod
from cluster.objects.reservation_pods import visible_key
from tests.fakes.objects import PodBuilder, a_node, a_pod, shared_gpu

ROOM = 40_000


def share(name: str, memory: int = 1000) -> PodBuilder:
    return a_pod(name).shares(memory=memory).with_annotation(visible_key("main"), "")


def reservation(number: str = "n0-0", **state: str) -> PodBuilder:
    made = a_pod(f"r-{number}").asks(1).with_annotation(names.RESERVES, number)
    for key, value in state.items():
        made = made.with_annotation(f"{names.STATE_DOMAIN}/{key}", value)
    return made.on("n0", {"main": (number,)})


OPEN = reservation(opened="GPU-x")
CLOSING = reservation(opened="GPU-x", closing="2026-11-23T09:00:00Z")


def view(*pods: PodBuilder, gpus: int = 2) -> NodeView:
    ledger = Ledger()
    devices = (shared_gpu(n, uuid=f"n0-{n}", numbered=True, memory=ROOM) for n in range(gpus))
    ledger.apply_node(a_node("n0", *devices))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    return ledger.view("n0")


def why(pod: Pod, node: NodeView) -> str | None:
    found = rejection(gpu_request_of(pod), node, "alive")
    return found.code if found else None


@pytest.mark.parametrize(
    ("pods", "code"),
    [
        ((), "share-unopened"),
        ((reservation(),), "share-unopened"),
        ((OPEN,), None),
        ((CLOSING, a_pod("w").asks(1).on("n0", {"main": ("n0-1",)})), "share-in-use"),
        ((OPEN, share("s", ROOM).on("n0", {"main": ("n0-0",)})), "share-unopened"),
    ],
    ids=["free", "asked for", "open", "closing, and no other", "full, and another is free"],
)
def test_a_share_is_given_of_open_gpus_alone(pods: Iterable[PodBuilder], code: str | None) -> None:
    assert why(share("p").obj, view(*pods)) == code


def test_a_pod_that_would_not_see_its_gpu_gets_no_share() -> None:
    assert why(a_pod("p").shares(memory=1000).obj, view(OPEN)) == "share-unseen"


@pytest.mark.parametrize("of", [OPEN, CLOSING, reservation()], ids=["open", "closing", "asked for"])
def test_nobody_has_a_reserved_gpu_whole_and_nobody_waits_for_its_reservation_pod(of: PodBuilder) -> None:
    node = view(of)
    assert choose(gpu_request_of(a_pod("p").asks(1).obj), node) == {"main": ("n0-1",)}
    assert why(a_pod("p").asks(2).obj, node) == "in-use"
    assert not node.holdings
    assert not node.conflicts


def test_a_reservation_pod_is_given_its_own_number_or_none() -> None:
    asking = a_pod("r").asks(1).with_annotation(names.RESERVES, "n0-1")
    assert choose(gpu_request_of(asking.obj), view()) == {"main": ("n0-1",)}
    assert why(asking.obj, view(a_pod("w").asks(1).on("n0", {"main": ("n0-1",)})))


def test_a_gpu_whose_reservation_pod_is_gone_is_given_to_the_next_one_alone() -> None:
    node = view(share("s").on("n0", {"main": ("n0-0",)}))
    asking = a_pod("r").asks(1).with_annotation(names.RESERVES, "n0-0")
    assert choose(gpu_request_of(asking.obj), node) == {"main": ("n0-0",)}
    assert why(share("p").obj, node) == "share-unopened", "by the other GPU"
    assert why(a_pod("w").asks(2).obj, node) == "in-use"


def test_a_reservation_pod_stays_when_pods_leave_in_thought() -> None:
    node = view(OPEN, share("s", ROOM).on("n0", {"main": ("n0-0",)}))
    assert why(share("p", ROOM).obj, node.without("uid-s")) is None
