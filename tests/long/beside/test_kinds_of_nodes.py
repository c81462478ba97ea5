"""One node of each kind in a cluster: ours, another plugin's with an agent, and one without an agent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from cluster import names
from cluster.objects.given_devices import given_devices
from cluster.objects.inventory import inventory_of
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.demo.rest import Rest
from devcluster.fakenvml import FakeNvml
from devcluster.fakenvml.specs import A100_80GB, gpu
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.persons import A100
from tests.e2e.playground import HOSTNAME, Playground
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import Beside, start_standin, unhealthy_file

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

OURS, OBSERVED, COUNTED = "node-a", "node-b", "node-c"
GPUS = 2


@dataclass(frozen=True)
class Bed:
    cluster: Cluster
    parts: Beside
    ground: Playground
    plugins: dict[str, Daemon]
    """Node -> the other plugin that runs there."""

    @contextmanager
    def another(self, node: str, name: str, **how: Any) -> Iterator[None]:
        """Inside, the other plugin of a node offers something else."""
        self.plugins[node].kill()
        self.ground.await_gpus(node, 0)
        plugin = start_standin(self.cluster, node, name=name, **how)
        try:
            yield
        finally:
            plugin.kill()
            self.plugins[node].restart()
            self.ground.await_gpus(node, GPUS)

    def as_alice(self) -> Rest:
        """Her access to the booking server."""
        return Rest(self.parts.booking_url, self.parts.people.token("alice", names.AUDIENCE))

    def models(self, node: str) -> list[str]:
        """Of the healthy numbered GPUs of a node."""
        return [one.model for one in inventory_of(self.ground.node(node)) if one.is_healthy]

    def label(self, node: str, **labels: str) -> None:
        self.cluster.kubectl("label", "node", node, "--overwrite", *(f"{k}={v}" for k, v in labels.items()))

    def await_healthy(self, node: str, count: int) -> None:
        def healthy() -> bool:
            return sum(device.is_healthy for device in inventory_of(self.ground.node(node))) == count

        self.ground.await_that(f"{node} has {count} healthy GPUs", healthy)

    def tells(self, name: str) -> bool:
        """Whether the pod's status names the GPUs that its container sees."""
        return given_devices(self.ground.pod(name)).keys() == self.seen(name)

    def seen(self, name: str) -> frozenset[str]:
        sight = probe.read_sight(self.cluster.kubectl, namespace=self.ground.namespace, name=name)
        assert sight is not None
        return frozenset(sight.uuids)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    nodes = tuple(
        NodeSpec(name=name, gpus=tuple(gpu(A100_80GB, index, node=name) for index in range(GPUS)))
        for name in (OURS, OBSERVED, COUNTED)
    )
    with Cluster.start(ClusterSpec(name=own("kinds"), nodes=nodes)) as cluster:
        label = ("label", "node", "--overwrite")
        cluster.kubectl(*label, OBSERVED, f"{names.DEVICE_PLUGIN}=existing")
        cluster.kubectl(*label, COUNTED, f"{names.WITHOUT_AGENT}=true")
        found = {"product": A100, "memory": "81920", "count": str(GPUS)}
        cluster.kubectl(
            *label, COUNTED, *(f"{names.GPU_RESOURCE}.{key}={value}" for key, value in found.items())
        )
        plugins = {node: start_standin(cluster, node) for node in (OBSERVED, COUNTED)}
        parts = Beside(cluster, whose="ours", without={COUNTED})
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            parts.begin()
            cluster.kubectl("create", "namespace", "kinds")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="kinds", laws=laws)
            yield Bed(cluster, parts, ground, plugins)
            laws.check()


@pytest.fixture(autouse=True)
def tidy(bed: Bed) -> Iterator[None]:
    for node in (OURS, OBSERVED, COUNTED):
        bed.await_healthy(node, GPUS)
    yield
    bed.ground.clear()


def test_pods_get_gpus_on_every_kind_of_node_and_no_two_have_one(bed: Bed) -> None:
    everything = 3 * GPUS
    pods = bed.ground.create_all(
        probe.pod(f"p-{number}", [probe.container("main", gpus=1)], model=A100)
        for number in range(everything)
    )
    bed.ground.await_phase(pods)
    assert len(frozenset().union(*map(bed.seen, pods))) == everything
    assert {bed.ground.pod(name).spec.node_name for name in pods} == {OURS, OBSERVED, COUNTED}
    for name in pods:  # the kubelets are of the newest version, which tells it
        bed.ground.await_that(
            f"the status of {name} tells its GPU",
            partial(bed.tells, name),
        )
    late = bed.ground.simple("late")
    assert bed.ground.await_waiting(late)
    bed.ground.delete(pods[0])
    bed.ground.await_phase([late])


def test_a_gpu_cannot_be_named_where_the_kubelet_chooses(bed: Bed) -> None:
    body = probe.pod("named", [probe.container("main", gpus=1)])
    body["metadata"]["annotations"][names.NOT_UUID] = f"{OURS}-0"
    body["spec"]["nodeSelector"] = {HOSTNAME: OBSERVED}
    assert "kubelet-chooses" in bed.ground.await_waiting(bed.ground.create(body))


def test_the_node_agent_is_not_registered_beside_another_plugin_and_says_so(bed: Bed) -> None:
    other = start_standin(bed.cluster, OURS, name="intruder")
    bed.ground.await_node_event(OURS, "Another device plugin gives out this node's GPUs")
    other.kill()
    pod = bed.ground.simple("again", node=OURS)
    bed.ground.await_phase([pod])


def test_a_node_changes_over_and_back_while_its_pods_run(bed: Bed) -> None:
    before = bed.ground.simple("before", node=OBSERVED)
    bed.ground.await_phase([before])
    had = bed.seen(before)
    bed.cluster.kubectl("cordon", OBSERVED)
    bed.plugins[OBSERVED].kill()
    bed.label(OBSERVED, **{names.DEVICE_PLUGIN: "ours"})
    uuids = frozenset(FakeNvml(bed.cluster.gpu_folder(OBSERVED)).uuids())

    def exact() -> bool:
        return frozenset(device.uuid for device in inventory_of(bed.ground.node(OBSERVED))) == uuids

    bed.ground.await_that("the agent publishes the GPUs by UUID", exact)
    bed.ground.await_gpus(OBSERVED, GPUS)
    bed.cluster.kubectl("uncordon", OBSERVED)
    after = bed.ground.simple("after", node=OBSERVED)
    bed.ground.await_phase([before, after])
    assert bed.seen(after) == uuids - had
    third = bed.ground.simple("third", node=OBSERVED)
    assert bed.ground.await_waiting(third)

    bed.cluster.kubectl("cordon", OBSERVED)
    bed.label(OBSERVED, **{names.DEVICE_PLUGIN: "existing"})
    bed.ground.await_gpus(OBSERVED, 0)
    bed.plugins[OBSERVED].restart()
    bed.ground.await_gpus(OBSERVED, GPUS)
    bed.cluster.kubectl("uncordon", OBSERVED)
    bed.await_healthy(OBSERVED, GPUS)
    bed.ground.delete(before)
    bed.ground.await_phase([third, after])
    assert bed.seen(third) == had


def test_a_unhealthy_gpu_takes_one_out_of_what_can_be_had(bed: Bed) -> None:
    uuid = FakeNvml(bed.cluster.gpu_folder(COUNTED)).uuids()[0]
    unhealthy_file(bed.cluster, COUNTED).write_text(uuid, encoding="utf-8")
    bed.await_healthy(COUNTED, GPUS - 1)
    unhealthy_file(bed.cluster, COUNTED).unlink()
    bed.plugins[COUNTED].restart()


@pytest.mark.parametrize("node", [OBSERVED, COUNTED])
def test_turns_on_gpus_are_counted_and_nobody_can_book_one(bed: Bed, node: str) -> None:
    turns = 2 * GPUS
    shared = f"{A100}{names.SHARED_MODEL}"
    if node == COUNTED:
        bed.label(node, **{f"{names.GPU_RESOURCE}.replicas": "2"})
    with bed.another(node, "slicing-plugin", replicas=2):
        bed.ground.await_that(f"{node} has turns", lambda: bed.models(node) == [shared] * turns or None)
        pods = [bed.ground.simple(f"turn-{number}", node=node) for number in range(turns)]
        bed.ground.await_phase(pods)
        assert len(frozenset().union(*map(bed.seen, pods))) == GPUS
        named = bed.ground.simple("named", node=node, model=A100)
        assert bed.ground.await_waiting(named)
        assert bed.as_alice().book(model=shared, count=1, duration="P1D").is_refusal
        (now,) = (one for one in bed.as_alice().ask("GET", "/now").body["nodes"] if one["node"] == node)
        assert "cannot be booked" in now["why"]
        bed.ground.clear()
    if node == COUNTED:
        bed.label(node, **{f"{names.GPU_RESOURCE}.replicas": "1"})
    bed.ground.await_that("they are whole again", lambda: bed.models(node) == [A100] * GPUS or None)


def test_mig_devices_of_the_strategy_mixed_are_counted_by_their_own_names(bed: Bed) -> None:
    resource, model = f"{names.MIG_RESOURCE_PREFIX}1g.10gb", f"{A100}-MIG-1g.10gb"
    bed.label(
        COUNTED, **{f"{resource}.product": model, f"{resource}.count": "2", f"{resource}.memory": "9728"}
    )
    parts = {resource: ("MIG-0", "MIG-1")}
    with bed.another(COUNTED, "mig-plugin", resources=(), parts=parts):
        bed.ground.await_that("two parts are counted", lambda: bed.models(COUNTED) == [model] * 2 or None)
        body = probe.pod("part", [probe.container("main")], extra={"nodeSelector": {HOSTNAME: COUNTED}})
        body["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
        bed.ground.await_phase([bed.ground.create(body)])
        assert bed.seen("part") < set(parts[resource])
        bed.ground.await_that("the pod's status tells it", partial(bed.tells, "part"))
        bed.ground.clear()
