"""Two kube-schedulers allocate claims, since pods of an excluded namespace have the cluster's own.

Each counts only what it has seen, so they give the same devices away. Nobody can keep them from that; but it
is told, no device is in two pods at any time, and nobody else is given such a device until it is free. A pod
of ours that lost gives it back, and runs on any that comes free; one that was bound, too, waits for it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import CLAIM_TEMPLATES, EVENTS, PODS, RESOURCE_CLAIMS, TAINT_RULES
from cluster.objects.claims import Place
from cluster.objects.pods import Pod
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import UNSCHEDULABLE, Playground, unscheduled_message
from tests.e2e.testbed import NODES
from tests.long.dra.ground import TEMPLATE, allocated, claiming, devices_of, given_by_claims, template
from tests.long.dra.sights import looked_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

THEIRS: Final = "kube-system"
"""Its pods keep their scheduler, and nothing of ours is asked about them."""
OTHER: Final = "default-scheduler"
EACH: Final = 6
"""Pods of each scheduler at once: together more than there are devices."""
ROUNDS: Final = 12
"""At most: in most rounds some device is given twice."""
NODE: Final = NODES[1]
TOLD, THEIRS_WAITS = "was given to this pod's claim and to another one", "still in use by the claim"


@pytest.fixture
def others(playground: Playground) -> Iterator["Others"]:
    found = Others(playground)
    found.kube.create(CLAIM_TEMPLATES, template(), namespace=THEIRS)
    yield found
    found.clear()
    found.kube.delete(CLAIM_TEMPLATES, TEMPLATE, namespace=THEIRS)


class Others:
    """Pods of the other namespace."""

    def __init__(self, playground: Playground) -> None:
        self._ground, self.kube = playground, playground.kube

    def create(self, body: dict[str, Any]) -> Pod:
        return self.kube.create(PODS, body, namespace=THEIRS)

    def pods(self) -> list[Pod]:
        found = self.kube.list(PODS, Selection(namespace=THEIRS)).items
        return [pod for pod in found if pod.spec.resource_claims]

    def delete(self, name: str) -> None:
        self.kube.delete(PODS, name, namespace=THEIRS, grace_seconds=1)

    def clear(self) -> None:
        for pod in self.pods():
            self.delete(pod.metadata.name)
        self._ground.await_that("the pods of the other namespace are gone", lambda: not self.pods() or None)

    def await_event(self, name: str, text: str) -> None:
        named = Selection(namespace=THEIRS, field_selector=f"involvedObject.name={name}")

        def is_told() -> bool:
            return any(text in (one.message or "") for one in self.kube.list(EVENTS, named).items)

        self._ground.await_that(f"an event of {name} says {text!r}", is_told)


class Site:
    """Pods of both at once."""

    def __init__(self, playground: Playground, bob: Person, others: Others) -> None:
        self._ground, self._bob, self._others = playground, bob, others

    def race(self, number: int) -> None:
        """Pods of both schedulers come at once; each of them has been tried when this returns."""

        def create(n: int) -> None:
            self._bob.create(claiming(f"ours-{number}-{n}"))

        def create_other(n: int) -> None:
            self._others.create(claiming(f"theirs-{number}-{n}", scheduler=OTHER))

        with ThreadPoolExecutor(2 * EACH) as pool:
            done = [pool.submit(one, n) for n in range(EACH) for one in (create, create_other)]
        for one in done:
            one.result()
        self._ground.await_that("all have been tried", lambda: all(map(_is_tried, self.pods())) or None)

    def pods(self) -> list[Pod]:
        return [*self._ground.pods(), *self._others.pods()]

    def losers(self) -> list[Pod]:
        """Those that have a device together with one that runs; returns once one of each device runs."""
        pods = {pod.metadata.uid: pod for pod in self.pods()}
        groups = [
            [owner.uid for claim in claims for owner in claim.metadata.owner_references or ()]
            for claims in allocated(self._ground).values()
            if len(claims) > 1
        ]

        def running() -> set[str]:
            return {pod.metadata.uid for pod in self._running()}

        self._ground.await_that(
            "a pod of each device runs", lambda: all(running() & set(group) for group in groups) or None
        )
        run = running()
        return [pods[uid] for group in groups for uid in group if uid not in run]

    def await_repair(self, doubled: set[Place]) -> None:
        """Nobody is given these devices any more, and our pods that wait for them have given theirs back."""
        ground = self._ground
        ground.await_that("such devices are kept from all", lambda: spoiled(ground) >= doubled or None)

        def lost() -> list[str]:
            twice = {place for place, claims in allocated(ground).items() if len(claims) > 1}
            had = devices_of(ground)
            return [
                pod.metadata.name
                for pod in ground.pods()
                if had.get(pod.metadata.uid) in twice and not pod.spec.node_name
            ]

        ground.await_that("our pods that lost have given the devices back", lambda: not lost() or None)

    def clear(self) -> None:
        self._ground.clear()
        self._others.clear()

    def run_out(self) -> None:
        """Those that run leave, until each has run."""
        while self.pods():
            running = self._ground.await_that("another one runs", self._running)
            for pod in running:
                delete = self._others.delete if pod.metadata.namespace == THEIRS else self._ground.delete
                delete(pod.metadata.name)
            gone = {pod.metadata.uid for pod in running}
            self._ground.await_that(
                "it is gone",
                lambda gone=gone: gone.isdisjoint(pod.metadata.uid for pod in self.pods()) or None,
            )

    def _running(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.status.phase == "Running"]


def _is_tried(pod: Pod) -> bool:
    errors = unscheduled_message(pod, "SchedulerError")
    return bool(pod.spec.node_name or errors or unscheduled_message(pod, UNSCHEDULABLE))


def spoiled(playground: Playground) -> set[Place]:
    """Devices that nobody may be given."""
    rules = playground.kube.list(TAINT_RULES).items
    return {place for rule in rules if (place := rule.spoils(names.DRA_DRIVER))}


def conflicts(parts: Parts) -> float:
    try:
        return parts.metric(parts.extender(), "extender_device_conflicts_total")
    except ClusterError:
        return 0.0


def test_devices_that_two_schedulers_have_given_are_told_and_come_to_one_pod_after_the_other(
    cluster: Cluster, parts: Parts, playground: Playground, bob: Person, others: Others
) -> None:
    site = Site(playground, bob, others)
    with given_by_claims(parts, playground, *NODES), looked_at(cluster), playground.laws.expecting("L1"):
        before = conflicts(parts)
        for number in range(ROUNDS):
            site.race(number)
            doubled = {place for place, claims in allocated(playground).items() if len(claims) > 1}
            found = site.losers() if doubled else []
            if found:
                break
            site.clear()
        else:
            pytest.fail("No device was given twice.")
        playground.await_that("it is counted", lambda: conflicts(parts) > before or None)
        for pod in found:
            if pod.metadata.namespace == THEIRS:
                others.await_event(pod.metadata.name, TOLD)
                others.await_event(pod.metadata.name, THEIRS_WAITS)
            else:
                playground.await_event(pod.metadata.name, TOLD)
        site.await_repair(doubled)
        late = bob.create(claiming("late"))
        playground.await_waiting(late)
        assert playground.pod(late).metadata.uid not in devices_of(playground)
        site.run_out()
        _one_that_is_bound_to_what_another_has(playground, bob, others)
        playground.await_that("nothing is kept from anybody", lambda: not spoiled(playground) or None)


def _one_that_is_bound_to_what_another_has(playground: Playground, bob: Person, others: Others) -> None:
    """Made by hand: the other scheduler has not seen who has the device, and binds its pod."""
    holder = bob.create(claiming("holder", node=NODE))
    playground.await_phase([holder])
    pool, device = devices_of(playground)[playground.pod(holder).metadata.uid]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]}}
    others.kube.create(RESOURCE_CLAIMS, {"metadata": {"name": "again"}, "spec": spec}, namespace=THEIRS)
    body = claiming("again", scheduler=OTHER, resourceClaimName="again")
    body["spec"]["nodeName"] = NODE
    uid = others.create(body).metadata.uid
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": pool, "device": device}
    users = [{"resource": "pods", "name": "again", "uid": uid}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    others.kube.patch(RESOURCE_CLAIMS, "again", {"status": status}, namespace=THEIRS, subresource="status")
    others.await_event("again", THEIRS_WAITS)
    playground.await_that("nobody is given the device", lambda: (pool, device) in spoiled(playground) or None)
    assert playground.pod(holder).status.phase == "Running"
    playground.delete(holder)
    playground.await_that(
        "the other one runs", lambda: [pod for pod in others.pods() if pod.status.phase == "Running"]
    )
    others.clear()
    others.kube.delete(RESOURCE_CLAIMS, "again", namespace=THEIRS)
