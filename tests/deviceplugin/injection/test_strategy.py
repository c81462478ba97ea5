"""What a container gets, and the one reason to refuse."""

from cluster import names
from deviceplugin.allocation.held_elsewhere import held_elsewhere
from deviceplugin.allocation.preferred import NodeState
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.injection.strategy import ContainerInjection, Strategy, injection_of
from tests.deviceplugin.pods import GPU, held, pod, view

NODES = DeviceNodes(
    {
        "A": (DeviceNode("/dev/nvidia0", "/host/nvidia0"),),
        "B": (DeviceNode("/dev/nvidia1", "/host/nvidia1"),),
    },
    (DeviceNode("/dev/nvidiactl", "/host/nvidiactl"),),
)
VARIABLES = {names.DEVICES_VARIABLE: "A,B"}


def test_cdi_names_the_devices_of_our_specification() -> None:
    given = injection_of({"B", "A"}, Strategy.CDI, NODES)
    assert given == ContainerInjection(VARIABLES, cdi_devices=(f"{names.CDI_KIND}=A", f"{names.CDI_KIND}=B"))


def test_the_environment_names_the_devices_for_nvidia_s_container_runtime() -> None:
    assert injection_of({"B", "A"}, Strategy.ENVIRONMENT, NODES) == ContainerInjection(
        VARIABLES | {names.VISIBLE_DEVICES_VARIABLE: "A,B"}
    )


def test_a_container_gets_its_own_device_nodes_and_the_common_ones() -> None:
    given = injection_of({"B", "A"}, Strategy.DEVICE_NODES, NODES)
    assert given == ContainerInjection(
        VARIABLES, nodes=(*NODES.of_device["A"], *NODES.of_device["B"], *NODES.common)
    )


def test_the_gate_before_the_start_decides_where_the_pod_is_unknown() -> None:
    assert held_elsewhere({"A"}, view(pod("a"), holdings=held(a="A"))) is None
    assert held_elsewhere({"A"}, NodeState(GPU, held(a="A"), None)) is None
    assert held_elsewhere({"A"}, NodeState(GPU, None, ())) is None
