"""A node with a GPU that is cut into MIG devices beside GPUs that are advertised whole."""

import pytest

from cluster import names
from cluster.decide import predicates
from cluster.objects.inventory import Device
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, PodBuilder, a100, a6000, a_pod

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
CUT = a100(0)


def a_part(number: int, profile: str = "1g.10gb", memory: int = 9728) -> Device:
    """A MIG device of the first GPU."""
    return a100(
        0,
        uuid=f"MIG-{number}",
        model=f"{A100}-MIG-{profile}",
        profile=profile,
        memory=memory,
        parent=CUT.uuid,
    )


@pytest.fixture
def cluster() -> Cluster:
    """GPU 0 is cut into 1g, 1g and 3g; GPU 1 and the A6000 are whole."""
    made = Cluster()
    made.add_node("n0", CUT, a_part(1), a_part(2), a_part(3, "3g.40gb", 40192), a100(1), a6000(2))
    return made


def given(cluster: Cluster, pod: PodBuilder) -> tuple[str, ...]:
    """The devices of a pod that is filtered, bound and taken by its kubelet."""
    created = cluster.create(pod)
    assert cluster.ask(created).node_names == ["n0"]
    assert cluster.bind_to(created) == ""
    cluster.take(pod.name)
    assignment = cluster.given(pod.name) or {}
    return tuple(uuid for devices in assignment.values() for uuid in devices)


def why(cluster: Cluster, pod: PodBuilder) -> str:
    """Why filter keeps the pod off, as bind says it."""
    created = cluster.create(pod)
    assert cluster.ask(created).failed_and_unresolvable_nodes.keys() == {"n0"}
    return cluster.bind_to(created).removeprefix("The pod no longer fits on node n0: ").removesuffix(".")


def test_the_cut_gpu_does_not_count_as_a_whole_gpu_of_the_node(cluster: Cluster) -> None:
    assert why(cluster, a_pod().asks(2).wants(A100)) == (
        f"the pod asks for more GPUs of model {A100} than this node has"
    )
    assert why(cluster, a_pod("three").asks(3)) == predicates.TOO_MANY


def test_a_pod_that_asks_for_both_kinds_gets_neither_where_one_is_missing(cluster: Cluster) -> None:
    given(cluster, a_pod("parts").asks(2, resource=SMALL))
    before = cluster.view().held
    why(cluster, a_pod("both").asks(1, container="whole").asks(1, container="part", resource=SMALL))
    assert cluster.view().held == before


@pytest.mark.parametrize(
    ("model", "expected"),
    [("1g.10gb", ("MIG-1",)), (f"{A100}-MIG-1g.10gb", ("MIG-1",))],
    ids=["profile", "model"],
)
def test_a_mig_device_may_be_named_by_its_profile_or_its_model(
    cluster: Cluster, model: str, expected: tuple[str, ...]
) -> None:
    assert given(cluster, a_pod().asks(1, resource=SMALL).wants(model)) == expected


def test_the_model_of_a_gpu_does_not_match_its_mig_devices(cluster: Cluster) -> None:
    assert why(cluster, a_pod().asks(1, resource=SMALL).wants(A100)) == f"no GPU of model {A100} on this node"


def test_naming_a_cut_gpu_selects_its_mig_devices(cluster: Cluster) -> None:
    assert given(cluster, a_pod().asks(2, resource=SMALL).with_annotation(names.UUID, CUT.uuid)) == (
        "MIG-1",
        "MIG-2",
    )
    assert why(cluster, a_pod("none").asks(1, resource=LARGE).with_annotation(names.NOT_UUID, CUT.uuid))


def test_a_cut_gpu_is_not_given_whole_even_when_it_is_named(cluster: Cluster) -> None:
    assert why(cluster, a_pod().asks(1).with_annotation(names.UUID, CUT.uuid)) == (
        f"no GPU among {CUT.uuid} on this node"
    )


def test_a_hold_of_a_whole_gpu_keeps_no_mig_device(cluster: Cluster) -> None:
    cluster.create(a_pod("booked").asks(1).kept("n0", "GPU-n0-1"))
    assert given(cluster, a_pod("part").asks(1, resource=SMALL)) == ("MIG-1",)
    assert why(cluster, a_pod("whole").asks(1).wants(A100)) == predicates.ON_HOLD


def test_nodes_are_ranked_by_the_devices_that_the_pod_can_have(cluster: Cluster) -> None:
    cluster.add_node("n1", a100(0, "n1"), a100(1, "n1"))
    given(cluster, a_pod("part").asks(2, resource=SMALL))
    prioritize = Prioritize(cluster.state, cluster.clock)
    args = ExtenderArgs(pod=a_pod("next").asks(1).wants(A100).obj, node_names=("n0", "n1"))
    assert {one.host: one.score for one in prioritize(args)} == {"n0": 10, "n1": 5}
