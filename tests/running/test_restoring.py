"""What a test has changed and not restored is reported, thing by thing."""

import dataclasses
from typing import Any

import pytest

from devcluster.control import Request
from tests.e2e.restoring import ClusterState, Machine, differences

KUBELET = Request(argv=["kubelet"], log="/log", node="node-a")
MACHINE = Machine(
    ready=True, unschedulable=False, taints=frozenset(), allocatable="1", healthy=frozenset({"GPU-0"})
)
WAS = ClusterState(daemons={"kubelet": KUBELET}, machines={"node-a": MACHINE}, gpus={"node-a": {"init": "0"}})


def with_machine(**changed: Any) -> ClusterState:
    return dataclasses.replace(WAS, machines={"node-a": dataclasses.replace(MACHINE, **changed)})


def test_an_unchanged_state_is_not_reported() -> None:
    assert differences(WAS, dataclasses.replace(WAS)) == []


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (dataclasses.replace(WAS, daemons={}), "kubelet does not run"),
        (
            dataclasses.replace(
                WAS, daemons={"kubelet": Request(argv=["kubelet"], log="/log", node="node-a", env={"A": "B"})}
            ),
            "kubelet runs with other arguments or settings",
        ),
        (dataclasses.replace(WAS, daemons={"kubelet": KUBELET, "other": KUBELET}), "other runs"),
        (with_machine(ready=False), "node node-a was "),
        (with_machine(unschedulable=True), "node node-a was "),
        (with_machine(taints=frozenset({("a", "NoExecute")})), "node node-a was "),
        (with_machine(allocatable="0"), "node node-a was "),
        (with_machine(healthy=frozenset()), "node node-a was "),
        (dataclasses.replace(WAS, machines={}), "node node-a was "),
        (dataclasses.replace(WAS, gpus={"node-a": {"init": "9"}}), "the GPUs of node-a differ"),
        (dataclasses.replace(WAS, pods=frozenset({"x/a"})), "pod x/a is left over"),
        (dataclasses.replace(WAS, bookings=frozenset({"b-1"})), "booking b-1 is not over"),
        (dataclasses.replace(WAS, leaving=frozenset({"x"})), "namespace x stays"),
    ],
)
def test_every_difference_is_a_message(now: ClusterState, expected: str) -> None:
    (message,) = differences(WAS, now)
    assert message.startswith(expected)


@pytest.mark.parametrize(
    ("changed", "complete"),
    [({}, True), ({"ready": False}, False), ({"allocatable": "0"}, False), ({"healthy": frozenset()}, False)],
)
def test_a_node_takes_pods_once_all_its_gpus_are_advertised(
    changed: dict[str, Any], *, complete: bool
) -> None:
    assert dataclasses.replace(MACHINE, **changed).is_complete(1) is complete
