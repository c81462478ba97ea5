"""Pods of controllers: taken away like any other, recreated by their controllers alone.

They belong to the user whom an administrator names on their namespace, since Kubernetes records no creator on
what created them.
"""

import json
from collections.abc import Iterator

import pytest

from cluster import names
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_live, is_terminating
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER
from tests.long.workloads import CHEAP, a100, deployment, job, stateful_set

pytestmark = pytest.mark.e2e


def give(ground: Playground, user: str) -> None:
    """An administrator says whose the pods of the namespace's controllers are."""
    ground.kubectl("annotate", "namespace", ground.namespace, f"{names.OWNER}={user}")


def of(ground: Playground, app: str) -> list[Pod]:
    """Pods of a controller."""
    return [pod for pod in ground.pods() if (pod.metadata.labels or {}).get("app") == app]


def await_one(ground: Playground, app: str, *, after: Pod | None = None, phase: str = "Running") -> Pod:
    """The one live pod of a controller, another one than before."""

    def found() -> Pod | None:
        live = [pod for pod in of(ground, app) if is_live(pod)]
        assert len(live) <= 1, f"{app} has two pods."
        fresh = [pod for pod in live if after is None or pod.metadata.uid != after.metadata.uid]
        return next((pod for pod in fresh if pod.status.phase == phase), None)

    return ground.await_that(f"one pod of {app} is {phase}", found)


def check_left_to_its_controller(ground: Playground, pod: Pod, was: Pod) -> None:
    """It is no work of ours: it asks for its GPU, and waits for it like any other."""
    assert asks_for_gpus(pod)
    assert not pod.spec.node_name
    assert pod.metadata.annotation(names.RECREATED_FROM) is None
    assert not pod.metadata.finalizers or names.COMEBACK not in pod.metadata.finalizers
    assert pod.metadata.owner_references == was.metadata.owner_references
    assert ground.await_waiting(pod.metadata.name)


def job_status(ground: Playground, name: str) -> dict[str, object]:
    text = ground.kubectl("get", "job", name, "--namespace", ground.namespace, "--output", "json")
    status: dict[str, object] = json.loads(text).get("status", {})
    return status


def test_evicted_pods_of_a_deployment_and_a_stateful_set_are_recreated_and_wait_for_their_gpus(
    alice: Person, bob: Person, playground: Playground
) -> None:
    give(playground, alice.name)
    playground.apply(deployment("training", node="node-a"))
    playground.apply(stateful_set("store", node="node-a"))
    training, store = (await_one(playground, app) for app in ("training", "store"))
    assert {p.metadata.annotation(names.USER) for p in (training, store)} == {alice.name}
    bob.book(2)
    hers = bob.create(a100("booked", gpus=2, node="node-a"))
    playground.await_phase([hers])
    fresh = await_one(playground, "training", after=training, phase="Pending")
    check_left_to_its_controller(playground, fresh, training)
    again = await_one(playground, "store", after=store, phase="Pending")
    check_left_to_its_controller(playground, again, store)
    assert again.metadata.name == store.metadata.name == "store-0"
    playground.delete(hers)
    for app, before in (("training", training), ("store", store)):
        runs = await_one(playground, app, after=before)
        assert devices_of(assignment_of(runs) or {})
        playground.check_agreement(runs.metadata.name)


def test_an_evicted_pod_counts_as_no_failure_of_its_job_and_one_without_a_controller_is_bare(
    alice: Person, bob: Person, playground: Playground
) -> None:
    give(playground, alice.name)
    playground.apply(job("training", node="node-b"))
    first = await_one(playground, "training")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "notes"}
    playground.kubectl("create", "configmap", "notes", "--namespace", playground.namespace)
    of_notes = ("get", "configmap", "notes", "--namespace", playground.namespace)
    uid = playground.kubectl(*of_notes, "--output", "jsonpath={.metadata.uid}")
    body = a100("child", node="node-b")
    body["metadata"]["annotations"].update(CHEAP)
    body["metadata"]["ownerReferences"] = [{**owner, "uid": uid}]
    child = playground.pod(alice.create(body))
    playground.await_phase(["child"])
    bob.book(2)
    hers = bob.create(a100("booked", gpus=2, node="node-b"))
    playground.await_phase([hers])
    fresh = await_one(playground, "training", after=first, phase="Pending")
    check_left_to_its_controller(playground, fresh, first)
    assert not job_status(playground, "training").get("failed")

    def is_back() -> bool:
        now = next((p for p in playground.pods() if p.metadata.name == "child"), None)
        return now is not None and now.metadata.annotation(names.RECREATED_FROM) == child.metadata.uid

    playground.await_that("the pod without a controller comes back by our hand", is_back)
    assert not asks_for_gpus(playground.pod("child"))
    playground.delete(hers)
    await_one(playground, "training", after=first)
    assert not job_status(playground, "training").get("failed")


def test_a_job_that_fails_with_a_pod_is_spared_and_its_only_pod_comes_back_by_our_hand(
    alice: Person, bob: Person, playground: Playground
) -> None:
    give(playground, alice.name)
    playground.apply(deployment("oldest", node="node-a"))
    await_one(playground, "oldest")
    playground.apply(job("single", node="node-a", ignores_disruption=False))
    first = await_one(playground, "single")
    playground.apply(job("pair", node="node-b", pods=2, ignores_disruption=False))
    playground.await_that("both pods of the pair run", lambda: _running(playground, "pair") == 2)
    bob.book(1)
    hers = bob.create(a100("booked"))
    playground.await_phase([hers])
    back = await_one(playground, "single", after=first, phase="Pending")
    assert (back.metadata.name, back.metadata.annotation(names.RECREATED_FROM)) == (
        first.metadata.name,
        first.metadata.uid,
    )
    assert asks_for_gpus(back)
    assert not back.metadata.owner_references
    playground.await_that("its Job has failed", lambda: job_status(playground, "single").get("failed") == 1)
    playground.delete(hers)
    assert await_one(playground, "single", after=first).metadata.uid == back.metadata.uid
    assert not job_status(playground, "pair").get("failed")
    assert _running(playground, "pair") == 2


def _running(ground: Playground, app: str) -> int:
    return sum(is_live(pod) and pod.status.phase == "Running" for pod in of(ground, app))


def test_a_booking_that_ends_leaves_a_deployments_pod_running_until_a_booked_pod_needs_its_gpu(
    alice: Person, bob: Person, playground: Playground
) -> None:
    give(playground, alice.name)
    booking = alice.book(1)
    playground.apply(deployment("training", node="node-a"))
    pod = await_one(playground, "training")
    name = pod.metadata.name
    playground.await_that(
        "it is booked", lambda: playground.pod(name).metadata.annotation(names.BOOKING) == booking
    )
    alice.release(booking)
    message = playground.await_event(name, "It stays, but must leave when a booked pod needs its GPUs.")
    assert booking in message
    now = playground.pod(name)
    assert (now.metadata.uid, now.status.phase) == (pod.metadata.uid, "Running")
    assert now.metadata.annotation(names.BOOKING) is None
    assert now.metadata.annotation(names.TERMINATE_AT) is None
    playground.check_agreement(name)
    bob.book(2)
    hers = bob.create(a100("booked", gpus=2, node="node-a"))
    playground.await_phase([hers])
    check_left_to_its_controller(
        playground, await_one(playground, "training", after=pod, phase="Pending"), pod
    )


@pytest.fixture
def deleting(parts: Parts, playground: Playground) -> Iterator[None]:
    """The controller ends pods of controllers with their booking."""

    def start(settings: dict[str, str]) -> None:
        parts.controller().kill()
        playground.await_that("it has ended", lambda: parts.controller().exited is not None)
        parts.start_controller(settings)
        parts.await_ready()

    start({**CONTROLLER, names.setting("end_action_with_controller"): "delete"})
    yield
    start(CONTROLLER)


@pytest.mark.usefixtures("deleting")
def test_a_pod_that_is_deleted_with_its_booking_counts_as_no_failure_of_its_job(
    alice: Person, playground: Playground
) -> None:
    give(playground, alice.name)
    booking = alice.book(1)
    playground.apply(job("training", node="node-b"))
    first = await_one(playground, "training")
    name = first.metadata.name
    playground.await_that(
        "it is booked", lambda: playground.pod(name).metadata.annotation(names.BOOKING) == booking
    )
    alice.release(booking)

    def ends() -> bool:
        pods = [pod for pod in of(playground, "training") if pod.metadata.uid == first.metadata.uid]
        return not pods or (is_terminating(pods[0]) and has_condition(pods[0], names.DISRUPTION_TARGET))

    playground.await_that("it is ended by us", ends)
    fresh = await_one(playground, "training", after=first)
    assert fresh.metadata.annotation(names.BOOKING) is None
    assert fresh.metadata.annotation(names.RECREATED_FROM) is None
    assert not job_status(playground, "training").get("failed")
