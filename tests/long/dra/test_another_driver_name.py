"""Claims can be booked as well where the driver has another name."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from cluster import names
from cluster.kube.resources import DEVICE_CLASSES, RESOURCE_SLICES, TAINT_RULES
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import UNSCHEDULABLE, Playground, unscheduled_message
from tests.e2e.testbed import GPUS, Testbed
from tests.long.dra.ground import BY_CLAIM, CLAIMS, allocated, claiming, given_by_claims, template
from tests.long.dra.sights import looked_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DRIVER: Final = "gpu.example.com"
NODE: Final = "node-b"
LARGE: Final = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('60Gi')) >= 0"
IN_VAIN: Final = "under-mps"


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    bed = Testbed(replace(CLAIMS, name="driver-name", driver=DRIVER))
    try:
        yield bed
    finally:
        bed.close()


def test_a_pod_leaves_for_a_booked_claim_of_a_driver_with_another_name(
    cluster: Cluster, parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    mps = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    with given_by_claims(parts, playground, NODE, driver=DRIVER), looked_at(cluster, driver=DRIVER) as sights:
        classes = {one.metadata.name for one in playground.kube.list(DEVICE_CLASSES).items}
        assert classes == {DRIVER, f"mig.{DRIVER}"}
        assert {one.spec.driver for one in playground.kube.list(RESOURCE_SLICES).items} == {DRIVER}
        refused = template(IN_VAIN, deviceClassName=DRIVER)
        config = [{"opaque": {"driver": DRIVER, "parameters": mps}}]
        refused["spec"]["spec"]["devices"]["config"] = config
        playground.apply(refused)
        playground.apply(
            template("large", deviceClassName=DRIVER, selectors=[{"cel": {"expression": LARGE}}])
        )
        bob.create(claiming("in-vain", node=NODE, resourceClaimTemplateName=IN_VAIN))
        playground.await_that(
            "a pod is told that its claim is configured in vain",
            lambda: (
                "[not-given]" in (unscheduled_message(playground.pod("in-vain"), UNSCHEDULABLE) or "") or None
            ),
        )
        bobs = [bob.create(claiming(f"bob-{number}", node=NODE)) for number in range(GPUS)]
        playground.await_phase(bobs)
        assert len(allocated(playground)) == len(sights.prepared(NODE)) == GPUS
        alice.book(model=BY_CLAIM)
        alice.create(claiming("alice", node=NODE, resourceClaimTemplateName="large"))
        playground.await_phase(["alice"])
        seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name="alice")
        assert seen is not None
        assert len(seen.gpu_minors) == 1
        (back,) = playground.await_that(
            "one of bob's pods is back",
            lambda: [p for p in playground.pods() if p.metadata.annotation(names.RECREATED_FROM)],
        )
        assert back.metadata.name in bobs
        playground.await_that("nothing is kept", lambda: not playground.kube.list(TAINT_RULES).items or None)
