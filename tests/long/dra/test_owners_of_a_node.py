"""A node changes from `ours` to claims, to another plugin and back by its label, while pods hold its GPUs.

No device node is ever in containers of two pods, whoever gives out the GPUs (law L1).
"""

from collections.abc import Iterator

import pytest

from cluster import names
from cluster.objects.inventory import OWNER_WAITS, inventory_of
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.demo.rest import Rest
from devcluster.fakenvml.specs import A100_80GB, gpu
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import start_standin
from tests.long.dra.ground import claiming, published, template
from tests.long.dra.sights import Sights, looked_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

NODE, GPUS = "node-a", 3
WAITS = f"on {NODE}, where who gives them out is about to change"


class OfAnyWay(Sights):
    """Pods have devices by a plugin, too, of which no record of claims knows."""

    is_by_claims = False


class Bed:
    """A node whose label changes."""

    def __init__(self, cluster: Cluster, ground: Playground, sights: Sights, rest: Rest) -> None:
        self.cluster, self.ground, self.sights, self.rest = cluster, ground, sights, rest

    def label(self, whose: str) -> None:
        self.cluster.kubectl("label", "node", NODE, "--overwrite", f"{names.DEVICE_PLUGIN}={whose}")

    def given_by(self, whose: str) -> None:
        self.ground.await_that(
            f"{NODE} gives its GPUs as {whose}",
            lambda: (self.ground.node(NODE).metadata.labels or {}).get(names.GIVEN_BY) == whose,
        )

    def is_given_by(self) -> str:
        return (self.ground.node(NODE).metadata.labels or {})[names.GIVEN_BY]

    def offers(self, *devices: str) -> None:
        """Wait until kube-scheduler is offered these devices for claims, and no others."""
        self.ground.await_that(
            f"{devices} are offered", lambda: set(published(self.ground, NODE)) == {*devices}
        )

    def of(self, pod: str) -> str:
        """The one device that a pod has, by the kernel."""
        uid = self.ground.pod(pod).metadata.uid
        (device,) = (one for one, pods in self.sights.seen(NODE).items() if uid in pods)
        return device

    def why(self, pod: str) -> str:
        """What its owner is told of a pod."""
        answer = self.rest.ask("GET", f"/pods/{self.ground.namespace}/{pod}/why")
        return " ".join(answer.body.get("because", ()))

    def plugin(self) -> Daemon:
        """NVIDIA's plugin, as the stand-in for it begins to run."""
        return start_standin(self.cluster, NODE)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    node = NodeSpec(name=NODE, gpus=tuple(gpu(A100_80GB, index, node=NODE) for index in range(GPUS)))
    with Cluster.start(ClusterSpec(name=own("owners"), nodes=(node,))) as cluster:
        parts = Parts(cluster)
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            parts.deploy(server=POLICY, controller=CONTROLLER)
            parts.upgrade({"dra": {"enabled": True}})
            cluster.kubectl("create", "namespace", "owners")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="owners", laws=laws)
            ground.apply(template())
            parts.people.admit("bob", ground.namespace)
            rest = Rest(parts.booking_url, parts.people.token("bob", names.AUDIENCE))
            with looked_at(cluster, OfAnyWay) as sights:
                yield Bed(cluster, ground, sights, rest)
            laws.check()


def test_l1_a_node_changes_to_claims_to_another_plugin_and_back_while_pods_hold_its_gpus(bed: Bed) -> None:
    ground = bed.ground
    bed.given_by("ours")
    ground.await_gpus(NODE, GPUS)
    ground.await_phase([ground.simple("by-plugin", node=NODE)])
    first = bed.of("by-plugin")

    # To claims at once: what a pod has by the plugin is held back, one device.
    bed.label("dra")
    bed.given_by("dra")
    bed.offers(*{f"gpu-{number}" for number in range(GPUS)} - {first})
    ground.create(claiming("by-claim", node=NODE, scheduler="default-scheduler"))
    ground.await_phase(["by-claim"])
    second = bed.of("by-claim")
    assert second != first

    # To another plugin not before the claim is over, and nothing is offered meanwhile.
    bed.label("existing")
    ground.await_node_event(NODE, "says 'existing', but claims have GPUs of this node")
    bed.offers()
    ground.create(claiming("late", node=NODE, scheduler="default-scheduler"))
    assert ground.await_waiting("late")
    assert {device.reason for device in inventory_of(ground.node(NODE))} == {OWNER_WAITS}

    ground.simple("early", node=NODE)
    ground.await_that("why says that the node waits", lambda: WAITS in bed.why("early") or None)
    ground.delete("early")

    # That plugin comes all the same, without asking anybody: we still give nothing.
    theirs = bed.plugin()
    ground.await_node_event(NODE, "Another device plugin gives out this node's GPUs")
    bed.offers()
    assert bed.is_given_by() == "dra"
    theirs.kill()

    ground.delete("late")
    ground.delete("by-claim")
    path = names.GIVEN_BY.replace(".", "\\.")
    bed.cluster.kubectl(
        "wait", "node", NODE, f"--for=jsonpath={{.metadata.labels.{path}}}=existing", "--timeout=120s"
    )
    theirs.restart()
    ground.await_gpus(NODE, GPUS)
    ground.await_phase([ground.simple("by-theirs", node=NODE), ground.simple("too", node=NODE)])
    held = {name: bed.of(name) for name in ("by-plugin", "by-theirs", "too")}
    assert len(set(held.values())) == GPUS, held
    assert held["by-plugin"] == first

    # And back: pods of both plugins run on, and their devices are given to nobody.
    theirs.kill()
    bed.label("ours")
    bed.given_by("ours")
    ground.await_gpus(NODE, GPUS)
    waiting = ground.simple("waiting", node=NODE)
    assert ground.await_waiting(waiting)
    ground.delete("too")
    ground.await_phase([waiting])
    assert bed.of(waiting) == held["too"]
    assert ground.pod("by-plugin").status.phase == ground.pod("by-theirs").status.phase == "Running"
