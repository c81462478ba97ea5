from dataclasses import replace
from itertools import combinations

import msgspec
import pytest

from cluster import names
from cluster.decide.request import gpu_request_of
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from tests.fakes.objects import A100, A6000, PodBuilder, a_booking, a_pod

MIG = "nvidia.com/mig-1g.10gb"


def test_without_a_booking_a_pod_gets_the_models_it_requests() -> None:
    request = gpu_request_of(a_pod().asks(2).wants(A6000, A100).obj)

    assert request.demand == {names.GPU_RESOURCE: 2}
    assert request.models == {A100, A6000}
    assert request.selector.text == f" of model {A100} or {A6000}"
    assert (request.uid, request.hold) == ("uid-p", None)


def test_a_booked_pod_requests_the_model_that_was_booked() -> None:
    assert gpu_request_of(a_pod().asks(1).obj, a_booking()).models == {A100}
    assert gpu_request_of(a_pod().asks(1).wants(A6000, A100).obj, a_booking()).models == {A100}


def test_a_hold_pins_the_pod_while_it_waits() -> None:
    pod = a_pod().asks(1).kept("n0", "GPU-n0-0")
    hold = gpu_request_of(pod.obj).hold

    assert hold is not None
    assert (hold.node, hold.devices) == ("n0", ("GPU-n0-0",))
    assert gpu_request_of(pod.on("n0").obj).hold is None
    assert gpu_request_of(pod.terminating().obj).hold is None
    assert gpu_request_of(pod.with_annotation(names.HOLD, "?").obj).hold is None


def test_a_booking_replaces_the_model_and_keeps_the_pod_s_other_requirements() -> None:
    pod = (
        a_pod()
        .asks(1)
        .wants(A6000)
        .with_annotation(names.NOT_MODEL, "NVIDIA-L40")
        .with_annotation(names.MIN_MEMORY, "60Gi")
        .with_annotation(names.UUID, "GPU-n0-1")
    )
    alone, booked = gpu_request_of(pod.obj), gpu_request_of(pod.obj, a_booking())
    assert (alone.models, booked.models) == ({A6000}, {A100})
    assert booked.selector == replace(alone.selector, models=frozenset({A100}))
    assert (booked.selector.min_memory, booked.selector.uuids) == (60 * 1024, {"GPU-n0-1"})


@pytest.mark.parametrize(
    ("pod", "demand"),
    [
        (a_pod(), {}),
        (a_pod().asks(0), {}),
        (a_pod().asks(2), {names.GPU_RESOURCE: 2}),
        (a_pod().asks(1, container="a").asks(2, container="b"), {names.GPU_RESOURCE: 3}),
        (a_pod().init("first", 2).asks(1), {names.GPU_RESOURCE: 2}),
        (a_pod().init("first", 1).asks(3), {names.GPU_RESOURCE: 3}),
        (a_pod().init("first", 2).init("then", 3).asks(1), {names.GPU_RESOURCE: 3}),
        (a_pod().sidecar("beside", 1).asks(2), {names.GPU_RESOURCE: 3}),
        (a_pod().init("first", 2).sidecar("beside", 1).asks(2), {names.GPU_RESOURCE: 3}),
        (a_pod().asks(1, resource=MIG), {MIG: 1}),
        (
            a_pod().asks(1, container="a").asks(2, container="b", resource=MIG),
            {names.GPU_RESOURCE: 1, MIG: 2},
        ),
        (a_pod().init("first", 2, resource=MIG).asks(1), {MIG: 2, names.GPU_RESOURCE: 1}),
    ],
)
def test_a_pod_holds_the_devices_in_use_at_one_time_including_reused_ones(
    pod: PodBuilder, demand: dict[str, int]
) -> None:
    assert gpu_request_of(pod.obj).demand == demand


@pytest.mark.parametrize(
    ("pod", "mixes"),
    [
        (a_pod().asks(2), False),
        (a_pod().asks(2).wants(A100), False),
        (a_pod().asks(2).wants(A100, A6000), True),
        (a_pod().asks(2).wants(A100, A100), False),
        (a_pod().asks(2).with_annotation(names.UUID, "GPU-1,GPU-2"), True),
        (a_pod().asks(2).with_annotation(names.NOT_UUID, "GPU-1,GPU-2"), False),
        (a_pod().asks(2).with_annotation(names.NOT_MODEL, f"{A100},{A6000}"), False),
        (a_pod().asks(2).kept("n0", "GPU-1", "GPU-2"), True),
    ],
)
def test_gpus_of_several_models_are_given_only_to_a_pod_that_names_them_or_has_them_kept(
    pod: PodBuilder, *, mixes: bool
) -> None:
    assert gpu_request_of(pod.obj).mixes == mixes


def test_a_booking_leaves_one_of_the_models_that_a_pod_names() -> None:
    pod = a_pod().asks(2).wants(A100, A6000).obj
    assert gpu_request_of(pod).mixes
    assert not gpu_request_of(pod, a_booking()).mixes


DIFFERENT = (
    a_pod("a").asks(1),
    a_pod("b").asks(2),
    a_pod("c").asks(1, resource=MIG),
    a_pod("d").asks(1).wants(A100),
    a_pod("e").asks(1).wants(A100, A6000),
    a_pod("f").asks(1).of_priority(5),
    a_pod("g").asks(1).with_annotation(names.MIN_MEMORY, "1Gi"),
    a_pod("h").asks(1).with_annotation(names.NOT_UUID, "GPU-1"),
    a_pod("i"),
)


@pytest.mark.parametrize(("one", "other"), [*combinations(DIFFERENT, 2)])
def test_pods_that_nodes_would_answer_differently_have_different_equivalence_classes(
    one: PodBuilder, other: PodBuilder
) -> None:
    assert gpu_request_of(one.obj).key != gpu_request_of(other.obj).key


@pytest.mark.parametrize(
    "other",
    [
        a_pod("q").asks(1).wants(A6000, A100),
        a_pod("q").asks(1).wants(A100, A6000).of("bob"),
        a_pod("q").asks(1).wants(A100, A6000).of_priority(0),
        a_pod("q").asks(1, container="another").wants(A100, A6000),
        a_pod("q").asks(1).wants("NVIDIA A100-SXM4-80GB", A6000),
        a_pod("q").init("first", 1).asks(1).wants(A100, A6000),
        a_pod("q").asks(1).wants(A100, A6000).with_annotation(names.PLACEMENT, "spread"),
    ],
)
def test_pods_that_nodes_would_answer_alike_share_an_equivalence_class(other: PodBuilder) -> None:
    assert gpu_request_of(other.obj).key == gpu_request_of(a_pod().asks(1).wants(A100, A6000).obj).key


@pytest.mark.parametrize("amount", ["x", "1.5", "-1", "100m"])
def test_an_amount_that_is_not_a_whole_number_is_an_error(amount: str) -> None:
    raw = a_pod().raw
    raw["spec"] = {"containers": [{"name": "m", "resources": {"limits": {names.GPU_RESOURCE: amount}}}]}
    with pytest.raises(QuantityError):
        gpu_request_of(msgspec.convert(raw, Pod))


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}, False),
        ({"key": "another", "operator": "Exists"}, False),
    ],
)
def test_a_pod_that_tolerates_the_taint_of_a_cordon_tolerates_the_cordon(
    toleration: dict[str, str] | None, *, bears: bool
) -> None:
    raw = a_pod().asks(1).raw
    spec = raw["spec"]
    assert isinstance(spec, dict)
    spec["tolerations"] = [toleration] if toleration else []
    assert gpu_request_of(msgspec.convert(raw, Pod)).tolerates_cordon == bears
