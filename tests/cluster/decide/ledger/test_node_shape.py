"""What nodes with the same hardware share."""

from cluster.decide.ledger import Ledger, NodeView
from cluster.objects.inventory import Device
from tests.fakes.objects import a100, a6000, a_node, a_pod


def a_view(name: str, *devices: Device, held: tuple[str, ...] = ()) -> NodeView:
    ledger = Ledger()
    ledger.apply_node(a_node(name, *devices))
    if held:
        ledger.apply_pod(a_pod().asks(len(held)).on(name, {"main": held}).obj)
    return ledger.view(name)


def pair(node: str, *, links: int = 4, **more: object) -> tuple[Device, Device]:
    """Two linked devices."""
    first = a100(0, node, links={f"GPU-{node}-1": links}, **more)
    return first, a100(1, node, links={f"GPU-{node}-0": links})


def test_nodes_with_the_same_hardware_share_one_shape_whatever_is_held() -> None:
    shape = a_view("n0", *pair("n0")).shape

    assert a_view("n1", *reversed(pair("n1"))).shape is shape
    assert a_view("n2", *pair("n2", health="unhealthy"), held=("GPU-n2-1",)).shape is shape


def test_another_model_number_of_links_or_numa_node_is_another_shape() -> None:
    builds = [
        a_view("n0", *devices).shape
        for devices in (
            pair("n0"),
            pair("n0", links=2),
            pair("n0", numa=1),
            (*pair("n0"), a100(2)),
            (a6000(0), a6000(1)),
            (a100(0), a100(1)),
        )
    ]

    assert len(set(builds)) == len(builds)


def test_the_devices_of_a_shape_are_in_the_order_of_the_node_s_devices() -> None:
    view = a_view("n0", a100(3, uuid="GPU-a", numa=1), a100(0, uuid="GPU-b", links={"GPU-a": 2}))

    assert view.ordinals == {"GPU-b": 0, "GPU-a": 1}
    first, second = view.shape.devices
    assert (first.index, first.links, second.index, second.numa) == (0, {second.uuid: 2}, 3, 1)
