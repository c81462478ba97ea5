"""Law L1 at Allocate: only devices that another living pod certainly holds are refused."""

import pytest

from deviceplugin.allocation.held_elsewhere import held_elsewhere
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import NodeState
from tests.deviceplugin.pods import GPU, MIG, container, held, pod, view

WAITS = pod("w", assignment=["A"])
WAITS_FOR_TWO = pod("w", 2, assignment=["A", "B"])
TAKES_OVER = pod(
    "w",
    assignment={"setup": ["A"], "main": ["A", "B"]},
    init=(container("setup", 1),),
    app=(container("main", 2),),
)
"""Its app container keeps the device of its init container and gets one more."""
HAS_MIG = pod("a", app=(container("main", 0, slices=1),))


def its_setup_has(*devices: str, **others: str) -> PodDevices:
    """A checkpoint in which the init container has been served."""
    return PodDevices({**held(**others).entries, ("w", "setup"): frozenset(devices)})


@pytest.mark.parametrize(
    ("devices", "state"),
    [
        pytest.param("A", view(WAITS), id="no pod has it"),
        pytest.param("A", view(WAITS, pod("a"), holdings=held(a="B")), id="another device is held"),
        pytest.param("A", view(WAITS, holdings=held(gone="A")), id="its holder is gone"),
        pytest.param(
            "A", view(WAITS, pod("a", phase="Succeeded"), holdings=held(a="A")), id="its holder has ended"
        ),
        pytest.param("A B", view(TAKES_OVER, holdings=its_setup_has("A")), id="from its own init container"),
        pytest.param("A", NodeState(GPU, None, (WAITS, pod("a"))), id="the checkpoint cannot be read"),
        pytest.param("A", NodeState(GPU, held(a="A"), None), id="the pods cannot be read"),
        pytest.param("A", view(pod("a"), holdings=held(a="A")), id="no pod waits"),
        pytest.param(
            "A", view(WAITS_FOR_TWO, pod("a"), holdings=held(a="A")), id="another number is waited for"
        ),
        pytest.param("A", view(WAITS, pod("x"), pod("a"), holdings=held(a="A")), id="two pods may be meant"),
    ],
)
def test_devices_that_may_be_free_are_allocated(devices: str, state: NodeState) -> None:
    assert held_elsewhere(devices.split(), state) is None


@pytest.mark.parametrize(
    ("devices", "state", "holders"),
    [
        pytest.param(
            "A",
            view(WAITS, pod("a", phase="Running"), holdings=held(a="A B")),
            "hold: A (held by default/pod-a)",
            id="only what is wanted is named",
        ),
        pytest.param(
            "A B",
            view(WAITS_FOR_TWO, pod("a"), pod("b"), pod("c"), holdings=held(a="A", b="B", c="C")),
            "hold: A, B (held by default/pod-a, default/pod-b)",
            id="all holders are named",
        ),
        pytest.param(
            "A B",
            view(TAKES_OVER, pod("b"), holdings=its_setup_has("A", b="B")),
            "hold: B (held by default/pod-b)",
            id="its own is not held elsewhere",
        ),
        pytest.param(
            "A B",
            view(TAKES_OVER, pod("b"), holdings=its_setup_has("A", b="A")),
            "hold: A (held by default/pod-b)",
            id="it has the device itself and so has another",
        ),
        pytest.param(
            "A",
            view(WAITS, HAS_MIG, holdings=PodDevices(others={MIG: {("a", "main"): frozenset({"A"})}})),
            "hold: A (held by default/pod-a)",
            id="under another resource",
        ),
        pytest.param(
            "A",
            view(WAITS, pod("ghost", started=True), pod("a"), holdings=held(a="A")),
            "hold: A (held by default/pod-a)",
            id="beside a pod that runs without its devices",
        ),
    ],
)
def test_a_device_of_another_living_pod_is_refused_with_the_pod_s_name(
    devices: str, state: NodeState, holders: str
) -> None:
    message = held_elsewhere(devices.split(), state)
    assert message is not None
    assert message.startswith(f"The kubelet offers devices that other living pods {holders}.")
