"""Objects share what is equal, and nothing else about them differs."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cluster.objects.kept_once import MOST, Once
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node, NodeStatus
from cluster.objects.pods import Pod, PodSpec, PodStatus, container_needs
from tests.fakes.objects import a100, a_node, a_pod

TEXTS = st.sampled_from(["", "a", "b"])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu"]), st.sampled_from(["1", 1, "2"]))
RESOURCES = st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS})
CONTAINER = st.fixed_dictionaries({"name": TEXTS}, optional={"resources": RESOURCES, "restartPolicy": TEXTS})
CONDITION = st.fixed_dictionaries({"type": TEXTS, "status": TEXTS}, optional={"message": TEXTS})
LABELS = st.dictionaries(TEXTS, TEXTS)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"namespace": TEXTS}, optional={"labels": LABELS, "annotations": LABELS}
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": st.lists(CONTAINER, max_size=2),
                "initContainers": st.lists(CONTAINER, max_size=2),
                "nodeName": TEXTS,
                "nodeSelector": LABELS,
                "overhead": AMOUNTS,
            },
        ),
        "status": st.fixed_dictionaries(
            {}, optional={"phase": TEXTS, "conditions": st.lists(CONDITION, max_size=2)}
        ),
    }
)


def _as(kind: Any, raw: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(raw), type=kind)


@given(st.lists(PODS, max_size=5))
def test_a_pod_says_what_it_says_whichever_came_before_it(raws: list[dict[str, object]]) -> None:
    for raw in raws:
        pod = _as(Pod, raw)
        parts = _as(Meta, raw["metadata"]), _as(PodSpec, raw["spec"]), _as(PodStatus, raw["status"])
        assert (pod.metadata, pod.spec, pod.status) == parts
        assert _as(Pod, pod) == pod


def test_pods_of_one_template_have_the_same_containers_and_requests() -> None:
    one, two = a_pod("one").asks(2).obj, a_pod("two").asks(2).obj
    assert one.spec.containers is two.spec.containers
    assert container_needs(one) is container_needs(two)
    assert container_needs(a_pod("three").asks(1).obj) != container_needs(one)


def test_a_node_says_what_it_says_and_shares_what_its_kubelet_offers() -> None:
    one, two = a_node("one", a100(0, "one")), a_node("two", a100(0, "two"))
    assert one.status.allocatable is two.status.allocatable
    assert _as(Node, one) == one
    assert _as(NodeStatus, one.status) == one.status


def test_a_full_table_begins_again() -> None:
    once = Once[tuple[int, ...]]()
    kept = [once((number,)) for number in range(2 * MOST)]
    assert kept == [(number,) for number in range(2 * MOST)]
    assert once((2 * MOST - 1,)) is kept[-1]
