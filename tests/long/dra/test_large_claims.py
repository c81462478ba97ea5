"""As many devices as Kubernetes gives to one claim: booked, taken from another pod, and seen inside."""

from typing import Final

import pytest

from cluster import names
from cluster.kube.resources import TAINT_RULES
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.fakenvml import A100_80GB, gpu, mig
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.dra.ground import BY_CLAIM, claiming, template
from tests.long.dra.test_counters import MIG, NODE, SETTINGS, Bed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

GPUS, PARTS = 5, 7
"""GPUs of the node, MIG devices of each."""
PROFILE: Final = "1g.10gb"
MOST: Final = 32


def test_the_largest_claim_is_booked_and_kube_scheduler_gives_nothing_to_a_larger_one() -> None:
    gpus = tuple(gpu(A100_80GB, number, node=NODE) for number in range(GPUS))
    spec = ClusterSpec(name=own("large"), nodes=(NodeSpec(name=NODE, gpus=gpus),))
    with Cluster.start(spec) as cluster:
        parts = Parts(cluster, claims=True)
        parts.deploy(server=POLICY, controller=CONTROLLER)
        watch = LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster), claims=True)
        with watch as laws:
            cluster.kubectl("create", "namespace", "large")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="large", laws=laws)
            parts.agent(NODE).kill()
            ground.await_gpus(NODE, 0)
            cut = {number: mig(each, [PROFILE] * PARTS) for number, each in enumerate(gpus)}
            for number, pieces in cut.items():
                parts.fake_nvml(NODE).mig(number, pieces)
            parts.start_agent(NODE, name="agent-claims", settings=SETTINGS)
            found = {one.uuid: (number, one) for number, pieces in cut.items() for one in pieces}
            people = [_person(name, cluster, parts, ground) for name in ("alice", "bob")]
            _play(Bed(parts, ground, found, ""), *people)
            laws.check()


def _person(name: str, cluster: Cluster, parts: Parts, ground: Playground) -> Person:
    parts.people.admit(name, ground.namespace)
    rest = Rest(parts.booking_url, parts.people.token(name, names.AUDIENCE))
    return Person(name, person(cluster, parts.people.token(name)), rest, ground)


def _play(bed: Bed, alice: Person, bob: Person) -> None:
    ground = bed.ground
    bed.await_settled(
        devices=GPUS * PARTS, counter_sets=[f"gpu-{number}-counter-set" for number in range(GPUS)]
    )
    for name, count in (("most", MOST), ("more", MOST + 1)):
        ground.apply(template(name, deviceClassName=MIG, count=count))
    bob.create(claiming("bob", resourceClaimTemplateName="most"))
    ground.await_phase(["bob"])
    bed.check_sight("bob", bed.given()["bob"])
    alice.book(MOST, model=f"{BY_CLAIM}-MIG-{PROFILE}")
    alice.create(claiming("larger", resourceClaimTemplateName="more"))
    ground.await_that(
        "kube-scheduler gives nothing to a larger claim",
        lambda: f"exceeds the claim limit of {MOST}" in ground.await_scheduler_error("larger") or None,
    )
    alice.create(claiming("alice", resourceClaimTemplateName="most"))
    ground.await_phase(["alice", "bob"])
    given = bed.given()
    assert {name: len(set(devices)) for name, devices in given.items()} == {"alice": MOST}
    bed.check_sight("alice", given["alice"])
    bed.check_sight("bob", [])
    ground.await_that("nothing is kept", lambda: not ground.kube.list(TAINT_RULES).items or None)
