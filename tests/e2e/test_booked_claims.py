"""Claims that are booked, on a real kubelet and kube-scheduler: who leaves, and who gets the device."""

from collections.abc import Iterator

import pytest

from cluster import names
from cluster.kube.resources import TAINT_RULES
from cluster.objects.inventory import inventory_of
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, UNSCHEDULABLE, Playground, unscheduled_message
from tests.e2e.testbed import GPUS

pytestmark = pytest.mark.e2e

NODE = "node-b"
RIVALS = 10
AGENT = "agent-claims"
TEMPLATE = "one-gpu"
NOT_GIVEN = "one-gpu-under-mps"


@pytest.fixture
def claims(parts: Parts, playground: Playground) -> Iterator[None]:
    """The node gives its GPUs by claims; in the end it does as before."""
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.start_agent(NODE, name=AGENT, settings={names.setting("device_plugin"): "dra"})
    playground.await_that("the devices are published", lambda: model_of(playground))
    requests = [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]
    of = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    mps = {"opaque": {"driver": names.DRA_DRIVER, "parameters": parameters}}
    for name, config in ((TEMPLATE, []), (NOT_GIVEN, [mps])):
        devices = {"requests": requests, "config": config}
        playground.apply({**of, "metadata": {"name": name}, "spec": {"spec": {"devices": devices}}})
    yield
    playground.clear()
    playground.kubectl("delete", "resourceclaimtemplates", "--all", "-n", playground.namespace)


def model_of(playground: Playground) -> str | None:
    """The model of the node's GPUs, once claims give all of them."""
    found = [device for device in inventory_of(playground.node(NODE)) if device.claimed_as]
    return found[0].model if len(found) == GPUS else None


def claiming(name: str, of: str = TEMPLATE) -> dict[str, object]:
    container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    extra = {
        "nodeSelector": {HOSTNAME: NODE},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": of}],
    }
    return probe.pod(name, [container], extra=extra)


def came_back(playground: Playground, names_: list[str]) -> str | None:
    """The one of these pods that has taken the place of one that had to leave."""
    found = (pod for pod in playground.pods() if pod.metadata.annotation(names.RECREATED_FROM))
    return next((pod.metadata.name for pod in found if pod.metadata.name in names_), None)


def minors(playground: Playground, name: str) -> tuple[int, ...]:
    """Numbers of the GPUs whose device nodes the container has."""
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    return seen.gpu_minors


@pytest.mark.budget(20)
@pytest.mark.usefixtures("claims")
def test_a_booked_claim_pod_gets_a_device_among_rivals(
    playground: Playground, alice: Person, bob: Person
) -> None:
    model = model_of(playground)
    assert model is not None
    bob.create(claiming("in-vain", NOT_GIVEN))
    playground.await_that(
        "a pod is told that its claim is configured in vain",
        lambda: (
            "[not-given]" in (unscheduled_message(playground.pod("in-vain"), UNSCHEDULABLE) or "") or None
        ),
    )
    bobs = [bob.create(claiming(f"bob-{n}")) for n in range(GPUS)]
    playground.await_phase(bobs)
    alice.book(model=model)
    rivals = [bob.create(claiming(f"rival-{n}")) for n in range(RIVALS)]
    alice.create(claiming("alice"))
    playground.await_phase(["alice"])
    left = playground.await_that("one of bob's pods is back", lambda: came_back(playground, bobs))
    playground.await_phase([left])
    (device,) = minors(playground, "alice")
    stayed = {minor for name in bobs if name != left for minor in minors(playground, name)}
    assert {device, *stayed} == set(range(GPUS)), "each device has one pod"
    assert minors(playground, left) == ()
    assert not [name for name in rivals if playground.pod(name).spec.node_name]
    playground.await_that(
        "no device is kept any more", lambda: not playground.kube.list(TAINT_RULES).items or None
    )
