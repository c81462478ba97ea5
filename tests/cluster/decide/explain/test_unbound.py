"""Why a pod is not bound yet, and what would change that."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.booking_plan import PlacementCheck, placement_check
from cluster.decide.booking_plan.inputs import PlanInputs
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.booking_plan.supply import SupplySnapshot
from cluster.decide.claims.kept import kept
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.explain.unbound import Waits, waits
from cluster.decide.ledger import Ledger
from cluster.objects.bookings import Booking
from cluster.objects.claims import ClaimedDevice, PodClaims, ResourceClaim
from cluster.objects.hold import Hold
from cluster.objects.nodes import Node
from tests.cluster.decide.explain.snapshots import DAY, NOW, alices, over, snapshot, tainted
from tests.fakes.objects import (
    A100,
    A6000,
    EPOCH,
    PodBuilder,
    a100,
    a6000,
    a_booking,
    a_node,
    a_pod,
)

_PLANNED = "GPUs of this node are guaranteed to other bookings, which would find no place"
_ELSEWHERE = "another node; or those bookings end or are moved"
_IN_LINE = (
    f"It is in line behind the scheduling gate {names.QUEUE}, and has not been offered to the scheduler."
)
_IN_VAIN = "Nothing is kept for it on n7 and n8 for a while: it did not help there."


def _waits(pod: PodBuilder, seen: ExplanationSnapshot, booking: Booking | None = None) -> Waits:
    return waits(pod.obj, seen, booking, lambda _other: True)


def _full(*devices: str) -> Iterator[PodBuilder]:
    """A pod of bob's on each of these devices, as ``GPU-n0-1``."""
    for uuid in devices:
        yield a_pod(f"q{uuid}").of("bob").asks(1).on(uuid.split("-")[1], {"main": (uuid,)})


# --- gates and what cannot be read ---------------------------------------------------------------------
def test_a_pod_behind_the_gates_of_others_waits_for_their_owners_whatever_is_free() -> None:
    pod = alices().asks(1).behind("a.io/one", names.QUEUE, "b.io/two")
    assert _waits(pod, snapshot(pod)) == Waits(
        ("It has not been offered to the scheduler: scheduling gate a.io/one and b.io/two.",),
        ("It is offered once the owner of a.io/one and b.io/two removes that gate.",),
        is_settled=True,
    )


def test_a_pod_with_an_unreadable_request_waits_for_no_other_pod() -> None:
    resources = {"limits": {names.GPU_RESOURCE: "half"}}
    pod = replace(alices(), apps=({"name": "main", "resources": resources},))
    assert _waits(pod, snapshot()) == Waits(("What it asks for cannot be read.",), is_settled=True)


# --- a hold --------------------------------------------------------------------------------------------
def _kept(pod: PodBuilder, seen: ExplanationSnapshot) -> list[str]:
    found = _waits(pod, seen)
    assert found.would_change == ("It is bound by itself as soon as all of its GPUs are free.",)
    assert (found.is_settled, found.is_hopeless) == (True, False)
    return list(found.because)


def _with_hold(pod: PodBuilder, *victims: str, node: str = "n0", devices: tuple[str, ...]) -> PodBuilder:
    hold = Hold(node=node, devices=devices, victims=victims, at=NOW)
    return pod.with_annotation(names.HOLD, msgspec.json.encode(hold).decode())


def test_a_hold_of_a_node_that_is_gone_is_reported() -> None:
    pod = _with_hold(alices().asks(1), node="gone", devices=("GPU-gone-0",))
    assert _kept(pod, snapshot()) == [
        "1 GPU of node gone is kept for this pod.",
        "There is no node gone now.",
    ]


@pytest.mark.parametrize(
    ("held", "free"), [((), "2 are"), (("GPU-n0-0",), "1 is"), (("GPU-n0-0", "GPU-n0-1"), "0 are")]
)
def test_free_devices_among_the_kept_ones_are_counted(held: tuple[str, ...], free: str) -> None:
    pod = _with_hold(alices().asks(2), devices=("GPU-n0-0", "GPU-n0-1"))
    assert _kept(pod, snapshot(pod, *_full(*held))) == [
        "2 GPUs of node n0 are kept for this pod.",
        f"Of 2 kept for it {free} free already.",
    ]


@pytest.mark.parametrize(("living", "expected"), [(1, "1 pod has"), (2, "2 pods have")])
def test_victims_that_are_still_there_are_counted(living: int, expected: str) -> None:
    pod = _with_hold(alices().asks(2), "uid-a", "uid-b", devices=("GPU-n0-0", "GPU-n0-1"))
    victims = [
        a_pod(name).of("bob").asks(1).on("n0", {"main": (f"GPU-n0-{i}",)}) for i, name in enumerate("ab")
    ]
    found = _kept(pod, snapshot(pod, *victims[:living]))
    assert found[2:] == [f"{expected} still to leave."]


def test_the_reason_why_a_free_kept_device_is_not_given_is_reported() -> None:
    pod = _with_hold(alices().asks(1), devices=("GPU-n0-0",))
    seen = snapshot(pod)
    view, _ = seen.node_snapshots["n0"]
    seen = replace(seen, node_snapshots={"n0": (view, "unresponsive")})
    assert _kept(pod, seen)[-1] == "n0: the GPU agent of the node is unresponsive."


# --- no node can serve it ------------------------------------------------------------------------------
def test_a_pod_that_no_eviction_helps_is_hopeless_and_its_remedy_is_reported() -> None:
    pod = alices().asks(9)
    assert _waits(pod, snapshot(pod)) == Waits(
        ("The pod asks for 9 GPUs, but no node has more than 3.",),
        ("Fewer GPUs, or a larger node.",),
        is_settled=True,
        is_hopeless=True,
    )


def _crowded(pod: PodBuilder) -> ExplanationSnapshot:
    """Every A100 is in use."""
    return snapshot(pod, *_full("GPU-n0-0", "GPU-n0-1", "GPU-n1-0", "GPU-n1-1"))


def test_everything_known_is_reported_of_a_pod_that_waits_for_others_to_leave() -> None:
    pod = alices().asks(1).wants(A100).unschedulable("0/3 nodes are available: 1 Insufficient cpu.")
    pod = pod.with_annotation(names.BARRED, "n8,,n7").with_annotation(names.BUDGETS_SINCE, "noon")
    found = _waits(pod, _crowded(pod))
    assert found.because[:4] == (
        f"All 4 healthy GPUs of model {A100} are in use.",
        "The scheduler's own filters say of 1 node: Insufficient cpu.",
        _IN_VAIN,
        "Disruption budgets alone keep others from leaving for it, since noon.",
    )
    assert found.because[4] == "Of the GPUs that would fit, pods without a booking use 4."
    assert (found.would_change, found.is_settled, found.is_hopeless) == ((), False, False)


def test_what_keeps_others_from_leaving_is_reported_with_and_without_a_hold() -> None:
    text = "The disruption budget vision/keep protects pods that would have to leave for this pod."
    pod = alices().asks(1).wants(A100).with_annotation(names.BLOCKED, text)
    assert text in _waits(pod, _crowded(pod)).because
    kept = pod.kept("n0", "GPU-n0-0")
    assert text in _waits(kept, _crowded(kept)).because


def test_a_gated_pod_is_reported_as_in_line_without_the_scheduler_s_old_message() -> None:
    pod = alices().asks(1).wants(A100).unschedulable("0/3 nodes are available: 1 Insufficient cpu.").behind()
    assert _waits(pod, _crowded(pod)).because[1] == _IN_LINE


# --- node by node --------------------------------------------------------------------------------------
def test_a_pod_with_a_free_gpu_is_reported_as_waiting_for_the_scheduler() -> None:
    pod = alices().asks(1)
    assert _waits(pod, snapshot(pod)) == Waits(
        (
            "There are free GPUs for it on n0 and n1.",
            f"The scheduler {names.SCHEDULER_NAME} has not tried it yet, or is about to bind it.",
        ),
        ("It is bound by itself once the scheduler has tried it.",),
        is_settled=True,
    )


def test_the_scheduler_is_reported_without_a_name_where_the_pod_names_none() -> None:
    pod = alices().asks(1).scheduled_by("")
    assert _waits(pod, snapshot(pod)).because[-1] == (
        "The scheduler has not tried it yet, or is about to bind it."
    )


def test_the_scheduler_s_message_is_reported_after_a_failed_attempt() -> None:
    pod = alices().asks(1).unschedulable("It is odd.")
    seen = replace(snapshot(pod), nodes={"n1": tainted("n1")})
    assert _waits(pod, seen) == Waits(
        (
            "There are free GPUs for it on n0.",
            "n1: the node has a taint that the pod does not tolerate.",
            "The scheduler says: It is odd.",
        ),
        ("n1: a toleration of the node's taint.",),
        is_settled=True,
    )


def test_a_pod_in_line_with_a_free_gpu_is_offered_after_those_before_it() -> None:
    pod = alices().asks(1).behind()
    assert _waits(pod, snapshot(pod)) == Waits(
        ("There are free GPUs for it on n0 and n1.", _IN_LINE),
        ("It is offered to the scheduler by itself, after those that were there before it.",),
        is_settled=True,
    )


@pytest.mark.parametrize(("number", "expected"), [(4, "n0, n1, n2 and n3"), (6, "n0, n1, n2, n3 and 2 more")])
def test_four_nodes_are_named_in_their_order_and_the_others_counted(number: int, expected: str) -> None:
    nodes = {f"n{index}": (a100(0, f"n{index}"),) for index in reversed(range(number))}
    pod = alices().asks(1)
    assert _waits(pod, over(nodes, pod)).because[0] == f"There are free GPUs for it on {expected}."


def test_nodes_without_gpus_are_not_mentioned() -> None:
    pod = alices().asks(1)
    seen = over({"n0": (a100(0),), "n1": ()}, pod)
    found = _waits(pod, seen).because
    assert found[0] == "There are free GPUs for it on n0."
    assert not any("n1" in message for message in found)


def test_an_unreadable_inventory_is_reported_with_its_fault() -> None:
    pod = alices().asks(1)
    seen = snapshot(pod)
    view, _ = seen.node_snapshots["n0"]
    broken = replace(view, published=False, fault="the inventory cannot be read")
    seen = replace(seen, node_snapshots={**seen.node_snapshots, "n0": (broken, "alive")})
    assert "n0: the inventory cannot be read." in _waits(pod, seen).because


def _condition(name: str) -> Node:
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}, Node
    )


def _cordoned(name: str) -> Node:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"unschedulable": True}}, Node)


def _small(name: str) -> Node:
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1"}}}, Node)


@pytest.mark.parametrize(
    ("node", "why", "change", "is_hopeless"),
    [
        (_condition("n0"), "the node is not ready", "the node becomes ready", False),
        (
            _cordoned("n0"),
            "the node is cordoned",
            "`kubectl uncordon`; or a toleration of the node's taint",
            False,
        ),
        (
            tainted("n0"),
            "the node has a taint that the pod does not tolerate",
            "a toleration of the node's taint",
            True,
        ),
        (
            _small("n0"),
            "the pod asks for more CPU, memory or storage than the node has",
            "smaller requests, or a larger node",
            True,
        ),
    ],
)
def test_a_node_that_does_not_suit_is_reported_with_the_remedy(
    node: Node, why: str, change: str, *, is_hopeless: bool
) -> None:
    pod = alices().asks(1).needing(cpu="2")
    seen = replace(over({"n0": (a100(0),)}, pod), nodes={"n0": node})
    assert _waits(pod, seen) == Waits(
        (f"n0: {why}.",), (f"n0: {change}.",), is_settled=is_hopeless, is_hopeless=is_hopeless
    )


def test_a_pod_is_hopeless_only_if_every_node_has_a_lasting_reason() -> None:
    pod = alices().asks(1)
    seen = replace(snapshot(pod), nodes={"n0": tainted("n0"), "n1": _condition("n1")})
    assert not _waits(pod, seen).is_hopeless
    assert _waits(pod, replace(seen, nodes={n: tainted(n) for n in ("n0", "n1")})).is_hopeless


def test_lasting_reasons_are_reported_node_by_node() -> None:
    nodes = {"n0": (a100(0),), "n1": (a6000(0, "n1"),)}
    pod = alices().asks(1).wants(A100)
    found = _waits(pod, replace(over(nodes, pod), nodes={"n0": tainted("n0")}))
    assert found.because[:2] == (
        "n0: the node has a taint that the pod does not tolerate.",
        f"n1: no GPU of model {A100} on this node.",
    )
    assert found.is_hopeless


def test_the_reason_why_no_room_is_made_and_the_holders_of_the_gpus_are_reported() -> None:
    pod = alices().asks(1).wants(A100).with_annotation(names.BARRED, "n7,n8")
    nodes = {"n0": (a100(0),), "n1": (a100(0, "n1"),)}
    seen = replace(over(nodes, pod, *_full("GPU-n0-0")), nodes={"n1": _condition("n1")})
    found = _waits(pod, seen)
    assert found.because == (
        f"n0: not enough GPUs of model {A100} on this node are free.",
        "n1: the node is not ready.",
        _IN_VAIN,
        "Of the GPUs that would fit, pods without a booking use 1.",
        "They are used by default/qGPU-n0-0.",
    )
    assert found.would_change == (
        "n0: a pod there ends, or is evicted for a booked one.",
        "n1: the node becomes ready.",
    )
    assert (found.is_settled, found.is_hopeless) == (False, False)


# --- GPUs that are guaranteed ----------------------------------------------------------------------------
_WHOLE = a_booking("b-2", user="bob", count=2, topology="single-node", places=[{"node": "n0", "count": 2}])


def _check(*bookings: Booking) -> PlacementCheck | None:
    return placement_check(A100, bookings, devices={"n0": 2, "n1": 2}, blocks={}, pins={}, now=NOW)


def _planned_for_others(pod: PodBuilder, *bookings: Booking) -> ExplanationSnapshot:
    check = _check(*bookings)
    return replace(snapshot(pod, bookings=bookings), placement_checks={A100: check} if check else {})


def test_a_node_whose_gpus_are_planned_for_other_bookings_is_reported_with_the_time_of_the_plan() -> None:
    pod, booking = alices().asks(1), a_booking()
    found = _waits(pod, _planned_for_others(pod, booking, _WHOLE), booking)
    assert found.because[:3] == (
        "There are free GPUs for it on n1.",
        f"n0: {_PLANNED}.",
        "n0 is planned for 1 other booking, until 2026-11-25 09:00 UTC.",
    )


def test_only_unfinished_bookings_of_the_model_planned_on_the_node_count_as_others() -> None:
    pod, booking = alices().asks(1), a_booking(places=[{"node": "n0", "count": 1}])
    there = [{"node": "n0", "count": 2}]
    bookings = (
        booking,
        _WHOLE,
        a_booking("b-3", user="bob", start=NOW + DAY, end=NOW + 3 * DAY, places=there),
        a_booking("b-4", user="bob", start=EPOCH, end=NOW, places=there),
        a_booking("b-5", user="bob", model=A6000, end=NOW + 9 * DAY, places=there),
        a_booking("b-6", user="bob", end=NOW + 9 * DAY, places=[{"node": "n1", "count": 1}]),
        a_booking("b-7", user="bob", end=NOW + 9 * DAY),
    )
    seen = replace(
        _planned_for_others(pod, a_booking(), _WHOLE), bookings={one.name: one for one in bookings}
    )
    assert _waits(pod, seen, booking).because[2] == (
        "n0 is planned for 2 other bookings, until 2026-11-26 10:00 UTC."
    )


@pytest.mark.parametrize(
    ("begins_in", "since"), [(timedelta(0), ""), (timedelta(hours=1), "from 2026-11-23 11:00 UTC ")]
)
def test_the_start_of_a_plan_is_reported_where_it_is_in_the_future(begins_in: timedelta, since: str) -> None:
    pod, booking = alices().asks(1), a_booking()
    later = a_booking("b-2", user="bob", start=NOW + begins_in, places=[{"node": "n0", "count": 2}])
    seen = replace(_planned_for_others(pod, booking, _WHOLE), bookings={"b-1": booking, "b-2": later})
    assert _waits(pod, seen, booking).because[2] == (
        f"n0 is planned for 1 other booking, {since}until 2026-11-25 09:00 UTC."
    )


def test_a_node_that_is_both_full_and_planned_for_others_is_reported_as_full() -> None:
    pod, booking = alices().asks(1).wants(A100), a_booking()
    seen = _planned_for_others(pod, booking, _WHOLE)
    full = over({"n0": (a100(0), a100(1))}, pod, *_full("GPU-n0-0", "GPU-n0-1"))
    found = _waits(
        pod, replace(full, placement_checks=seen.placement_checks, bookings=seen.bookings), booking
    )
    assert found.because[0] == f"All 2 healthy GPUs of model {A100} are in use."
    beside = replace(full, node_snapshots={**full.node_snapshots, "n1": seen.node_snapshots["n1"]})
    found = _waits(
        pod, replace(beside, placement_checks=seen.placement_checks, bookings=seen.bookings), booking
    )
    assert f"n0: not enough GPUs of model {A100} on this node are free." in found.because


def test_a_pod_waits_for_bookings_where_every_free_node_is_planned_for_them() -> None:
    pod, booking = alices().asks(1).wants(A100), a_booking()
    seen = _planned_for_others(pod, booking, _WHOLE)
    seen = replace(seen, node_snapshots={"n0": seen.node_snapshots["n0"]})
    found = _waits(pod, seen, booking)
    assert found.because[0] == f"n0: {_PLANNED}."
    assert found.would_change == (f"n0: {_ELSEWHERE}.",)
    assert (found.is_settled, found.is_hopeless) == (False, False)


def test_a_pod_without_a_booking_may_be_evicted_and_so_goes_where_gpus_are_planned_for_others() -> None:
    pod = alices().asks(1)
    seen = _planned_for_others(pod, a_booking(), _WHOLE)
    assert _waits(pod, seen).because[0] == "There are free GPUs for it on n0 and n1."


def test_a_booking_of_a_model_without_other_bookings_may_be_placed_anywhere() -> None:
    pod, booking = alices().asks(1), a_booking()
    seen = replace(_planned_for_others(pod, booking, _WHOLE), placement_checks={})
    assert _waits(pod, seen, booking).because[0] == "There are free GPUs for it on n0 and n1."


def _permanent(pod: PodBuilder) -> ExplanationSnapshot:
    """Bob's booking needs both A100 of n0."""
    seen = snapshot(pod, bookings=(_WHOLE,))
    instant = SupplySnapshot(
        now=NOW,
        views={name: view for name, (view, _) in seen.node_snapshots.items()},
        pods={},
        cover={},
        namespaces={},
        home=names.NAMESPACE,
    )
    inputs = PlanInputs(instant=instant, bookings=seen.bookings, blocks={}, holds={})
    return replace(seen, permanent_pods=PermanentPods(inputs))


def test_a_pod_that_is_never_evicted_is_kept_off_nodes_whose_gpus_are_planned_for_others() -> None:
    pod = alices().asks(1).wants(A100).of_a_daemon_set()
    found = _waits(pod, _permanent(pod))
    assert found.because[:2] == ("There are free GPUs for it on n1.", f"n0: {_PLANNED}.")
    assert not any("is planned for" in message for message in found.because), "it has no booking"


def test_a_pod_that_is_never_evicted_goes_anywhere_while_nothing_is_planned_for_others() -> None:
    pod = alices().asks(1).wants(A100).of_a_daemon_set()
    seen = replace(_permanent(pod), permanent_pods=None)
    assert _waits(pod, seen).because[0] == "There are free GPUs for it on n0 and n1."


def test_a_pod_that_may_be_evicted_goes_where_one_that_stays_may_not() -> None:
    pod = alices().asks(1).wants(A100)
    assert _waits(pod, _permanent(pod)).because[0] == "There are free GPUs for it on n0 and n1."


@pytest.mark.parametrize(("model", "nodes"), [(A6000, "n0 and n1"), (A100, "n1")])
def test_a_pod_that_stays_takes_what_is_not_planned_of_the_models_that_it_accepts(
    model: str, nodes: str
) -> None:
    pod = alices().asks(1).wants(model).of_a_daemon_set()
    assert _waits(pod, _permanent(pod)).because[0] == f"There are free GPUs for it on {nodes}."


def test_parts_of_gpus_are_planned_for_no_booking() -> None:
    pod, booking = alices().asks(1, resource="nvidia.com/mig-1g.5gb").of_a_daemon_set(), a_booking()
    part = a100(5, uuid="MIG-a", parent="GPU-n0-9", profile="1g.5gb", model="NVIDIA-A100-MIG")
    seen = replace(
        over({"n0": (a100(0), a100(1), part)}, pod),
        placement_checks=_planned_for_others(pod, booking, _WHOLE).placement_checks,
        permanent_pods=_permanent(pod).permanent_pods,
    )
    assert _waits(pod, seen).because[0] == "There are free GPUs for it on n0."


def test_it_is_said_that_nobody_knows_what_the_claims_of_a_pod_would_take() -> None:
    pod = alices()
    claims = PodClaims(count=1, problem="its claim has a constraint on several devices", accepted=frozenset())
    found = waits(msgspec.structs.replace(pod.obj, claims=claims), snapshot(), None, lambda _other: True)
    assert claims.problem is not None
    assert claims.problem in found.because[0]
    assert not found.is_hopeless


def test_nothing_helps_a_pod_whose_claims_the_driver_would_refuse() -> None:
    why = "The driver gpu.nvidia.com here gives no sharing by MPS"
    claims = PodClaims(count=1, problem=why, refusal=why, accepted=frozenset())
    found = waits(msgspec.structs.replace(alices().obj, claims=claims), snapshot(), None, lambda _other: True)
    assert why in found.because[0]
    assert found.is_hopeless


def test_a_pod_whose_device_another_claim_has_too_waits_for_that_one() -> None:
    gpu = msgspec.structs.replace(a100(0, "n0"), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
    ledger, held = Ledger(), {"driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}
    ledger.apply_node(a_node("n0", gpu))
    for uid in ("mine", "other"):
        status = {"allocation": {"devices": {"results": [held]}}}
        claim = msgspec.convert({"metadata": {"uid": uid}, "status": status}, ResourceClaim)
        ledger.apply_claim(kept(claim), names.DRA_DRIVER)
    seen = replace(snapshot(), node_snapshots={"n0": (ledger.view("n0"), "alive")})
    claims = PodClaims(count=1, held=(ClaimedDevice(claim="mine", node="n0", device="gpu-0"),))
    found = waits(msgspec.structs.replace(alices().obj, claims=claims), seen, None, lambda _other: True)
    assert "another claim has gpu-0, too" in found.because[0]


def test_a_pod_whose_claims_have_their_devices_waits_only_for_the_bind() -> None:
    held = (ClaimedDevice(claim="c", node="n1", device="gpu-0"),)
    pod = msgspec.structs.replace(alices().obj, claims=PodClaims(count=1, held=held))
    found = waits(pod, snapshot(), None, lambda _other: True)
    assert "on n1" in found.because[0]
