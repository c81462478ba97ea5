import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger, NodeView
from cluster.decide.placement import NoPlaceError, choose
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.objects.assignment import Assignment, devices_of
from cluster.objects.inventory import Device
from tests.cluster.decide import kubelet
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod

MIXED = (a100(0), a100(1), a6000(2), a6000(3))


def a_view(*devices: Device, held: tuple[int, ...] = ()) -> NodeView:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))
    for index in held:
        ledger.apply_pod(a_pod(f"h{index}").asks(1).on("n0", {"main": (f"GPU-n0-{index}",)}).obj)
    return ledger.view("n0")


def chosen(pod: PodBuilder, view: NodeView) -> list[int]:
    return sorted(int(uuid.rsplit("-", 1)[1]) for uuid in devices_of(choose(gpu_request_of(pod.obj), view)))


def linked(index: int, *others: int) -> Device:
    return a100(index, links={f"GPU-n0-{other}": 12 for other in others})


def test_the_requested_model_is_chosen() -> None:
    assert chosen(a_pod().asks(1).wants(A6000), a_view(*MIXED)) == [2]


def test_devices_of_one_pod_are_of_one_model_where_possible() -> None:
    assert chosen(a_pod().asks(2), a_view(*MIXED, held=(0,))) == [2, 3]


def test_models_are_mixed_only_for_a_pod_that_lists_them_and_only_if_necessary() -> None:
    assert chosen(a_pod().asks(3).wants(f"{A100},{A6000}"), a_view(*MIXED)) == [0, 1, 2]
    assert chosen(a_pod().asks(2).wants(f"{A100},{A6000}"), a_view(*MIXED)) == [0, 1]
    for only_one in (a_pod(), a_pod().wants(A100), a_pod().with_annotation(names.NOT_MODEL, "NVIDIA-H100")):
        with pytest.raises(NoPlaceError, match="2 of 3 devices of one model"):
            chosen(only_one.asks(3), a_view(*MIXED))


def test_devices_that_are_listed_one_by_one_may_be_of_several_models() -> None:
    listed = a_pod().asks(2).with_annotation(names.UUID, "GPU-n0-1,GPU-n0-2")
    assert chosen(listed, a_view(*MIXED)) == [1, 2]


def test_containers_of_one_pod_have_devices_of_one_model() -> None:
    two = a_pod().asks(1, container="first").asks(1, container="second")
    assert chosen(two, a_view(*MIXED, held=(0,))) == [2, 3]
    with pytest.raises(NoPlaceError):
        chosen(two, a_view(*MIXED, held=(0, 2)))


def test_the_smaller_group_is_used_first() -> None:
    assert chosen(a_pod().asks(1), a_view(*MIXED, held=(2,))) == [3]


def test_linked_devices_go_together() -> None:
    view = a_view(linked(0, 3), linked(1, 2), linked(2, 1), linked(3, 0), held=(0,))

    assert chosen(a_pod().asks(2), view) == [1, 2]


def test_a_single_device_leaves_linked_pairs_whole() -> None:
    view = a_view(linked(0, 1), linked(1, 0), linked(2, 3), linked(3, 2), held=(3,))

    assert chosen(a_pod().asks(1), view) == [2]


def test_devices_of_one_numa_node_go_together() -> None:
    view = a_view(a100(0, numa=0), a100(1, numa=1), a100(2, numa=0), a100(3, numa=1), held=(0,))

    assert chosen(a_pod().asks(2), view) == [1, 3]


def test_nothing_is_chosen_where_too_little_is_free() -> None:
    with pytest.raises(NoPlaceError):
        choose(gpu_request_of(a_pod().asks(2).wants(A100).obj), a_view(*MIXED, held=(0,)))


def test_a_pod_for_gpus_and_mig_devices_gets_both() -> None:
    mig = a100(2, uuid="MIG-a", model="1g.5gb", parent="GPU-n0-1", profile="1g.5gb")
    pod = a_pod().asks(1, container="a").asks(1, container="b", resource="nvidia.com/mig-1g.5gb")

    assert choose(gpu_request_of(pod.obj), a_view(a100(0), a100(1), mig)) == {
        "a": ("GPU-n0-0",),
        "b": ("MIG-a",),
    }


def test_an_app_container_uses_its_init_containers_device_first() -> None:
    pod = a_pod().init("setup", 1).asks(2)

    assert choose(gpu_request_of(pod.obj), a_view(*MIXED)) == {
        "setup": ("GPU-n0-0",),
        "main": ("GPU-n0-0", "GPU-n0-1"),
    }


def test_a_pod_gets_the_devices_that_are_kept_for_it() -> None:
    pod = a_pod().asks(1, container="a").asks(1, container="b").kept("n0", "GPU-n0-3", "GPU-n0-2")

    assert choose(gpu_request_of(pod.obj), a_view(*MIXED)) == {"a": ("GPU-n0-2",), "b": ("GPU-n0-3",)}


def test_no_other_pod_gets_kept_devices() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *MIXED))
    ledger.apply_pod(a_pod("booked").asks(1).kept("n0", "GPU-n0-0").obj)

    assert chosen(a_pod().asks(1).wants(A100), ledger.view("n0")) == [1]
    with pytest.raises(NoPlaceError):
        choose(gpu_request_of(a_pod().asks(2).wants(A100).obj), ledger.view("n0"))


def test_a_kept_device_that_is_not_free_is_not_given() -> None:
    with pytest.raises(NoPlaceError):
        choose(gpu_request_of(a_pod().asks(1).kept("n0", "GPU-n0-0").obj), a_view(*MIXED, held=(0,)))


# --- properties ------------------------------------------------------------------------------------------

MIG = "nvidia.com/mig-1g.5gb"


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    pod = a_pod(f"p{draw(st.integers(0, 10**9))}")
    for serial in range(draw(st.integers(0, 3))):
        make = draw(st.sampled_from((pod.init, pod.sidecar)))
        pod = make(f"i{serial}", draw(st.integers(0, 2)), resource=draw(resources))
    for serial in range(draw(st.integers(1, 2))):
        pod = pod.asks(draw(st.integers(0, 2)), container=f"c{serial}", resource=draw(resources))
    models = draw(st.sets(st.sampled_from((A100, A6000)), max_size=2))
    return pod.wants(*sorted(models)) if models else pod


@st.composite
def nodes(draw: st.DrawFn) -> list[Device]:
    return [
        draw(st.sampled_from((a100, a6000)))(
            index,
            health=draw(st.sampled_from(("healthy", "healthy", "unhealthy"))),
            numa=draw(st.sampled_from((None, 0, 1))),
            links={f"GPU-n0-{other}": 4 for other in draw(st.sets(st.integers(0, 7), max_size=3))},
            profile=draw(st.sampled_from((None, None, "1g.5gb"))),
        )
        for index in range(draw(st.integers(1, 8)))
    ]


resources = st.sampled_from((names.GPU_RESOURCE, names.GPU_RESOURCE, MIG))


@given(nodes(), st.lists(pods(), max_size=6, unique_by=lambda pod: pod.name))
def test_l1_every_pod_in_turn_gets_free_devices_that_the_kubelet_can_give_it(
    devices: list[Device], arriving: list[PodBuilder]
) -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))
    resource_of = {device.uuid: MIG if device.profile else names.GPU_RESOURCE for device in devices}
    healthy = {device.uuid for device in devices if device.is_healthy}
    for pod in arriving:
        before = ledger.view("n0")
        request = gpu_request_of(pod.obj)
        if rejection(request, before, "alive"):
            continue

        assignment: Assignment = choose(request, before)

        got = devices_of(assignment)
        assert not got & set(before.held), "no device is given twice"
        assert got <= healthy, "no unhealthy device is given"
        assert len(got) == sum(request.demand.values())
        kubelet.check(pod.obj, assignment, resource_of)
        assert choose(request, before) == assignment, "equal questions have equal answers"
        ledger.apply_pod(pod.on("n0", assignment).obj)
        assert all(use == WHOLE for use in ledger.view("n0").held.values())
        assert ledger.view("n0").conflicts == ()


@given(nodes(), st.lists(pods(), max_size=6, unique_by=lambda pod: pod.name), st.data())
def test_devices_that_are_kept_go_to_their_pod_and_to_no_other(
    devices: list[Device], arriving: list[PodBuilder], data: st.DataObject
) -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))
    uuids = [device.uuid for device in devices]
    some = st.lists(st.sampled_from(uuids), unique=True, min_size=1, max_size=3)
    arriving = [pod.kept("n0", *data.draw(some)) if data.draw(st.booleans()) else pod for pod in arriving]
    for pod in arriving:
        ledger.apply_pod(pod.obj)
    for pod in data.draw(st.permutations(arriving)):
        view, request = ledger.view("n0"), gpu_request_of(pod.obj)
        if rejection(request, view, "alive"):
            continue

        got = devices_of(choose(request, view))

        assert all(view.on_hold.get(uuid, request.uid) == request.uid for uuid in got)
        assert request.hold is None or got <= set(request.hold.devices)
        ledger.apply_pod(pod.on("n0", choose(request, view)).at(2).obj)
        assert ledger.view("n0").conflicts == ()


def cut_alike(*held: str) -> NodeView:
    """A node whose GPUs are cut alike, and whose MIG devices are asked for as GPUs."""
    fields = {"model": f"{A100}-MIG-3g.40gb", "profile": "3g.40gb", "resource": names.GPU_RESOURCE}
    parts = [
        a100(index, uuid=f"MIG-{index}-{n}", parent=f"GPU-n0-{index}", **fields)
        for index in (0, 1)
        for n in (0, 1)
    ]
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), *parts[:2], a100(1), *parts[2:]))
    for number, uuid in enumerate(held):
        ledger.apply_pod(a_pod(f"h{number}").asks(1).on("n0", {"main": (uuid,)}).obj)
    return ledger.view("n0")


def test_where_mig_devices_are_gpus_a_pod_that_asks_for_gpus_gets_them() -> None:
    view = cut_alike("MIG-0-0")
    given = devices_of(choose(gpu_request_of(a_pod().asks(3).obj), view))
    assert sorted(given) == ["MIG-0-1", "MIG-1-0", "MIG-1-1"]
    assert rejection(gpu_request_of(a_pod().asks(4).obj), view, "alive") is not None


def test_a_pod_that_needs_a_whole_gpu_of_the_model_gets_no_part_of_one() -> None:
    view = cut_alike()
    assert rejection(gpu_request_of(a_pod().asks(1).wants(A100).obj), view, "alive") is not None
    request = a_pod().asks(1).wants("3g.40gb")
    assert len(list(devices_of(choose(gpu_request_of(request.obj), view)))) == 1
    assert rejection(gpu_request_of(request.obj), view, "alive") is None


def test_nodes_whose_devices_have_different_resources_have_different_shapes() -> None:
    single = cut_alike()
    mixed = Ledger()
    devices = tuple(msgspec.structs.replace(device, resource=None) for device in single.devices)
    mixed.apply_node(a_node("n0", *devices))
    assert single.shape is cut_alike().shape
    assert single.shape is not mixed.view("n0").shape
