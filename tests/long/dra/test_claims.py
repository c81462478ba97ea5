"""GPUs by claims, on a real kubelet and kube-scheduler: docs/examples/claims.yaml, health, a killed agent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import RESOURCE_SLICES
from cluster.objects.claims import ResourceSlice
from devcluster import probe
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from tests.e2e.playground import HOSTNAME, UNSCHEDULABLE, Playground, unscheduled_message

pytestmark = pytest.mark.e2e

NODE = "node-b"
GPUS = 4
CLAIM = "resource.k8s.io/v1"
AGENT = "agent-claims"
NOTHING, RESET = 0, 1


@pytest.fixture(autouse=True)
def claims(parts: Parts, playground: Playground) -> Iterator[None]:
    """The node gives its GPUs by claims; in the end it does as before."""
    parts.upgrade({"dra": {"enabled": True}})
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.start_agent(NODE, name=AGENT, settings={names.setting("device_plugin"): "dra"})
    playground.await_that("the devices are published", lambda: len(published(playground)) == GPUS or None)
    yield
    playground.clear()
    playground.kubectl("delete", "resourceclaims,resourceclaimtemplates", "--all", "-n", playground.namespace)
    parts.upgrade({})


def slices(playground: Playground) -> tuple[ResourceSlice, ...]:
    return playground.kube.list(RESOURCE_SLICES, Selection(field_selector=f"spec.nodeName={NODE}")).items


def published(playground: Playground) -> dict[str, dict[str, Any]]:
    return {device["name"]: device for each in slices(playground) for device in each.spec.devices}


def applied(playground: Playground, *chosen: str) -> None:
    """Objects of the example, on the node, with an image that prints what it sees."""
    for body in yaml.safe_load_all(CHECKOUT.joinpath("docs/examples/claims.yaml").read_text()):
        if body["metadata"]["name"] in chosen:
            if body["kind"] == "Pod":
                body["spec"]["nodeSelector"] = {HOSTNAME: NODE}
                for container in body["spec"]["containers"]:
                    container |= {"image": probe.IMAGE, "imagePullPolicy": "Never", "args": []}
            playground.apply(body)


def claiming(playground: Playground, name: str, *, count: int = 1) -> None:
    """A pod with a claim of its own for so many GPUs."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER, "count": count}}]
    template = {
        "apiVersion": CLAIM,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    playground.apply(template)
    container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    extra = {
        "nodeSelector": {HOSTNAME: NODE},
        "schedulerName": "default-scheduler",
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
    }
    playground.create(probe.pod(name, [container], extra=extra))


def minors(playground: Playground, name: str, container: str = "main") -> tuple[int, ...]:
    """Numbers of the GPUs whose device nodes a container has."""
    seen = probe.read_sight(
        playground.kubectl, namespace=playground.namespace, name=name, container_name=container
    )
    assert seen is not None
    return seen.gpu_minors


def test_the_examples_get_what_they_claim_and_see_nothing_else(playground: Playground) -> None:
    before = {each.spec.pool.generation for each in slices(playground)}
    applied(playground, "large-gpu", "two-containers", "shared-gpu", "shares-1", "shares-2")
    playground.await_phase(["two-containers", "shares-1", "shares-2"])
    (large,) = minors(playground, "two-containers")
    assert minors(playground, "two-containers", "second") == (large,)
    (shared,) = minors(playground, "shares-1")
    assert minors(playground, "shares-2") == (shared,)
    assert large != shared
    size = published(playground)[f"gpu-{large}"]["capacity"]["memory"]["value"]
    assert int(size) >= 60 * 2**30
    after = {each.spec.pool.generation for each in slices(playground)}
    assert after == before, "nothing has changed, so nothing is written"
    playground.simple("none", node=NODE, gpus=0)
    playground.await_phase(["none"])
    assert minors(playground, "none") == ()
    playground.clear()
    playground.kubectl("delete", "resourceclaim", "shared-gpu", "-n", playground.namespace)

    applied(playground, "alternatives", "two-small")
    playground.await_phase(["two-small"])
    assert len(minors(playground, "two-small")) == 2
    playground.clear()

    claiming(playground, "all", count=GPUS)
    playground.await_phase(["all"])
    assert minors(playground, "all") == (0, 1, 2, 3)
    claiming(playground, "late")
    waits = "late waits for a device"
    playground.await_that(waits, lambda: unscheduled_message(playground.pod("late"), UNSCHEDULABLE))
    playground.delete("all")
    playground.await_phase(["late"])


def test_an_unhealthy_gpu_gets_no_claim_until_it_is_well_again(parts: Parts, playground: Playground) -> None:
    for number in range(GPUS - 1):
        claiming(playground, f"holder-{number}")
    playground.await_phase([f"holder-{number}" for number in range(GPUS - 1)])
    taken = {minor for n in range(GPUS - 1) for minor in minors(playground, f"holder-{n}")}
    (free,) = set(range(GPUS)) - taken
    fake = parts.fake_nvml(NODE)
    fake.recovery_action(free, RESET)
    fake.xid(free, 48)
    playground.await_that(
        "the device is tainted", lambda: "taints" in published(playground)[f"gpu-{free}"] or None
    )
    claiming(playground, "late")
    playground.await_that("late waits", lambda: unscheduled_message(playground.pod("late"), UNSCHEDULABLE))
    fake.recovery_action(free, NOTHING)
    playground.await_phase(["late"])
    assert minors(playground, "late") == (free,)


def test_killing_the_agent_costs_no_pod_and_frees_no_device(parts: Parts, playground: Playground) -> None:
    for number in range(GPUS):
        claiming(playground, f"holder-{number}")
    names_ = [f"holder-{number}" for number in range(GPUS)]
    playground.await_phase(names_)
    uids = {name: playground.pod(name).metadata.uid for name in names_}
    agent = parts.agent(NODE, AGENT)
    agent.kill()
    playground.await_that("the kubelet deletes the slices", lambda: not slices(playground) or None)
    agent.restart()
    playground.await_that("they are back", lambda: len(published(playground)) == GPUS or None)
    claiming(playground, "late")
    playground.await_that("late waits", lambda: unscheduled_message(playground.pod("late"), UNSCHEDULABLE))
    assert {name: playground.pod(name).metadata.uid for name in names_} == uids
    playground.delete("holder-0")
    playground.await_phase(["late"])
    rest = {minor for name in ("late", *names_[1:]) for minor in minors(playground, name)}
    assert rest == set(range(GPUS)), json.dumps(sorted(rest))
