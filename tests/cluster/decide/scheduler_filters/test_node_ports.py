"""Ports of the host: when two pods cannot be on one node."""

import pytest

from cluster.decide.scheduler_filters.existing_pods import Taken, node_pods_of, other_of, ports_of
from cluster.decide.scheduler_filters.node_ports import TAKEN, Ports
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.world import NODES, pod_of

ALL, LOCAL, OUTER = "0.0.0.0", "127.0.0.1", "10.0.0.1"


def neighbour(name: str, *ports: cases.Json) -> cases.Json:
    return cases.a_pod(name, nodeName="n0", containers=[cases.container(ports=list(ports))])


def rejection(ports: tuple[Taken, ...], *others: cases.Json, gone: tuple[str, ...] = ()) -> str | None:
    on_node = node_pods_of(other for body in others if (other := other_of(pod_of(body))))
    leaving = [other for other in on_node.others if other.uid in gone]
    return Ports(ports).rejection(NODES[0], on_node, leaving)


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        ((ALL, "TCP", 80), cases.port(80), TAKEN),
        ((ALL, "TCP", 81), cases.port(80), None),
        ((ALL, "UDP", 80), cases.port(80), None),
        ((ALL, "UDP", 80), cases.port(80, protocol="UDP"), TAKEN),
        ((LOCAL, "TCP", 80), cases.port(80), TAKEN),
        ((ALL, "TCP", 80), cases.port(80, hostIP=LOCAL), TAKEN),
        ((LOCAL, "TCP", 80), cases.port(80, hostIP=LOCAL), TAKEN),
        ((LOCAL, "TCP", 80), cases.port(80, hostIP=OUTER), None),
        ((LOCAL, "TCP", 80), {"containerPort": 80}, None),
    ],
)
def test_two_pods_clash_at_the_same_port_protocol_and_address(
    mine: Taken, theirs: cases.Json, reason: str | None
) -> None:
    assert rejection((mine,), neighbour("q", theirs)) == reason


def test_one_of_several_ports_is_enough_to_clash() -> None:
    ports = ((ALL, "TCP", 1), (ALL, "TCP", 2))

    assert rejection(ports, neighbour("q", cases.port(3), cases.port(2))) == TAKEN
    assert rejection(ports, neighbour("q", cases.port(3)), neighbour("r", cases.port(1))) == TAKEN


def test_a_pod_that_leaves_frees_its_ports_and_no_others() -> None:
    ports = ((ALL, "TCP", 80),)
    both = (neighbour("q", cases.port(80)), neighbour("r", cases.port(80, hostIP=LOCAL)))

    assert rejection(ports, both[0], gone=("uid-q",)) is None
    assert rejection(ports, *both, gone=("uid-q",)) == TAKEN
    assert rejection(ports, *both, gone=("uid-q", "uid-r")) is None


def test_app_containers_and_sidecars_take_ports_and_init_containers_do_not() -> None:
    pod = pod_of(
        cases.a_pod(
            "p",
            containers=[cases.container(ports=[cases.port(1), cases.port(2, hostIP=LOCAL)])],
            initContainers=[
                cases.container("side", restartPolicy="Always", ports=[cases.port(3, protocol="UDP")]),
                cases.container("init", ports=[cases.port(4)]),
            ],
        )
    )

    assert ports_of(pod) == ((ALL, "TCP", 1), (LOCAL, "TCP", 2), (ALL, "UDP", 3))
