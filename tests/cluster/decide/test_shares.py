"""Which GPU a pod with a share gets, and why it gets none; gpushare's design document is a test of it."""

from collections.abc import Mapping
from dataclasses import asdict

import pytest

from cluster import names
from cluster.decide import reasons
from cluster.decide.explain import why_waiting
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.amounts import Holding, Room
from cluster.decide.placement import NoPlaceError, choose, choose_shares, would_hold
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.decide.shares import place, rooms
from cluster.objects.assignment import Assignment, encode_drift
from cluster.objects.inventory import Sharing
from cluster.objects.share_request import SPREAD
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod, shared_gpu

CARD = 16_276
"""MiB of each GPU in gpushare's design document."""


def used(amounts: Mapping[int, int], *, gpus: int, memory: int = CARD, slots: int = 16) -> NodeView:
    """A node on which pods have so many MiB of the GPUs with these numbers."""
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *(shared_gpu(n, memory=memory, slots=slots) for n in range(gpus))))
    for index, amount in amounts.items():
        pod = a_pod(f"on-{index}").shares(memory=amount).on("n0", {"main": (f"GPU-n0-{index}",)})
        ledger.apply_pod(pod.obj)
    return ledger.view("n0")


def given(pod: PodBuilder, view: NodeView) -> Assignment:
    return choose(gpu_request_of(pod.obj), view)


def refused(pod: PodBuilder, view: NodeView) -> str | None:
    """The code of the reason; what is chosen agrees with it."""
    request = gpu_request_of(pod.obj)
    reason = rejection(request, view, "alive")
    if reason is None:
        assert choose(request, view)
        return None
    if request.share:
        with pytest.raises(NoPlaceError):
            choose(request, view)
    return reason.code


# --- gpushare's document -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("left", "fits"),
    [((0, 4069), False), ((4069, 4069), False), ((8138, 0), True)],
    ids=["N1: 4069 MiB left", "N2: 8138 MiB left on two GPUs", "N3: 8138 MiB left on GPU0"],
)
def test_a_node_must_have_the_memory_on_one_gpu(left: tuple[int, ...], *, fits: bool) -> None:
    view = used({index: CARD - free for index, free in enumerate(left)}, gpus=2)

    assert refused(a_pod().shares(memory=8138), view) == (None if fits else "share-in-use")


def test_of_the_gpus_that_fit_the_one_with_the_least_memory_left_is_chosen() -> None:
    view = used({0: CARD - 12_207, 1: CARD - 8138, 2: CARD - 4069}, gpus=4)

    assert given(a_pod().shares(memory=8138), view) == {"main": ("GPU-n0-1",)}


# --- which GPU ---------------------------------------------------------------------------------------
def test_a_pod_that_wants_to_be_spread_gets_the_shared_gpu_with_the_most_room() -> None:
    pod = a_pod().shares(memory=100).with_annotation(names.PLACEMENT, SPREAD)

    assert given(pod, used({0: 9000, 1: 500, 2: 7000}, gpus=4)) == {"main": ("GPU-n0-1",)}


def test_a_gpu_is_opened_only_where_no_shared_one_has_room_and_then_the_one_with_the_fewest_links() -> None:
    devices = (
        shared_gpu(0, links={"GPU-n0-1": 12}),
        shared_gpu(1, links={"GPU-n0-0": 12}),
        shared_gpu(2),
    )
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))

    assert given(a_pod().shares(memory=1), ledger.view("n0")) == {"main": ("GPU-n0-2",)}
    ledger.apply_pod(a_pod("q").shares(memory=79_999).on("n0", {"main": ("GPU-n0-0",)}).obj)
    assert given(a_pod().shares(memory=1), ledger.view("n0")) == {"main": ("GPU-n0-0",)}


def test_shares_of_one_container_are_on_different_gpus_and_those_of_two_may_be_on_one() -> None:
    view = used({0: 1}, gpus=3)

    assert given(a_pod().shares(memory=8000, gpus=2), view) == {"main": ("GPU-n0-0", "GPU-n0-1")}
    both = a_pod().shares(memory=8000).shares(memory=8000, container="side")
    assert given(both, view) == {"main": ("GPU-n0-0",), "side": ("GPU-n0-0",)}


def test_shares_are_placed_otherwise_where_the_last_one_would_find_no_room() -> None:
    view = used({0: CARD - 3000, 1: CARD - 5000}, gpus=2)
    pod = a_pod().shares(memory=2000).shares(memory=3000, container="b").shares(memory=3000, container="c")

    assert given(pod, view) == {"main": ("GPU-n0-1",), "b": ("GPU-n0-0",), "c": ("GPU-n0-1",)}


class UntriedRoom(Room):
    """Room of which nobody may take anything for a try."""

    def less(self, holding: Holding) -> Room:
        raise AssertionError(f"{holding} was tried")


@pytest.mark.parametrize("sizes", [[8_200 + index for index in range(12)], [*[8_200] * 9, 1]])
def test_shares_that_are_too_many_or_too_large_together_are_refused_without_trying_every_place(
    sizes: list[int],
) -> None:
    """Filter asks this of every node, and others wait meanwhile."""
    pod = a_pod("many")
    for index, size in enumerate(sizes):
        pod = pod.shares(container=f"c{index}", memory=size)

    view = used({index: 1 + index for index in range(8)}, gpus=8)
    assert refused(pod, view) in {"share-in-use", "share-too-large"}
    request = gpu_request_of(pod.obj)
    found = {
        model: tuple((device, UntriedRoom(**asdict(room))) for device, room in some)
        for model, some in rooms(request, view).items()
    }
    assert place(request, found) is None


def test_a_pod_with_more_shares_at_one_time_than_a_node_has_slots_is_refused_for_that() -> None:
    pod = a_pod("many")
    for index in range(40):
        pod = pod.shares(container=f"init-{index}", kind="init", memory=1 + index)
    assert refused(pod, used({}, gpus=2)) is None
    for index in range(33):
        pod = pod.shares(container=f"app-{index}", memory=1 + index)
    assert refused(pod, used({}, gpus=2)) == "no-slots"


def test_an_app_container_has_the_slot_of_an_init_container_and_a_sidecar_keeps_its_own() -> None:
    pod = (
        a_pod()
        .shares(container="setup", kind="init", memory=3000)
        .shares(container="proxy", kind="sidecar", memory=1000, cores=10)
        .shares(container="later", kind="init", memory=500, cores=40)
        .shares(memory=2000)
    )

    (held,) = would_hold(gpu_request_of(pod.obj), used({}, gpus=1))

    assert (held.memory, held.compute, held.slots) == (3000 + 2000, 50, 2)


def test_a_percentage_is_of_what_the_gpu_offers_and_no_amount_is_all_of_it() -> None:
    view = used({}, gpus=1, memory=1000)

    assert [one.memory for one in would_hold(gpu_request_of(a_pod().shares(percentage=25).obj), view)] == [
        250
    ]
    assert [one.memory for one in would_hold(gpu_request_of(a_pod().shares().obj), view)] == [1000]


# --- why not -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pod", "code"),
    [
        (a_pod().shares(memory=16_277), "share-too-large"),
        (a_pod().shares(memory=1, cores=101), "share-too-large"),
        (a_pod().shares(memory=10**18), "share-too-large"),
        (a_pod().shares(memory=1, gpus=3), "too-many"),
        (a_pod().shares(memory=1, gpus=10**18), "too-many"),
        (a_pod().shares(memory=1).wants(A6000), "no-such-gpu"),
        (a_pod().shares(memory=1).with_annotation(names.SHARING_MODE, "mps"), "share-mode"),
        (a_pod().shares(memory=16_000), "share-in-use"),
        (a_pod().shares(memory=1).asks(1, container="whole"), "share-beside-whole"),
        (a_pod().asks(1), "in-use"),
    ],
)
def test_the_reason_says_why_the_node_has_no_room(pod: PodBuilder, code: str) -> None:
    assert refused(pod, used({0: 1000, 1: 1000}, gpus=2)) == code


def test_no_slot_is_the_reason_where_all_are_taken_or_none_is_offered() -> None:
    assert refused(a_pod().shares(memory=1), used({0: 1}, gpus=1, slots=1)) == "no-slots"
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0)))
    assert refused(a_pod().shares(memory=1), ledger.view("n0")) == "no-slots"


def test_a_gpu_that_is_shared_in_another_mode_is_full_for_the_pod() -> None:
    offer = Sharing(slots=2, memory=8000, modes=("time-slice", "mps"))
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, share=offer)))
    mps = a_pod("q").shares(memory=1).with_annotation(names.SHARING_MODE, "mps")
    ledger.apply_pod(mps.on("n0", {"main": ("GPU-n0-0",)}).obj)
    any_mode = a_pod().shares(memory=1).with_annotation(names.SHARING_MODE, "any")

    assert refused(a_pod().shares(memory=1), ledger.view("n0")) == "share-mode"
    assert choose_shares(gpu_request_of(any_mode.obj), ledger.view("n0")).mode == "mps"


def test_a_share_of_a_gpu_that_nobody_knows_may_be_of_any_gpu_of_the_node() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", shared_gpu(0), shared_gpu(1)))
    ledger.apply_pod(a_pod("q").shares(memory=1).on("n0").obj)

    assert refused(a_pod().shares(memory=1), ledger.view("n0")) == "unaccounted"
    assert refused(a_pod().asks(2), ledger.view("n0")) == "unaccounted"
    assert refused(a_pod().asks(1), ledger.view("n0")) is None
    drift = encode_drift({"uid-q": {"main": ("GPU-n0-1",)}})
    ledger.apply_node(a_node("n0", shared_gpu(0), shared_gpu(1), version=2, drift=drift))
    assert given(a_pod().shares(memory=1), ledger.view("n0")) == {"main": ("GPU-n0-1",)}


def test_gpus_that_are_kept_for_another_pod_are_not_shared() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", shared_gpu(0)))
    ledger.apply_pod(a_pod("q").asks(1).kept("n0", "GPU-n0-0").obj)

    assert refused(a_pod().shares(memory=1), ledger.view("n0")) == "held-for-booked-pod"


def test_without_a_node_that_has_room_the_reason_is_of_the_whole_cluster() -> None:
    views = [used({0: CARD}, gpus=1), used({}, gpus=1, memory=10)]

    reason = why_waiting(gpu_request_of(a_pod().shares(memory=8138).obj), views)

    assert reason is not None
    assert reason.code == reasons.SHARE_IN_USE.code
    assert "8138 MiB of a GPU" in reason


def test_of_several_models_the_one_with_the_least_room_left_is_shared_further() -> None:
    ledger = Ledger()
    small = a6000(1, share=Sharing(slots=2, memory=40_000))
    ledger.apply_node(a_node("n0", shared_gpu(0), small))
    for name, uuid in (("q", "GPU-n0-0"), ("r", "GPU-n0-1")):
        ledger.apply_pod(a_pod(name).shares(memory=1).on("n0", {"main": (uuid,)}).obj)

    assert given(a_pod().shares(memory=1), ledger.view("n0")) == {"main": ("GPU-n0-1",)}
    assert given(a_pod().shares(memory=1).wants(A100), ledger.view("n0")) == {"main": ("GPU-n0-0",)}
