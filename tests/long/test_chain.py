"""Book, be served, give back, come back: each on real kubelets, with the people's own tokens."""

from typing import Any

import pytest

from cluster import names
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from devcluster import probe
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.takeover import occupy, pod, returned, same, uuids

pytestmark = pytest.mark.e2e


def test_a_booking_for_a_nodes_last_two_gpus_takes_both_of_one_node(
    alice: Person, bob: Person, playground: Playground
) -> None:
    cheap = ("bob-b-0", "bob-b-1")
    taken = occupy(bob, playground, cheap=cheap)
    alice.book(2)
    name = alice.create(pod("alice-pair", gpus=2))
    playground.await_phase([name])
    assert uuids([playground.pod(name)]) == uuids(taken[victim] for victim in cheap)
    playground.check_agreement(name)
    for victim in cheap:
        returned(playground, taken[victim])
    same(playground, (was for was_name, was in taken.items() if was_name not in cheap))


def test_a_free_gpu_and_a_victims_gpu_together_serve_a_booking(
    alice: Person, bob: Person, playground: Playground
) -> None:
    names_ = ["bob-a-0", "bob-b-0", "bob-b-1"]
    for name in names_:
        bob.create(pod(name, node=f"node-{name[4]}"))
    playground.await_phase(names_)
    before = {name: playground.pod(name) for name in names_}
    alice.book(2)
    name = alice.create(pod("alice-pair", gpus=2))
    playground.await_phase([name])
    assert uuids([before["bob-a-0"]]) < uuids([playground.pod(name)])
    returned(playground, before["bob-a-0"])
    same(playground, [before["bob-b-0"], before["bob-b-1"]])


def test_a_deployment_s_pod_is_left_to_its_controller_and_a_bare_one_comes_back(
    alice: Person, bob: Person, playground: Playground
) -> None:
    template = pod("unused", node="node-a", cheap=True)
    template["spec"].pop("restartPolicy")
    template["metadata"] = {**template["metadata"], "labels": {"app": "training"}, "name": None}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "training"}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }
    playground.apply(deployment)

    def of_deployment() -> list[Pod]:
        return [p for p in playground.pods() if p.metadata.labels and p.metadata.labels.get("app")]

    first = playground.await_that(
        "the Deployment's pod runs", lambda: next((p for p in of_deployment() if _runs(p)), None)
    )
    for name in ("bob-a", "bob-b", "bob-c"):
        bob.create(pod(name, cheap=name == "bob-c"))
    playground.await_phase(["bob-a", "bob-b", "bob-c"])
    bare = {name: playground.pod(name) for name in ("bob-a", "bob-b", "bob-c")}
    alice.book(2, topology="any")
    hers = [alice.create(pod(f"alice-{n}")) for n in range(2)]
    playground.await_phase(hers)
    assert uuids(map(playground.pod, hers)) == uuids([first, bare["bob-c"]])
    returned(playground, bare["bob-c"])
    same(playground, [bare["bob-a"], bare["bob-b"]])
    live = [p for p in of_deployment() if is_live(p)]
    assert len(live) == 1
    assert live[0].metadata.uid != first.metadata.uid
    assert asks_for_gpus(live[0])
    assert live[0].metadata.annotation(names.RECREATED_FROM) is None


def test_a_pod_with_init_container_and_sidecar_is_served_evicted_and_comes_back(
    alice: Person, bob: Person, playground: Playground
) -> None:
    def rich(name: str, *, cheap: bool = False) -> dict[str, Any]:
        init = [probe.container("setup", gpus=1, seconds=0), probe.container("side", gpus=1, sidecar=True)]
        return pod(name, node="node-a", cheap=cheap, init=init, containers=[probe.container("main", gpus=1)])

    victim = bob.create(rich("bob-rich", cheap=True))
    playground.await_phase([victim])
    was = playground.pod(victim)
    assert len(uuids([was])) == 2
    alice.book(2)
    name = alice.create(rich("alice-rich"))
    playground.await_phase([name])
    assert uuids([playground.pod(name)]) == uuids([was])
    playground.check_agreement(name)
    now = returned(playground, was)
    assert [c.name for c in now.spec.init_containers or ()] == ["setup", "side"]


def test_a_running_pod_is_adopted_when_its_owners_booking_starts(
    alice: Person, playground: Playground
) -> None:
    hers = alice.create(pod("before", cheap=True))
    playground.await_phase([hers])
    was = playground.pod(hers)
    assert was.metadata.annotation(names.BOOKING) is None
    booking = alice.book(1)

    def adopted() -> Pod | None:
        now = playground.pod(hers)
        return now if now.metadata.annotation(names.BOOKING) == booking else None

    adopted_pod = playground.await_that("the pod is adopted", adopted)
    assert adopted_pod.metadata.annotation(names.TERMINATE_AT)
    assert (adopted_pod.metadata.uid, adopted_pod.status.phase) == (was.metadata.uid, "Running")
    alice.release(booking)
    returned(playground, was)


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"
