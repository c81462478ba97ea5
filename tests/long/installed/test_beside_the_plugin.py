"""README's first install is typed beside another device plugin, and then docs/getting-started.md.

A small plugin stands in for NVIDIA's, and pods hold GPUs of it before anything of ours is there.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import FakeNvml
from devcluster.fakenvml.specs import A100_80GB, gpu
from devcluster.product.installed import Installed
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import HOSTNAME, Playground
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import start_standin
from tests.long.installed import playing
from tests.long.installed.test_first_steps import (
    DOCUMENT,
    NODES,
    documented_values,
    environment,
    free_port,
    replacements,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

README: Final = "README.md"
GPUS: Final = 2
EARLIER: Final = "earlier"


@dataclass(frozen=True)
class Played:
    """What README's command printed, and those of the document after it."""

    cluster: Cluster
    ground: Playground
    before: str
    """The earlier pod, before anything was installed."""
    readme: Mapping[str, str]
    outputs: Mapping[str, str]

    def of(self, *words: str) -> str:
        """What the one command of the document with these words printed."""
        (found,) = (output for line, output in self.outputs.items() if all(word in line for word in words))
        return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder, port = tmp_path_factory.mktemp("beside"), free_port()
    spec = ClusterSpec(name=own("readme"), nodes=tuple(map(of_one_model, NODES)))
    with (
        Cluster.start(spec) as cluster,
        LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
    ):
        ground = Playground(administrator(cluster), cluster.kubectl, namespace="default", laws=laws)
        for node in NODES:
            start_standin(cluster, node)
        for node in NODES:
            ground.await_gpus(node, GPUS)
        bound = {"schedulerName": "default-scheduler", "nodeSelector": {HOSTNAME: NODES[0]}}
        with laws.expecting("L6"):  # nothing of ours is there yet that could renew a Lease
            ground.create(probe.pod(EARLIER, [probe.container("main", gpus=1)], extra=bound))
            ground.await_phase([EARLIER])
        before = as_it_is(ground)
        installed = Installed(cluster)
        installed.bring()
        here = of_here(folder, installed)
        shell = environment(folder, cluster)
        registry = {"registry.example.org": f"localhost --values {here}"}
        readme = playing.typed(README, registry, shell, only="helm upgrade")
        laws.check()
        mine = folder / "my-values.yaml"
        mine.write_text(f"{documented_values(port)}\nnodeAgent: {{devicePlugin: existing}}\n")
        values = f"{mine} --values {here} --set image.registry=localhost"
        outputs = playing.typed(DOCUMENT, replacements(folder, port, values), shell)
        laws.check()
        yield Played(cluster, ground, before, readme, outputs)
        laws.finish()


def of_one_model(name: str) -> NodeSpec:
    return NodeSpec(name=name, gpus=tuple(gpu(A100_80GB, index, node=name) for index in range(GPUS)))


def of_here(folder: Path, installed: Installed) -> Path:
    """The values that only this cluster needs: images that are here, and simulated GPUs."""
    needed = installed.values()
    file = folder / "here.yaml"
    file.write_text(json.dumps({name: needed[name] for name in ("image", "scheduler", "nodeAgent")}))
    return file


def uuids(cluster: Cluster, node: str) -> frozenset[str]:
    return frozenset(FakeNvml(cluster.gpu_folder(node)).uuids())


def as_it_is(ground: Playground) -> str:
    """Uid and container of the earlier pod."""
    path = "--output=jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}"
    return ground.kubectl("get", "pod", EARLIER, "--namespace=default", path)


def test_readmes_command_installs_and_names_every_node_with_gpus(played: Played) -> None:
    (printed,) = played.readme.values()
    notes = printed.partition("NOTES:")[2]
    assert all(node in notes for node in NODES)


def test_the_pod_that_held_a_gpu_before_runs_on_in_the_same_container(played: Played) -> None:
    assert as_it_is(played.ground) == played.before


def test_the_other_plugin_still_gives_out_the_gpus_and_the_nodes_serve(played: Played) -> None:
    for node in NODES:
        assert played.ground.allocatable(node) == GPUS
    numbered = {uuid for uuid, (_, device) in played.ground.inventory().items() if device.numbered}
    assert {uuid.rpartition("-")[0] for uuid in numbered} == set(NODES)


def test_a_booking_covers_a_pod_that_sees_the_gpu_that_the_kubelet_chose(played: Played) -> None:
    (booked,) = re.findall(r"\bb-\w+", played.of("kubectl gpu bookings"))
    assert booked in played.of("kubectl gpu why")
    seen = json.loads(played.of("kubectl logs").splitlines()[0])
    (device,) = seen["env"][names.DEVICES_VARIABLE].split(",")
    assert device in frozenset().union(*(uuids(played.cluster, node) for node in NODES))
    (chosen,) = json.loads(played.of("jsonpath"))["main"]
    assert chosen.rpartition("-")[0] in NODES
