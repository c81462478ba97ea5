"""Devices written on a pod count for what it asks for, whoever wrote them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.placement import device_reuse
from cluster.objects.assignment import (
    Assignment,
    AssignmentError,
    assignment_of,
    decode_assignment,
    devices_of,
    drift_of,
    encode_assignment,
    encode_drift,
    readable_assignment_of,
)
from cluster.objects.demand import demand
from cluster.objects.pods import Pod, container_needs
from tests.fakes.objects import PodBuilder, a_node, a_pod

MIG = "nvidia.com/mig-1g.5gb"

FOUR = tuple(f"GPU-{index}" for index in range(4))


def named(builder: PodBuilder, **containers: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return assignment_of(builder.on("n0", containers).obj) or {}


def test_a_container_has_no_more_than_it_asks_for() -> None:
    assert named(a_pod().asks(2), main=FOUR) == {"main": FOUR[:2]}


def test_a_container_that_asks_for_none_has_none() -> None:
    assert named(a_pod().asks(1), main=FOUR[:1], sidecar=FOUR[1:]) == {"main": FOUR[:1]}
    assert named(a_pod(), main=FOUR) == {}


def test_devices_of_init_containers_are_reused_so_that_the_pod_has_no_more_than_it_can_hold() -> None:
    builder = a_pod().asks(1).init("init-0", 1).init("init-1", 1).init("init-2", 1)
    everything = {"init-0": FOUR[:1], "init-1": FOUR[1:2], "init-2": FOUR[2:3], "main": FOUR[3:]}
    assert len(devices_of(named(builder, **everything))) == 1
    same = dict.fromkeys(everything, FOUR[:1])
    assert named(builder, **same) == same


def test_a_pod_without_the_annotation_has_no_assignment() -> None:
    assert a_pod().asks(1).obj.metadata.annotation(names.ASSIGNED) is None
    assert assignment_of(a_pod().asks(1).obj) is None


def test_a_device_that_is_named_twice_counts_once() -> None:
    assert named(a_pod().asks(2), main=("GPU-0", "GPU-0", "GPU-1")) == {"main": ("GPU-0", "GPU-1")}


def test_app_containers_share_no_more_devices_than_all_of_them_ask_for() -> None:
    builder = a_pod().asks(1, container="a").asks(2, container="b")
    assert named(builder, a=FOUR[:1], b=FOUR[1:]) == {"a": FOUR[:1], "b": FOUR[1:3]}
    assert named(builder, b=FOUR) == {"b": FOUR[:2]}


def test_a_container_that_asks_for_several_resources_has_as_many_as_all_of_them_together() -> None:
    limits = {names.GPU_RESOURCE: "1", MIG: "2"}
    raw = a_pod().with_annotation(names.ASSIGNED, encode_assignment({"main": FOUR})).raw
    body = {**raw, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    assert assignment_of(msgspec.convert(body, Pod)) == {"main": FOUR[:3]}


@pytest.mark.parametrize("amount", ["1.5", "-1", "all"])
def test_a_pod_with_an_unreadable_amount_has_no_assignment(amount: str) -> None:
    raw = a_pod().with_annotation(names.ASSIGNED, encode_assignment({"main": FOUR})).raw
    limits = {names.GPU_RESOURCE: amount}
    body = {**raw, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    assert assignment_of(msgspec.convert(body, Pod)) == {}


class TestUnreadable:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            pytest.param(None, {}, id="missing"),
            pytest.param("", {}, id="empty"),
            pytest.param("?", {}, id="no JSON"),
            pytest.param('{"main": null}', {}, id="null"),
            pytest.param('{"main": ' + "[" * 5_000 + "]" * 5_000 + "}", {}, id="brackets"),
            pytest.param('{"main": []}', {}, id="no device"),
            pytest.param('{"main": ["GPU-0"]}', {"main": ("GPU-0",)}, id="readable"),
        ],
    )
    def test_an_unreadable_assignment_counts_as_none_for_readers_that_cannot_act_on_errors(
        self, text: str | None, found: dict[str, tuple[str, ...]]
    ) -> None:
        builder = a_pod().asks(1)
        pod = builder if text is None else builder.with_annotation(names.ASSIGNED, text)
        assert readable_assignment_of(pod.obj) == found

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"uid": ["GPU-0"]}', '{"uid": {"main": "GPU-0"}}', '{"uid": null}']
    )
    def test_drift_of_another_shape_is_an_error(self, text: str) -> None:
        with pytest.raises(AssignmentError, match=f"The annotation {names.DRIFT} cannot be read"):
            drift_of(a_node("n0", drift=text))

    def test_an_empty_text_is_no_drift(self) -> None:
        assert drift_of(a_node("n0", drift="")) == drift_of(a_node("n0", drift="{}")) == {}


def test_drift_has_the_same_text_in_whatever_order_pods_were_seen() -> None:
    """The agent writes it only where it has changed."""
    one: Assignment = {"main": ("GPU-1",)}
    other: Assignment = {"main": ("GPU-0",)}
    assert encode_drift({"b": other, "a": one}) == encode_drift({"a": one, "b": other})


UUIDS = st.lists(st.sampled_from(FOUR), max_size=6).map(tuple)
CONTAINERS = ("init-0", "init-1", "proxy", "main", "other", "nobody")


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    """A pod on which any devices are written, for any of its containers and one that it does not have."""
    pod = a_pod()
    for name in CONTAINERS[:2]:
        pod = pod.init(name, draw(st.integers(0, 2)))
    pod = pod.sidecar(CONTAINERS[2], draw(st.integers(0, 2)))
    for name in CONTAINERS[3:5]:
        pod = pod.asks(draw(st.integers(0, 2)), container=name)
    return pod.on("n0", draw(st.dictionaries(st.sampled_from(CONTAINERS), UUIDS, min_size=1)))


@given(pods())
def test_l1_no_pod_counts_with_more_than_it_can_hold_whatever_is_written_on_it(builder: PodBuilder) -> None:
    pod = builder.obj
    written = decode_assignment(pod.metadata.annotation(names.ASSIGNED) or "{}")
    counted, needs = assignment_of(pod) or {}, container_needs(pod)
    requested = {need.name: need.count for need in needs}
    assert len(devices_of(counted)) <= sum(demand(needs).values())
    for container, uuids in counted.items():
        assert 0 < len(uuids) <= requested[container]
        assert len(set(uuids)) == len(uuids)
        assert list(uuids) == sorted(uuids, key=written[container].index)


@given(pods())
def test_the_counted_part_of_an_assignment_counts_unchanged_when_written_by_itself(
    builder: PodBuilder,
) -> None:
    counted = assignment_of(builder.obj) or {}
    assert (assignment_of(builder.on("n0", counted).obj) if counted else {}) == counted


@given(pods())
def test_an_assignment_that_follows_the_kubelet_s_reuse_counts_whole(builder: PodBuilder) -> None:
    """Every choice that the extender makes follows the kubelet's reuse, so none of it is cut off."""
    needs, free = container_needs(builder.obj), iter(range(100))
    chosen = device_reuse(needs, lambda _, amount: [f"GPU-{next(free)}" for _ in range(amount)])
    assert (assignment_of(builder.on("n0", chosen).obj) if chosen else {}) == chosen
