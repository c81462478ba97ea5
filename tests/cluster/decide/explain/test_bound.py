"""Where a bound pod runs, why it has those GPUs, and which pods may take them."""

from dataclasses import replace
from datetime import datetime

import msgspec
import pytest

from cluster import names
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.explain.bound import leaving, taking, where
from cluster.decide.ledger import Ledger
from cluster.decide.ledger.liveness import AgentState
from cluster.objects.bookings import Booking
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.evict_orders import EvictOrder, encode_order
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.namespaces import Namespace
from tests.cluster.decide.explain.snapshots import DAY, NOW, UNTIL, alices, running, snapshot
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_booking, a_node, a_pod

_ANY_TIME = "A booked pod that finds no free GPU may take its GPUs at any time."
_ORDER = encode_order(EvictOrder(by="bob", reason="The rack is on fire.", at=NOW))
_ORDERED = "bob, an administrator, has ordered it to go: The rack is on fire."


def _where(pod: PodBuilder, seen: ExplanationSnapshot, booking: Booking | None = None) -> list[str]:
    return list(where(pod.obj, seen, booking))


def _here(pod: PodBuilder, *devices: Device, drift: str | None = None) -> list[str]:
    """On a node ``n0`` of these devices."""
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices, drift=drift))
    ledger.apply_pod(pod.obj)
    return _where(pod, replace(snapshot(pod), node_snapshots={"n0": (ledger.view("n0"), "alive")}))


def _taking(
    pod: PodBuilder,
    seen: ExplanationSnapshot | None = None,
    *,
    booking: Booking | None = None,
    granted: datetime | None = None,
) -> list[str]:
    return list(taking(pod.obj, seen or snapshot(pod), booking, granted))


@pytest.mark.parametrize("node", ["gone", "n0"])
def test_a_pod_on_an_unknown_node_or_without_a_holding_holds_no_known_gpu(node: str) -> None:
    pod = alices().asks(1).on(node, {"main": (f"GPU-{node}-0",)})
    seen = snapshot(pod) if node == "gone" else snapshot()
    assert _where(pod, seen) == [f"It is bound to {node}, and holds no GPU that is known."]


def test_of_a_pod_that_the_agent_has_not_reported_the_gpus_are_unknown() -> None:
    assert _where(alices().asks(1).on("n0"), snapshot(alices().asks(1).on("n0"))) == [
        "It is on n0; it is not known which GPUs it holds."
    ]


def test_its_devices_are_reported_in_the_order_of_their_numbers_and_each_model_once() -> None:
    pod = alices().asks(3).on("n0", {"main": ("GPU-n0-2", "GPU-n0-1", "GPU-n0-0")})
    assert _where(pod, snapshot(pod)) == [
        f"It is on n0 and holds GPUs 0, 1 and 2 ({A100} and {A6000}).",
        "GPU Booking chose them when the pod was bound: it takes any model.",
    ]


def test_the_place_of_its_booking_is_reported_only_on_the_node_of_the_plan() -> None:
    there = a_booking(places=[{"node": "n1", "count": 1}, {"node": "n0", "count": 1}])
    elsewhere = a_booking(places=[{"node": "n1", "count": 1}])
    planned = "Its booking is planned on this node."
    assert _where(running(), snapshot(running()), there)[-1] == planned
    assert planned not in _where(running(), snapshot(running()), elsewhere)
    assert planned not in _where(running(), snapshot(running()))


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("unseen", "The GPU agent of the node has not reported yet: nothing is given or taken there."),
        ("unresponsive", "The GPU agent of the node is unresponsive: nothing is given or taken there."),
        (
            "stopping",
            (
                "The GPU agent of the node is stopping, or its kubelet does not know it:"
                " nothing is given or taken there."
            ),
        ),
    ],
)
def test_nothing_is_given_or_taken_on_a_node_whose_agent_is_not_alive(
    agent: AgentState, message: str
) -> None:
    seen = snapshot(running())
    view, _ = seen.node_snapshots["n0"]
    assert _where(running(), replace(seen, node_snapshots={"n0": (view, agent)}))[-1] == message


def test_devices_are_reported_by_their_numbers_whatever_their_uuids_are() -> None:
    pod = alices().asks(2).on("n0", {"main": ("GPU-a", "GPU-b")})
    found = _here(pod, a100(0, uuid="GPU-b"), a6000(1, uuid="GPU-a"))
    assert found == [
        f"It is on n0 and holds GPUs 0 and 1 ({A100} and {A6000}).",
        "GPU Booking chose them when the pod was bound: it takes any model.",
    ]


def test_devices_no_longer_known_to_the_node_are_reported_by_uuid_in_their_order() -> None:
    lost = tuple(f"GPU-{letter}" for letter in "zyxwvu")
    pod = alices().asks(7).on("n0", {"main": (*lost, "GPU-n0-0")})
    assert _here(pod, a100(0)) == [
        f"It is on n0 and holds GPU 0 ({A100}).",
        "Of what it was given, n0 does not know GPU-u, GPU-v, GPU-w, GPU-x, GPU-y and GPU-z any more.",
        "GPU Booking chose them when the pod was bound: it takes any model.",
    ]


def test_only_lost_devices_are_reported_where_the_node_knows_none_of_the_pod_s() -> None:
    assert _here(alices().asks(1).on("n0", {"main": ("GPU-z",)}), a100(0)) == [
        "Of what it was given, n0 does not know GPU-z any more.",
        "GPU Booking chose it when the pod was bound: it takes any model.",
    ]


@pytest.mark.parametrize(("gpus", "more"), [(2, "1 more GPU"), (3, "2 more GPUs")])
def test_the_number_of_unidentified_devices_is_reported(gpus: int, more: str) -> None:
    found = _here(alices().asks(gpus).on("n0"), a100(0), drift='{"uid-p":{"main":["GPU-n0-0"]}}')
    assert found[:2] == [
        f"It is on n0 and holds GPU 0 ({A100}).",
        f"Of {more} that it asks for, it is not known which it holds.",
    ]


@pytest.mark.parametrize(
    ("reason", "expected"), [("XID 79.", "XID 79"), ("XID 79", "XID 79"), (None, "no reason is known")]
)
def test_a_device_that_is_not_healthy_is_reported_with_its_reason(reason: str | None, expected: str) -> None:
    pod = alices().asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")})
    found = _here(pod, a100(0), a100(1, health="unhealthy", reason=reason))
    assert found[:2] == [
        f"It is on n0 and holds GPUs 0 and 1 ({A100}).",
        f"GPU 1 is not healthy: {expected}.",
    ]


def _part(model: str) -> list[str]:
    part = msgspec.structs.replace(a100(0), uuid="MIG-a", parent="GPU-n0-9", profile="1g.5gb", model=model)
    pod = alices().asks(1, resource="nvidia.com/mig-1g.5gb").on("n0", {"main": ("MIG-a",)})
    return _here(pod, part)


def test_a_part_of_a_gpu_is_reported_with_its_profile_once() -> None:
    assert _part(A100)[0] == f"It is on n0 and holds GPU 0 ({A100}, 1g.5gb)."
    assert _part(f"{A100}-MIG-1g.5gb")[0] == f"It is on n0 and holds GPU 0 ({A100}-MIG-1g.5gb)."


def test_a_pod_without_an_assignment_is_reported_as_bound_by_somebody_else() -> None:
    foreign = "The kubelet chose among its GPUs: the pod was bound by somebody else than GPU Booking."
    reported = '{"uid-p":{"main":["GPU-n0-0"]}}'
    assert foreign in _here(alices().asks(1).on("n0"), a100(0), drift=reported)
    unreadable = alices().asks(1).on("n0").with_annotation(names.ASSIGNED, "{")
    assert foreign in _here(unreadable, a100(0), drift=reported)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (("GPU-n0-0",), "The kubelet gave it others than the GPU that was chosen."),
        (("GPU-n0-0", "GPU-n0-1"), "The kubelet gave it others than the GPUs that were chosen."),
    ],
)
def test_devices_other_than_those_chosen_are_reported(chosen: tuple[str, ...], message: str) -> None:
    pod = alices().asks(len(chosen)).on("n0", {"main": chosen})
    assert message in _here(pod, a100(0), a100(1), a100(2), drift='{"uid-p":{"main":["GPU-n0-2"]}}')


@pytest.mark.parametrize(
    ("pod", "booking", "criterion"),
    [
        (running(), None, "it takes any model"),
        (running().wants(A100), None, f"it asks for {A100}"),
        (running().wants(A6000, A100), None, f"it asks for {A100} or {A6000}"),
        (running().wants(A6000), a_booking(), f"its booking is for {A100}"),
        (
            running().wants(A100).with_annotation(names.MIN_MEMORY, "40960"),
            None,
            f"it asks for a GPU of model {A100} with at least 40960 MiB",
        ),
        (
            running().with_annotation(names.MIN_MEMORY, "40960"),
            None,
            "it asks for a GPU with at least 40960 MiB",
        ),
    ],
)
def test_the_criterion_by_which_devices_were_chosen_is_reported(
    pod: PodBuilder, booking: Booking | None, criterion: str
) -> None:
    assert _where(pod, snapshot(pod), booking)[1] == (
        f"GPU Booking chose it when the pod was bound: {criterion}."
    )


def test_any_booked_pod_may_take_the_gpus_of_one_without_a_booking() -> None:
    assert _taking(running()) == [_ANY_TIME]


def test_no_pod_takes_the_gpus_of_a_booked_pod_before_its_booking_ends() -> None:
    assert _taking(running(), booking=a_booking(), granted=NOW + DAY) == [UNTIL]


@pytest.mark.parametrize(("granted", "counts"), [(NOW - DAY, False), (NOW, False), (NOW + DAY, True)])
def test_a_grant_of_maia_counts_until_its_end(granted: datetime, *, counts: bool) -> None:
    word = "MAIA has granted it its GPUs until 2026-11-24 10:00 UTC; afterwards a booked pod may take them."
    assert _taking(running(), granted=granted) == [word if counts else _ANY_TIME]


def _protected() -> ExplanationSnapshot:
    meta = a_pod("default").with_annotation(names.NEVER_EVICT, "true").obj.metadata
    return replace(snapshot(running()), namespaces={"default": Namespace(metadata=meta)})


def test_lasting_protection_is_reported_before_a_grant_of_maia() -> None:
    assert _taking(running(), _protected(), granted=NOW + DAY) == [
        (
            "Its GPUs are not taken for bookings: an administrator has said that no pod of the namespace"
            " default is evicted."
        )
    ]


def test_pods_of_the_products_own_namespace_keep_their_gpus() -> None:
    assert _taking(running(), replace(snapshot(running()), home="default")) == [
        "Its GPUs are not taken for bookings: pods of the namespace default are never evicted."
    ]


def test_a_pod_whose_devices_are_unknown_keeps_them() -> None:
    assert _taking(alices().asks(1).on("n0")) == [
        "Its GPUs are not taken for bookings: it is not known which devices it holds."
    ]


def _needed() -> ExplanationSnapshot:
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-p",), at=NOW)
    waiting = a_pod("w").of("bob").asks(1)
    return snapshot(running(), waiting, holds={"uid-w": hold})


def test_a_pod_that_a_hold_names_must_leave_even_if_it_is_booked() -> None:
    must = ["A booked pod needs its GPUs: it must leave."]
    assert _taking(running(), _needed()) == must
    assert _taking(running(), _needed(), booking=a_booking()) == must


def test_a_notice_is_quoted_and_comes_before_everything_but_an_order() -> None:
    noticed = running().with_annotation(names.NOTICE, "It must go by noon.")
    assert _taking(noticed, _needed()) == ["It must go by noon."]
    assert _taking(noticed, booking=a_booking()) == ["It must go by noon."]
    assert _taking(noticed.with_annotation(names.EVICT, _ORDER)) == [_ORDERED, "It must go by noon."]


def test_an_administrator_s_order_is_reported_before_the_protection_by_a_booking() -> None:
    ordered = running().with_annotation(names.EVICT, _ORDER)
    assert _taking(ordered, booking=a_booking()) == [_ORDERED, UNTIL]


def test_an_unreadable_order_is_not_reported() -> None:
    assert _taking(running().with_annotation(names.EVICT, "{")) == [_ANY_TIME]


def _leaving(pod: PodBuilder, *, since: datetime | None) -> list[str]:
    meta = msgspec.structs.replace(pod.obj.metadata, deletion_timestamp=since)
    return list(leaving(msgspec.structs.replace(pod.obj, metadata=meta), snapshot()))


def test_a_terminating_pod_holds_its_gpus_until_its_containers_have_ended() -> None:
    assert _leaving(running(), since=NOW) == [
        "It is terminating, and holds its GPUs until its containers have ended."
    ]


def test_a_pod_that_terminates_for_too_long_may_hang_with_its_node() -> None:
    assert _leaving(running(), since=NOW - DAY) == [
        "It has been terminating for too long: its node may hang. Its GPUs are not counted on."
    ]


def test_the_order_on_a_leaving_pod_is_reported_first() -> None:
    ordered = running().with_annotation(names.EVICT, _ORDER)
    assert _leaving(ordered, since=NOW)[0] == _ORDERED
    assert len(_leaving(ordered, since=NOW)) == 2


def test_a_pod_that_is_not_terminating_has_no_message_about_leaving() -> None:
    assert _leaving(running(), since=None) == []


@pytest.mark.parametrize(("phase", "is_said"), [("Pending", True), ("Running", False)])
def test_that_the_driver_refuses_what_a_pod_was_bound_to_is_said_while_it_does_not_run(
    *, phase: str, is_said: bool
) -> None:
    gpu = msgspec.structs.replace(a100(0), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
    held = (ClaimedDevice(claim="c", node="n0", device="gpu-0"),)
    claims = PodClaims(count=1, held=held, refused=(("It gives no sharing by MPS", ""),))
    pod = alices().on("n0").obj
    status = msgspec.structs.replace(pod.status, phase=phase)
    pod = msgspec.structs.replace(pod, claims=claims, status=status)
    ledger = Ledger()
    ledger.apply_node(a_node("n0", gpu))
    ledger.apply_pod(pod)
    seen = replace(snapshot(), node_snapshots={"n0": (ledger.view("n0"), "alive")})
    assert ("no sharing by MPS" in " ".join(where(pod, seen, None))) is is_said
