"""What counts of pods that are on nodes already."""

import pytest

from cluster import names
from cluster.decide.scheduler_filters.existing_pods import ExistingPod, node_pods_of, other_of
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.world import pod_of
from tests.fakes.objects import PodBuilder, a_pod


@pytest.mark.parametrize(
    ("builder", "counts"),
    [
        (a_pod().on("n0"), True),
        (a_pod().on("n0").ended("Succeeded"), False),
        (a_pod().on("n0").ended("Failed"), False),
        (a_pod().on("n0").terminating(), False),
    ],
    ids=["running", "succeeded", "failed", "terminating"],
)
def test_only_a_living_pod_counts(*, builder: PodBuilder, counts: bool) -> None:
    assert (other_of(builder.obj) is not None) is counts


def test_labels_requests_anti_affinity_and_volumes_of_a_pod_are_kept() -> None:
    pod = pod_of(
        cases.a_pod(
            "p",
            labels={"app": "web"},
            affinity=cases.FAR_FROM_DB | cases.required("podAffinity", cases.term("rack", {})),
            volumes=[cases.mount("data"), {"name": "scratch", "emptyDir": {}}, cases.mount("more")],
            containers=[cases.container(amounts={"cpu": "1", names.GPU_RESOURCE: "1"})],
        )
    )

    found = other_of(pod)

    assert found is not None
    assert (found.uid, found.namespace, found.labels) == ("uid-p", cases.TEAM, {"app": "web"})
    assert found.requests == (("cpu", 1000),)
    assert [term.topology_key for term in found.anti_affinity] == [cases.ZONE]
    assert found.claims == ("data", "more")


def test_a_plain_pod_has_no_ports_anti_affinity_or_volumes() -> None:
    found = other_of(a_pod().on("n0").obj)

    assert found == ExistingPod(uid="uid-p", namespace="default", labels={}, requests=())


def test_the_requests_of_the_pods_on_a_node_are_added_up() -> None:
    shy = other_of(pod_of(cases.a_pod("shy", affinity=cases.FAR_FROM_DB)))
    assert shy
    first, second = (
        ExistingPod(uid=uid, namespace="team", labels={}, requests=requests)
        for uid, requests in (("p", (("cpu", 500), ("memory", 7))), ("q", (("cpu", 250),)))
    )

    on_node = node_pods_of([first, shy, second])

    assert on_node.used == {"cpu": 750, "memory": 7}
    assert on_node.others == (first, shy, second)
    assert on_node.with_anti_affinity == (shy,)


def test_a_node_without_pods_uses_nothing() -> None:
    on_node = node_pods_of([])

    assert (on_node.others, on_node.used, on_node.with_anti_affinity) == ((), {}, ())
