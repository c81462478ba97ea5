"""Which pods have the GPUs that would fit a waiting pod, and until when."""

from dataclasses import replace
from datetime import datetime

import msgspec
import pytest

from cluster import names
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.explain.holders import MayName, holders
from cluster.decide.ledger import Ledger
from cluster.decide.request import gpu_request_of
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import Pod
from tests.cluster.decide.explain.snapshots import DAY, NOW, alices, snapshot, tainted
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a_booking, a_node, a_pod, shared_gpu

_WAITING = alices("w").asks(1).wants(A100)
_TOMORROW = "2026-11-24 10:00 UTC"


def _nobody(_pod: Pod) -> bool:
    return False


def _anyone(_pod: Pod) -> bool:
    return True


def _has(name: str, *devices: str, until: datetime | None = None) -> PodBuilder:
    """A pod of bob's that has these devices, all of one node: ``GPU-n0-1``."""
    pod = a_pod(name).of("bob").asks(len(devices)).on(devices[0].split("-")[1], {"main": devices})
    return pod.with_annotation(names.TERMINATE_AT, text_of(until)) if until else pod


def _explained(
    seen: ExplanationSnapshot, pod: PodBuilder = _WAITING, may_name: MayName = _nobody
) -> list[str]:
    return list(holders(pod.obj, gpu_request_of(pod.obj), seen, may_name))


def test_nothing_is_reported_of_an_empty_cluster() -> None:
    assert _explained(snapshot(_WAITING), may_name=_anyone) == []


def test_one_device_of_a_pod_without_a_booking_is_counted_and_its_pod_named() -> None:
    assert _explained(snapshot(_has("q", "GPU-n0-0")), may_name=_anyone) == [
        "Of the GPUs that would fit, pods without a booking use 1.",
        "They are used by default/q.",
    ]


def test_one_device_of_a_booked_pod_is_its_own_until_its_booking_ends() -> None:
    found = _explained(snapshot(_has("q", "GPU-n0-0"), bookings=(a_booking(user="bob"),)), may_name=_anyone)
    assert found == [
        "Of the GPUs that would fit, booked pods use 1 (until 2026-11-25 09:00 UTC).",
        "They are used by default/q until 2026-11-25 09:00 UTC.",
    ]


def test_the_earliest_end_of_several_devices_is_reported() -> None:
    pods = [_has("a", "GPU-n0-0", until=NOW + 2 * DAY), _has("b", "GPU-n0-1", until=NOW + DAY)]
    assert _explained(snapshot(*pods, _has("c", "GPU-n1-0"))) == [
        f"Of the GPUs that would fit, pods without a booking use 3 (the first until {_TOMORROW})."
    ]


def test_each_device_of_a_pod_is_counted_and_the_pod_is_named_once() -> None:
    assert _explained(snapshot(_has("q", "GPU-n0-0", "GPU-n0-1")), may_name=_anyone) == [
        "Of the GPUs that would fit, pods without a booking use 2.",
        "They are used by default/q.",
    ]


@pytest.mark.parametrize(
    ("wants", "number"), [((A100,), 1), ((A6000,), 1), ((A100, A6000), 2), ((), 2), (("NVIDIA-B300",), 0)]
)
def test_only_devices_that_the_pod_accepts_would_fit_it(wants: tuple[str, ...], number: int) -> None:
    pod = alices("w").asks(1).wants(*wants)
    found = _explained(snapshot(_has("q", "GPU-n0-0"), _has("r", "GPU-n0-2")), pod)
    assert found == ([f"Of the GPUs that would fit, pods without a booking use {number}."] if number else [])


def test_a_device_that_is_not_healthy_would_not_fit() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy"), a100(1)))
    pods = [_has("q", "GPU-n0-0"), _has("r", "GPU-n0-1")]
    for pod in pods:
        ledger.apply_pod(pod.obj)
    seen = replace(snapshot(*pods), node_snapshots={"n0": (ledger.view("n0"), "alive")})
    assert _explained(seen, may_name=_anyone)[-1] == "They are used by default/r."


def test_the_holder_of_a_whole_gpu_is_not_reported_to_a_pod_that_wants_mig_devices() -> None:
    pod = alices("w").asks(1, resource="nvidia.com/mig-1g.5gb")
    assert _explained(snapshot(_has("q", "GPU-n0-0")), pod) == []


def test_devices_of_a_node_whose_agent_is_not_alive_would_not_fit() -> None:
    seen = snapshot(_has("q", "GPU-n0-0"), _has("r", "GPU-n1-0"))
    view, _ = seen.node_snapshots["n0"]
    seen = replace(seen, node_snapshots={**seen.node_snapshots, "n0": (view, "unresponsive")})
    assert _explained(seen, may_name=_anyone)[-1] == "They are used by default/r."


def test_devices_of_a_node_that_does_not_suit_the_pod_would_not_fit() -> None:
    seen = snapshot(_has("q", "GPU-n0-0"), _has("r", "GPU-n1-0"))
    seen = replace(seen, nodes={"n0": tainted("n0"), "n1": a_node("n1")})
    assert _explained(seen, may_name=_anyone)[-1] == "They are used by default/r."


def test_devices_of_a_node_that_has_lost_its_inventory_would_not_fit() -> None:
    seen = snapshot(_has("q", "GPU-n0-0"), _has("r", "GPU-n1-0"))
    view, _ = seen.node_snapshots["n0"]
    unpublished = (replace(view, published=False), "alive")
    seen = replace(seen, node_snapshots={**seen.node_snapshots, "n0": unpublished})
    assert _explained(seen, may_name=_anyone)[-1] == "They are used by default/r."


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (("GPU-n0-0",), "1 GPU that would fit is kept for booked pods."),
        (("GPU-n0-0", "GPU-n0-1"), "2 GPUs that would fit are kept for booked pods."),
    ],
)
def test_free_devices_that_are_kept_for_a_booked_pod_are_counted(
    devices: tuple[str, ...], expected: str
) -> None:
    booked = a_pod("booked").of("bob").asks(len(devices)).kept("n0", *devices)
    assert _explained(snapshot(booked), may_name=_anyone) == [expected]


def test_a_kept_device_that_is_still_held_counts_for_its_holder() -> None:
    booked = a_pod("booked").of("bob").asks(1).kept("n0", "GPU-n0-0")
    assert _explained(snapshot(booked, _has("q", "GPU-n0-0")), may_name=_anyone) == [
        "Of the GPUs that would fit, pods without a booking use 1.",
        "They are used by default/q.",
    ]


def test_nothing_is_reported_of_a_kept_device_whose_holder_is_unknown() -> None:
    booked, gone = a_pod("booked").of("bob").asks(1).kept("n0", "GPU-n0-0"), _has("q", "GPU-n0-0")
    seen = snapshot(booked, gone)
    assert _explained(replace(seen, pods={"uid-booked": booked.obj})) == []


@pytest.mark.parametrize(
    ("number", "expected"), [(3, "a, default/b and default/c"), (4, "a, default/b, default/c and 1 more")]
)
def test_three_pods_are_named_and_the_others_counted(number: int, expected: str) -> None:
    devices = ("GPU-n0-0", "GPU-n0-1", "GPU-n1-0", "GPU-n1-1")[:number]
    pods = [_has(name, device) for name, device in zip("abcd", devices, strict=False)]
    assert _explained(snapshot(*pods), may_name=_anyone)[-1] == f"They are used by default/{expected}."


def test_pods_are_named_in_the_order_of_their_ends_then_of_their_names() -> None:
    pods = [
        _has("d", "GPU-n0-0"),
        _has("c", "GPU-n0-1", until=NOW + 2 * DAY),
        _has("b", "GPU-n1-0", until=NOW + DAY),
        _has("a", "GPU-n1-1", until=NOW + 2 * DAY),
    ]
    assert _explained(snapshot(*pods), may_name=_anyone)[-1] == (
        f"They are used by default/b until {_TOMORROW}, default/a until 2026-11-25 10:00 UTC,"
        " default/c until 2026-11-25 10:00 UTC and 1 more."
    )


def test_only_pods_that_the_reader_may_see_are_named() -> None:
    seen = snapshot(_has("q", "GPU-n0-0"), _has("r", "GPU-n0-1"))
    assert (
        _explained(seen, may_name=lambda pod: pod.metadata.name == "r")[-1] == "They are used by default/r."
    )
    assert len(_explained(seen)) == 1


@pytest.mark.parametrize("until", [NOW - DAY, NOW])
def test_an_end_that_has_passed_is_not_reported(until: datetime) -> None:
    assert _explained(snapshot(_has("q", "GPU-n0-0", until=until)), may_name=_anyone) == [
        "Of the GPUs that would fit, pods without a booking use 1.",
        "They are used by default/q.",
    ]


def test_a_terminating_pod_is_reported_with_the_end_of_its_grace_period_only() -> None:
    pod = _has("q", "GPU-n0-0", until=NOW + 2 * DAY)
    seen = snapshot(pod)
    meta = msgspec.structs.replace(pod.obj.metadata, deletion_timestamp=NOW + DAY)
    seen = replace(seen, pods={"uid-q": msgspec.structs.replace(pod.obj, metadata=meta)})
    assert (
        _explained(seen)[0]
        == f"Of the GPUs that would fit, pods without a booking use 1 (until {_TOMORROW})."
    )


def _sharing(*pods: PodBuilder) -> ExplanationSnapshot:
    """One node with two GPUs that can be shared, of 80,000 MiB each."""
    ledger = Ledger()
    ledger.apply_node(a_node("n0", shared_gpu(0), shared_gpu(1)))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    return replace(snapshot(*pods), node_snapshots={"n0": (ledger.view("n0"), "alive")})


def _sharer(name: str, memory: int, index: int = 0, until: datetime | None = None) -> PodBuilder:
    pod = a_pod(name).of("bob").shares(memory=memory).on("n0", {"main": (f"GPU-n0-{index}",)})
    return pod.with_annotation(names.TERMINATE_AT, text_of(until)) if until else pod


def test_all_pods_that_share_a_gpu_are_named_and_it_counts_once_until_the_last_has_left() -> None:
    seen = _sharing(_sharer("a", 8_192, until=NOW + DAY), _sharer("b", 8_192, until=NOW + 2 * DAY))
    assert _explained(seen, may_name=_anyone) == [
        "Of the GPUs that would fit, pods without a booking use 1 (until 2026-11-25 10:00 UTC).",
        f"They are used by default/a until {_TOMORROW} and default/b until 2026-11-25 10:00 UTC.",
    ]


def test_to_a_pod_that_wants_a_share_only_gpus_without_room_are_taken_and_the_most_room_is_said() -> None:
    seen = _sharing(_sharer("a", 70_000), _sharer("b", 8_192, index=1))
    assert _explained(seen, alices("w").shares(memory=16_384), _anyone) == [
        "Of the GPUs that would fit, pods without a booking use 1.",
        "Of those that are shared, the one with the most room has 10000 MiB left, on n0.",
        "They are used by default/a.",
    ]
