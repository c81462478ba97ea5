"""A node that has this machine's own GPUs: nothing is simulated for it."""

from pathlib import Path

from cluster import names
from devcluster.addresses import Addresses
from devcluster.boot import make_gpus
from devcluster.fakenvml import FakeNvml
from devcluster.paths import Paths
from devcluster.plan import Plan, Programs
from devcluster.product import node_agent
from devcluster.spec import ClusterSpec, NodeSpec


def test_a_node_with_real_gpus_gets_no_folder_of_simulated_ones(tmp_path: Path) -> None:
    nodes = (NodeSpec(name="node-a", real=True), NodeSpec(name="node-b"))
    plan = Plan(ClusterSpec(nodes=nodes), Paths("trial", tmp_path), Addresses(2), Programs({}), 2)
    for node in plan.nodes:
        node.folder.mkdir(parents=True)
        make_gpus(node)
    real, simulated = plan.nodes
    assert not real.gpu_folder.exists()
    assert simulated.gpu_folder.exists()


def test_the_agent_of_real_gpus_gets_no_simulated_library_and_device_nodes(tmp_path: Path) -> None:
    arguments = {"node": "node-a", "name": "agent", "port": 9500, "program": (), "settings": {}}
    real = node_agent.part(gpus=None, **arguments).environment
    simulated = node_agent.part(gpus=tmp_path, **arguments).environment
    only = {*FakeNvml(tmp_path).environment(), names.setting("dev_root")}
    assert real is not None
    assert simulated is not None
    assert simulated.keys() - real.keys() == only
