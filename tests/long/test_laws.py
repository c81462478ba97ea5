"""The watcher of the laws sees on a real cluster what an administrator breaks on purpose."""

import threading
from contextlib import closing

import pytest

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.assignment import encode_assignment
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import person
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.laws.live import LEEWAY, LiveWatch

pytestmark = pytest.mark.e2e

NODE = "node-a"


def test_a_forged_binding_to_a_device_that_is_held_breaks_law_1(
    cluster: Cluster, playground: Playground, laws: LiveWatch
) -> None:
    holder = playground.simple("holder", node=NODE)
    playground.await_phase([holder])
    taken = playground.assignment(holder)
    # No node has this name: nobody else binds the pod, and no kubelet runs it.
    nowhere = {"nodeSelector": {HOSTNAME: "nowhere"}}
    forged = playground.create(probe.pod("forged", [probe.container("main", gpus=1)], extra=nowhere))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": forged, "annotations": {names.ASSIGNED: encode_assignment(taken)}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    # Anybody else is refused by a policy: it takes an extender that has gone wrong.
    token = cluster.service_account_token(names.NAMESPACE, names.EXTENDER)
    with closing(person(cluster, token)) as extender, laws.expecting("L1") as found:
        extender.create_subresource(PODS, "binding", binding, name=forged, namespace=playground.namespace)
    (device,) = taken["main"]
    assert f"{playground.namespace}/{forged} is given {device}" in found[0].message
    assert any(f"pods {playground.namespace}/{holder}: phase Running" in line for line in found[0].history)


def test_a_forged_eviction_of_a_booked_pod_breaks_law_2(
    alice: Person, playground: Playground, laws: LiveWatch
) -> None:
    booking = alice.book(1)
    hers = alice.create(probe.pod("covered", [probe.container("main", gpus=1)], model=A100))
    playground.await_phase([hers])
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": hers, "namespace": playground.namespace},
    }
    # A decision on what was true before she booked would be innocent.
    SystemClock().wait(threading.Event(), LEEWAY)
    with laws.expecting("L2", "L3") as found:  # L3: nobody needed its device
        playground.kube.create_subresource(
            PODS, "eviction", eviction, name=hers, namespace=playground.namespace
        )
    (broken,) = [error for error in found if error.law == "L2"]
    assert f"{playground.namespace}/{hers} is evicted, though {booking} covers it" in broken.message
