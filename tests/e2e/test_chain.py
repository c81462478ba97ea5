"""Book, be served, give back, come back: each on real kubelets, with the people's own tokens."""

from collections.abc import Iterable
from typing import Any

import pytest

from cluster import names
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from devcluster import probe
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground

pytestmark = pytest.mark.e2e

CHEAP = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""Counts as now: a pod that loses nothing when it is evicted."""


def pod(
    name: str, *, gpus: int = 1, node: str | None = None, cheap: bool = False, **parts: Any
) -> dict[str, Any]:
    """A pod that wants A100s."""
    containers = parts.pop("containers", None) or [probe.container("main", gpus=gpus)]
    extra = {"nodeSelector": {HOSTNAME: node}} if node else None
    body = probe.pod(name, containers, model=A100, extra=extra, **parts)
    body["metadata"]["annotations"].update(CHEAP if cheap else {})
    return body


def uuids(pods: Iterable[Pod]) -> set[str]:
    return {uuid for pod in pods for uuid in devices_of(assignment_of(pod) or {})}


def occupy(bob: Person, ground: Playground, *, cheap: Iterable[str] = ()) -> dict[str, Pod]:
    """Bob takes all four A100s, two a node: bob-a-0, bob-a-1, bob-b-0, bob-b-1."""
    wanted = [f"bob-{letter}-{n}" for letter in "ab" for n in (0, 1)]
    for name in wanted:
        bob.create(pod(name, node=f"node-{name[4]}", cheap=name in set(cheap)))
    ground.await_phase(wanted)
    return {name: ground.pod(name) for name in wanted}


def returned(ground: Playground, was: Pod) -> Pod:
    """The pod that came back for one that was taken away; it runs without a GPU."""

    def back() -> Pod | None:
        now = next((p for p in ground.pods() if p.metadata.name == was.metadata.name), None)
        came = now and now.metadata.annotation(names.RECREATED_FROM) == was.metadata.uid
        return now if now and came and now.status.phase == "Running" else None

    pod = ground.await_that(f"{was.metadata.name} comes back and runs", back)
    assert not asks_for_gpus(pod)
    for container in pod.spec.containers or ():
        seen = probe.look(
            ground.kubectl,
            namespace=ground.namespace,
            name=pod.metadata.name,
            container_name=container.name,
        )
        assert seen is not None
        assert not seen.gpu_minors
        assert seen.env[names.VISIBLE_DEVICES_VARIABLE] == "none"
    ground.await_that(
        f"nothing is left to do for {was.metadata.name}",
        lambda: not ground.pod(was.metadata.name).metadata.finalizers or None,
    )
    return pod


def same(ground: Playground, pods: Iterable[Pod]) -> None:
    for was in pods:
        now = ground.pod(was.metadata.name)
        assert (now.metadata.uid, now.status.phase) == (was.metadata.uid, "Running")
        assert now.metadata.annotation(names.NOTICE) is None


def test_two_booked_pods_at_once_take_one_victim_each_and_no_more(
    alice: Person, bob: Person, playground: Playground
) -> None:
    cheap = ("bob-a-0", "bob-b-1")
    taken = occupy(bob, playground, cheap=cheap)
    alice.book(2, topology="any")
    hers = [alice.create(pod(f"alice-{n}")) for n in range(2)]
    playground.await_phase(hers)
    assert uuids(map(playground.pod, hers)) == uuids(taken[name] for name in cheap)
    for name in hers:
        playground.check_agreement(name)
    for name in cheap:
        returned(playground, taken[name])
    same(playground, (was for name, was in taken.items() if name not in cheap))


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


def test_a_free_gpu_and_a_victims_make_up_what_was_booked(
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


def test_a_released_booking_ends_its_pods_and_leaves_later_ones_alone(
    alice: Person, playground: Playground
) -> None:
    booking = alice.book(1)
    covered, more = alice.create(pod("covered")), alice.create(pod("more"))
    playground.await_phase([covered, more])
    was, other = playground.pod(covered), playground.pod(more)
    assert was.metadata.annotation(names.BOOKING) == booking
    assert other.metadata.annotation(names.BOOKING) is None
    alice.release(booking)
    returned(playground, was)
    same(playground, [other])


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

    stamped = playground.await_that("the pod is adopted", adopted)
    assert stamped.metadata.annotation(names.TERMINATE_AT)
    assert (stamped.metadata.uid, stamped.status.phase) == (was.metadata.uid, "Running")
    alice.release(booking)
    returned(playground, was)


def test_forged_stamps_are_overwritten_at_creation(bob: Person, playground: Playground) -> None:
    body = pod("forger")
    body["metadata"]["annotations"] |= {
        names.USER: "alice",
        names.BOOKING: "b-forged",
        names.ASSIGNED: '{"main": ["GPU-x"]}',
        names.HOLD: '{"node": "node-a", "devices": ["GPU-x"]}',
        names.TERMINATE_AT: "2999-01-01T00:00:00Z",
        names.BORN: "1999-01-01T00:00:00Z",
        names.RECREATED_FROM: "somebody",
    }
    body["metadata"]["labels"] = {names.COMEBACK: "true"}
    body["metadata"]["finalizers"] = [names.COMEBACK]
    body["spec"]["schedulerName"] = "default-scheduler"
    name = bob.create(body)
    stored = playground.pod(name)
    annotations = stored.metadata.annotations or {}
    assert annotations[names.USER] == "bob"
    ours = {key for key in annotations if names.is_ours(key)} - {names.ASSIGNED}
    assert ours <= {names.ADMITTED, names.USER, names.REPLACED}
    assert not stored.metadata.finalizers
    assert names.COMEBACK not in (stored.metadata.labels or {})
    assert stored.spec.scheduler_name == names.SCHEDULER_NAME
    assert stored.spec.priority_class_name == names.OPPORTUNISTIC_CLASS
    playground.await_phase([name])
    playground.check_agreement(name)


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"
