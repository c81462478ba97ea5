"""Shares of a GPU by claims (docs/examples/share-claims.yaml), and booked claims for all of it or a share."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml

from cluster import claim_names, names
from cluster.decide.claims.requested import held_by
from cluster.kube.resources import PODS, RESOURCE_CLAIMS, TAINT_RULES
from cluster.objects.inventory import inventory_of
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, UNSCHEDULABLE, Playground, unscheduled_message
from tests.e2e.session import DESIGN
from tests.e2e.testbed import GPUS, Testbed
from tests.long.dra.sights import looked_at

pytestmark = pytest.mark.e2e

NODE: Final = "node-b"
AGENT: Final = "agent-claims"
EXAMPLE: Final = "docs/examples/share-claims.yaml"
BOBS: Final = ("ten-gib-1", "ten-gib-2")
SETTINGS: Final = {names.setting("device_plugin"): "dra", names.setting("dra_shares"): "true"}
TEN_GIB: Final = 10 * 1024
"""MiB."""
LONG_AGO: Final = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Claims can be booked on it."""
    bed = Testbed(replace(DESIGN, name="claim-shares", claims=True))
    try:
        yield bed
    finally:
        bed.close()


@pytest.fixture(autouse=True)
def shares(cluster: Cluster, parts: Parts, playground: Playground) -> Iterator[None]:
    """The node gives shares of its GPUs by claims, which are looked at; in the end it does as before."""
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.start_agent(NODE, name=AGENT, settings=SETTINGS)
    playground.await_that("the devices are published", lambda: model_of(playground))
    with looked_at(cluster):
        yield
    playground.clear()
    playground.kubectl("delete", "resourceclaimtemplates", "--all", "-n", playground.namespace)


def model_of(playground: Playground) -> str | None:
    """The model of the node's GPUs, once claims give all of them."""
    found = [device for device in inventory_of(playground.node(NODE)) if device.claimed_as]
    return found[0].model if len(found) == GPUS else None


def template(playground: Playground, name: str, gpu: int | None, **more: object) -> None:
    """A template of a claim for this GPU, or for any."""
    selector = {"cel": {"expression": f"device.attributes['{names.DRA_DRIVER}'].index == {gpu}"}}
    selectors = [] if gpu is None else [selector]
    exactly = {"deviceClassName": names.DRA_DRIVER, "selectors": selectors, **more}
    of = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name}}
    playground.apply(
        {**of, "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}}
    )


def claiming(name: str, of: str) -> dict[str, Any]:
    container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": of}]
    return probe.pod(name, [container], extra={"nodeSelector": {HOSTNAME: NODE}, "resourceClaims": claims})


def sight(playground: Playground, name: str) -> probe.Sight:
    """What the pod's container sees."""
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    return seen


def of_the_example(playground: Playground, bob: Person) -> None:
    """The example's objects; its pods are bob's, on the node, with an image that prints what it sees."""
    for body in yaml.safe_load_all(CHECKOUT.joinpath(EXAMPLE).read_text()):
        if body["kind"] == "Pod":
            claims = body["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
            bob.create(claiming(body["metadata"]["name"], claims))
        else:
            playground.apply(body)


def test_two_claims_have_one_gpu_a_third_waits_and_a_booked_pod_takes_it(
    playground: Playground, alice: Person, bob: Person
) -> None:
    model = model_of(playground)
    assert model is not None
    of_the_example(playground, bob)
    playground.await_phase(list(BOBS))
    seen = [sight(playground, name) for name in BOBS]
    ((gpu,),) = {one.gpu_minors for one in seen}
    assert {one.env[names.GPU_MEMORY_VARIABLE] for one in seen} == {str(TEN_GIB)}
    assert len({one.uuids for one in seen}) == 1
    claims = playground.kube.list(RESOURCE_CLAIMS).items
    assert [one.memory for claim in claims for one in held_by(claim, names.DRA_DRIVER)] == [TEN_GIB] * 2

    template(playground, "much", gpu, capacity={"requests": {"memory": "70Gi"}})
    template(playground, "whole", gpu)
    bob.create(claiming("late", "much"))
    playground.await_that("late waits", lambda: unscheduled_message(playground.pod("late"), UNSCHEDULABLE))

    alice.book(2, model=model)
    (other,) = {device.index for device in inventory_of(playground.node(NODE)) if device.model == model} - {
        gpu
    }
    template(playground, "other", other)
    alice.create(claiming("first", "other"))
    playground.await_phase(["first"])
    alice.create(claiming("alice", "whole"))
    playground.await_phase(["alice"])
    mine = sight(playground, "alice")
    assert mine.gpu_minors == (gpu,)
    assert names.GPU_MEMORY_VARIABLE not in mine.env
    back = [pod for pod in playground.pods() if pod.metadata.annotation(names.RECREATED_FROM)]
    assert {pod.metadata.name for pod in back} <= set(BOBS)
    assert not playground.pod("late").spec.node_name
    playground.await_that(
        "no device is kept any more", lambda: not playground.kube.list(TAINT_RULES).items or None
    )
    playground.laws.check()


def amount(gibibytes: int) -> dict[str, object]:
    return {"capacity": {"requests": {"memory": f"{gibibytes}Gi"}}}


def test_who_frees_just_the_missing_memory_leaves_for_a_booked_share(
    playground: Playground, alice: Person, bob: Person
) -> None:
    model = model_of(playground)
    assert model is not None
    first = min(device.index for device in inventory_of(playground.node(NODE)) if device.model == model)
    for name, gibibytes in (("most", 58), ("some", 13), ("ten", 10), ("twenty", 20)):
        template(playground, name, first, **amount(gibibytes))
    before = {}
    for name, of in (("large", "most"), ("small", "some")):
        bob.create(claiming(name, of))
        playground.await_phase([name])
        before[name] = playground.pod(name).metadata.uid

    alice.book(model=model, memory=20 * 1024)
    alice.create(claiming("alice", "twenty"))
    for number in range(5):
        bob.create(claiming(f"rival-{number}", "ten"))
    playground.await_phase(["alice"])
    mine = sight(playground, "alice")
    assert (mine.gpu_minors, mine.env[names.GPU_MEMORY_VARIABLE]) == ((first,), str(20 * 1024))
    assert playground.pod("large").metadata.uid == before["large"]
    playground.await_that(
        "bob's smaller pod is back",
        lambda: any(
            pod.metadata.annotation(names.RECREATED_FROM) == before["small"] for pod in playground.pods()
        ),
    )
    playground.await_that(
        "no device is kept any more", lambda: not playground.kube.list(TAINT_RULES).items or None
    )
    assert not any(playground.pod(f"rival-{number}").spec.node_name for number in range(5))
    playground.laws.check()


def test_a_share_on_a_gpu_that_bookings_do_not_allow_is_given_back_and_given_anew(
    playground: Playground, alice: Person, bob: Person
) -> None:
    """As if its bind had been refused: no other node suits the pod, so kube-scheduler leaves it at that."""
    model = model_of(playground)
    assert model is not None
    found = {device.index: device for device in inventory_of(playground.node(NODE)) if device.model == model}
    first, second = sorted(found)[:2]
    template(playground, "second", second, **amount(20))
    template(playground, "any", None, **amount(20))
    alice.book(model=model, memory=20 * 1024)
    alice.create(claiming("alice", "second"))
    playground.await_phase(["alice"])

    bob.book(model=model, memory=20 * 1024)
    gated = claiming("bob", "any")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    bob.create(gated)
    made = playground.await_that("bob's claim is made", lambda: made_for(playground, "bob"))
    result = {
        "request": "gpu",
        "driver": names.DRA_DRIVER,
        "pool": NODE,
        "device": found[first].claimed_as,
        "shareID": str(uuid4()),
        "consumedCapacity": {"memory": "20Gi"},
    }
    status = {"allocation": {"devices": {"results": [result]}, "allocationTimestamp": LONG_AGO}}
    where = {"namespace": playground.namespace}
    playground.kube.patch(RESOURCE_CLAIMS, made, {"status": status}, subresource="status", **where)
    playground.kube.patch(PODS, "bob", {"spec": {"schedulingGates": None}}, **where)
    playground.await_that(
        "the extender refuses it",
        lambda: (
            "[shared-by-bookings]" in (unscheduled_message(playground.pod("bob"), UNSCHEDULABLE) or "")
            or None
        ),
    )
    playground.await_phase(["bob"])
    assert sight(playground, "bob").gpu_minors == (second,)
    assert (playground.pod("bob").metadata.annotation(claim_names.GIVEN_BACK) or "").startswith(f"{made}@")
    playground.await_that(
        "no device is kept any more", lambda: not playground.kube.list(TAINT_RULES).items or None
    )
    playground.laws.check()


def made_for(playground: Playground, name: str) -> str | None:
    """The claim that was made for a pod."""
    made = playground.pod(name).status.resource_claim_statuses or ()
    return made[0].resource_claim_name if made else None
