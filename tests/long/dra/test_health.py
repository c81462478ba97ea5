"""A GPU that is unhealthy while a claim has it: its pod is told, and nobody gets it until it is well."""

import json
from typing import Any, Final

import pytest

from cluster import claim_names
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES
from tests.long.dra.ground import BY_CLAIM, claiming, devices_of, given_by_claims, published

pytestmark = pytest.mark.e2e

NODE: Final = NODES[1]
NOTHING, RESET = 0, 1
"""Recovery actions: what the driver asks for."""
SICK, WELL = 0, 1
"""The two A100s of the node."""


def told(playground: Playground, name: str) -> list[dict[str, Any]]:
    """What the kubelet says in the pod's status of the device of its claim."""
    text = playground.kubectl("get", "pod", name, "-n", playground.namespace, "--output=json")
    statuses = json.loads(text)["status"].get("containerStatuses") or ()
    return [
        one
        for status in statuses
        for each in status.get("allocatedResourcesStatus") or ()
        if each["name"].startswith("claim:")
        for one in each.get("resources") or ()
    ]


def is_told(playground: Playground, name: str, health: str) -> bool:
    return [one["health"] for one in told(playground, name)] == [health]


def has_taint(playground: Playground, device: str) -> bool:
    taints = published(playground, NODE)[device].get("taints") or ()
    return any(one["key"] == claim_names.UNHEALTHY_TAINT for one in taints)


def test_a_pod_is_told_of_its_unhealthy_gpu_and_the_next_has_it_when_it_is_well(
    parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    fake, sick = parts.fake_nvml(NODE), f"gpu-{SICK}"
    with given_by_claims(parts, playground, NODE):
        bobs = [bob.create(claiming(f"bob-{n}", node=NODE)) for n in range(GPUS)]
        playground.await_phase(bobs)
        pods = {playground.pod(name).metadata.uid: name for name in bobs}
        by_device = {device: pods[uid] for uid, (_, device) in devices_of(playground).items()}
        stays = by_device[sick]
        uid = playground.pod(stays).metadata.uid
        playground.await_that("it is told", lambda: is_told(playground, stays, "Healthy"), every=0.5)

        fake.recovery_action(SICK, RESET)
        fake.xid(SICK, 48)
        playground.await_that("the device is tainted", lambda: has_taint(playground, sick))
        playground.await_that("it is told", lambda: is_told(playground, stays, "Unhealthy"), every=0.5)
        (status,) = told(playground, stays)
        # Which of the two the agent meets first is chance.
        assert "48" in status["message"] or "reset" in status["message"]
        why = bob.rest.ask("GET", f"/pods/{playground.namespace}/{stays}/why")
        assert f"GPU {SICK} is not healthy" in str(why.body), why

        alice.book(model=BY_CLAIM)
        alice.create(claiming("alice", node=NODE))
        playground.await_phase(["alice"])
        alices = devices_of(playground)[playground.pod("alice").metadata.uid]
        assert alices == (NODE, f"gpu-{WELL}"), "the other device of this model is not healthy"
        assert playground.pod(stays).metadata.uid == uid, "nobody leaves because of its own device"

        playground.delete(stays)
        bob.create(claiming("late", node=NODE))
        playground.await_waiting("late")
        fake.recovery_action(SICK, NOTHING)
        playground.await_phase(["late"])
        assert devices_of(playground)[playground.pod("late").metadata.uid] == (NODE, sick)
        assert not has_taint(playground, sick)
        playground.await_that("it is told", lambda: is_told(playground, "late", "Healthy"), every=0.5)


def test_a_gpu_that_is_well_again_is_told_to_the_pod_that_has_stayed(
    parts: Parts, playground: Playground, bob: Person
) -> None:
    fake = parts.fake_nvml(NODE)
    with given_by_claims(parts, playground, NODE):
        bob.create(claiming("bob", node=NODE))
        playground.await_phase(["bob"])
        _, device = devices_of(playground)[playground.pod("bob").metadata.uid]
        number = int(device.removeprefix("gpu-"))
        fake.recovery_action(number, RESET)
        fake.xid(number, 48)
        playground.await_that("it is told", lambda: is_told(playground, "bob", "Unhealthy"), every=0.5)
        agent = parts.agent(NODE, "agent-claims")
        agent.kill()
        fake.recovery_action(number, NOTHING)
        agent.restart()
        playground.await_that("it is told", lambda: is_told(playground, "bob", "Healthy"), every=0.5)
        assert not has_taint(playground, device)
