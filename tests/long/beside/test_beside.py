"""The story on nodes whose GPUs another plugin gives out: the kubelet chooses, we count."""

import io

import pytest

from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.play import play
from devcluster.demo.reporter import Reporter
from devcluster.fakenvml.specs import A100_80GB, RTX_A6000, gpu
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.story_run import VICTIMS, pods_that
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import Beside, start_standin
from tests.patience import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

NODES = (
    NodeSpec(name="node-a", gpus=tuple(gpu(A100_80GB, index, node="node-a") for index in range(4))),
    NodeSpec(name="node-b", gpus=tuple(gpu(RTX_A6000, index, node="node-b") for index in range(4))),
)


def test_the_story_is_played_while_another_plugin_gives_out_the_gpus() -> None:
    written = io.StringIO()
    with Cluster.start(ClusterSpec(name=own("beside"), nodes=NODES)) as cluster:
        for node in cluster.nodes:
            start_standin(cluster, node)
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            play(cluster, Reporter(written), parts=Beside(cluster), patience=PATIENCE)
            laws.finish()
    output = written.getvalue()
    assert pods_that(output, "comes back without a GPU") == VICTIMS, output
    assert pods_that(output, "has to leave") == VICTIMS, output
    assert "which the kubelet has chosen" in output
