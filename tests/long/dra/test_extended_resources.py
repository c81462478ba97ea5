"""Pods that ask by an extended resource get a claim from kube-scheduler: they run unbooked, and can leave.

Kubernetes' own name of a DeviceClass needs no administrator; ``spec.extendedResourceName`` is one's own. The
name ``nvidia.com/gpu`` stays that of GPUs which are not given by claims, whatever a class says.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster import claim_names, names
from cluster.decide.claims.extended import INSTEAD
from cluster.kube.errors import ApiError
from cluster.kube.resources import DEVICE_CLASSES, PODS
from cluster.objects.pods import Pod, extended_needs
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.testbed import GPUS, NODES
from tests.long.dra.ground import BY_CLAIM, claiming, devices_of, given_by_claims
from tests.long.dra.sights import looked_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

NODE: Final = NODES[1]
IMPLICIT: Final = f"{claim_names.CLASS_RESOURCE_PREFIX}{names.DRA_DRIVER}"
NAMED: Final = "example.com/gpu"
OTHER: Final = "default-scheduler"


@pytest.fixture
def classes(playground: Playground) -> Iterator[None]:
    """Administrators' classes of the same GPUs: one has a name of its own, one takes ours."""
    selectors = [{"cel": {"expression": f"device.driver == '{names.DRA_DRIVER}'"}}]
    made = {"named-gpus": NAMED, "our-name": names.GPU_RESOURCE}
    for name, resource in made.items():
        spec = {"selectors": selectors, "extendedResourceName": resource}
        playground.kube.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": spec})
    yield
    for name in made:
        playground.kube.delete(DEVICE_CLASSES, name)


def asking(name: str, resource: str, *, node: str = NODE, scheduler: str = OTHER) -> dict[str, Any]:
    container = probe.container("main") | {"resources": {"limits": {resource: "1"}}}
    extra = {"schedulerName": scheduler, "nodeSelector": {HOSTNAME: node}}
    return probe.pod(name, [container], extra=extra)


def _is_back(playground: Playground, uids: dict[str, str]) -> list[Pod]:
    """Those of bob's pods that were evicted, and are back without a GPU."""
    found = {pod.metadata.name: pod for pod in playground.pods()}
    return [found[name] for name, uid in uids.items() if name in found and found[name].metadata.uid != uid]


@pytest.mark.usefixtures("classes")
def test_pods_with_such_a_resource_run_unbooked_and_leave_for_a_booked_claim(
    cluster: Cluster, parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    with given_by_claims(parts, playground, NODE), looked_at(cluster):
        resources = [IMPLICIT, NAMED] * (GPUS // 2)
        bobs = [bob.create(asking(f"bob-{n}", resource)) for n, resource in enumerate(resources)]
        playground.await_phase(bobs)
        found = {name: playground.pod(name) for name in bobs}
        uids = {name: pod.metadata.uid for name, pod in found.items()}
        assert set(uids.values()) == devices_of(playground).keys()
        for pod in found.values():
            assert pod.spec.scheduler_name == names.SCHEDULER_NAME
            assert pod.spec.priority_class_name == names.OPPORTUNISTIC_CLASS
            assert pod.status.extended_resource_claim_status
        alice.book(model=BY_CLAIM)
        unbooked = alice.create(asking("unbooked", IMPLICIT))
        playground.await_waiting(unbooked)
        assert playground.pod(unbooked).spec.priority_class_name == names.OPPORTUNISTIC_CLASS
        why = str(alice.rest.ask("GET", f"/pods/{playground.namespace}/{unbooked}/why").body)
        assert IMPLICIT in why, why
        assert INSTEAD in why, why
        booked = alice.create(claiming("booked", node=NODE))
        playground.await_phase([booked])
        (left,) = playground.await_that("one is back", lambda: _is_back(playground, uids))
        assert not extended_needs(left)


@pytest.mark.usefixtures("classes")
def test_our_own_name_is_not_satisfied_by_a_claim(parts: Parts, playground: Playground, bob: Person) -> None:
    with given_by_claims(parts, playground, NODE):
        name = bob.create(asking("ours", names.GPU_RESOURCE))
        message = playground.await_waiting(name)
        assert playground.pod(name).metadata.uid not in devices_of(playground)
        assert playground.pod(name).status.extended_resource_claim_status is None, message


@pytest.mark.usefixtures("classes")
def test_another_scheduler_is_refused_where_the_webhook_did_not_replace_it(
    parts: Parts, playground: Playground, bob: Person
) -> None:
    with given_by_claims(parts, playground, NODE):
        for resource in (IMPLICIT, NAMED):
            body = asking("named-node", resource)
            body["spec"]["nodeName"] = NODE
            with pytest.raises(ApiError, match="names its node"):
                bob.create(body)
        free = asking("other", "example.com/nothing")
        playground.kube.create(PODS, free, namespace=playground.namespace, dry_run=True)
