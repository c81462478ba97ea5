"""What a container gets, and the one reason to refuse."""

from cluster import names
from deviceplugin.allocate import Answer, DeviceNode, Nodes, Strategy, answer, held_elsewhere
from deviceplugin.caller import View
from deviceplugin.checkpoint import Holdings
from tests.deviceplugin.pods import GPU, container, held, pod, view

NODES = Nodes(
    {
        "A": (DeviceNode("/dev/nvidia0", "/host/nvidia0"),),
        "B": (DeviceNode("/dev/nvidia1", "/host/nvidia1"),),
    },
    (DeviceNode("/dev/nvidiactl", "/host/nvidiactl"),),
)
TOLD = {names.DEVICES_VARIABLE: "A,B"}


def test_cdi_names_the_devices_of_our_specification() -> None:
    given = answer({"B", "A"}, Strategy.CDI, NODES)
    assert given == Answer(TOLD, cdi_devices=(f"{names.CDI_KIND}=A", f"{names.CDI_KIND}=B"))


def test_the_environment_names_the_devices_for_the_runtime_of_nvidia() -> None:
    assert answer({"B", "A"}, Strategy.ENVIRONMENT, NODES) == Answer(
        TOLD | {names.VISIBLE_DEVICES_VARIABLE: "A,B"}
    )


def test_device_nodes_are_the_own_ones_and_the_common_ones() -> None:
    given = answer({"B", "A"}, Strategy.DEVICE_NODES, NODES)
    assert given == Answer(TOLD, nodes=(*NODES.of_device["A"], *NODES.of_device["B"], *NODES.common))


def test_a_device_that_stands_nowhere_may_be_given() -> None:
    assert held_elsewhere({"B"}, view(pod("a"), pod("b"), holdings=held(a="A"))) is None


def test_a_device_of_a_pod_that_has_ended_may_be_given() -> None:
    ended = pod("a", phase="Succeeded")
    assert held_elsewhere({"A"}, view(ended, pod("b"), holdings=held(a="A"))) is None
    assert held_elsewhere({"A"}, view(pod("b"), holdings=held(a="A"))) is None


def test_a_device_of_the_pods_own_init_container_may_be_given() -> None:
    shape = pod("a", init=(container("setup", 1),))
    holdings = Holdings({("a", "setup"): frozenset("A")})
    assert held_elsewhere({"A"}, view(shape, holdings=holdings)) is None


def test_a_device_of_another_living_pod_is_refused_with_its_name() -> None:
    sentence = held_elsewhere({"A", "B"}, view(pod("a"), pod("b", 2), holdings=held(a="A")))
    assert sentence is not None
    assert "other living pods hold: A (held by default/pod-a)" in sentence


def test_where_the_pod_is_unknown_the_gate_before_the_start_decides() -> None:
    assert held_elsewhere({"A"}, view(pod("a"), holdings=held(a="A"))) is None
    assert held_elsewhere({"A"}, View(GPU, held(a="A"), None)) is None
    assert held_elsewhere({"A"}, View(GPU, None, ())) is None
