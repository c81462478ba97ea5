"""What ``kubectl inspect gpushare`` finds in the Node's status."""

from cluster import dialect_names, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import NODES
from cluster.objects.inventory import Device, Sharing
from deviceplugin.node.gpushare_status import RETRY_AFTER, GpushareStatus, gpushare_amounts

MEMORY, COUNT = names.ALIYUN_MEMORY, dialect_names.GPUSHARE_COUNT
GPUS = (
    Device("GPU-0", share=Sharing(memory=80_400)),
    Device("GPU-1", health="unhealthy", share=Sharing(memory=48_000)),
    Device("GPU-2"),
)


def test_every_gpu_that_can_be_shared_counts_with_whole_units_of_what_it_offers() -> None:
    assert gpushare_amounts(GPUS, "GiB") == {MEMORY: str(78 + 46), COUNT: "2"}
    assert gpushare_amounts(GPUS, "MiB") == {MEMORY: "128400", COUNT: "2"}
    assert gpushare_amounts((), "GiB") == gpushare_amounts((Device("n-0", numbered=True),), "GiB") == {}
    by_claims = Device("GPU-0", share=Sharing(memory=80_400), resource=names.CLAIM_RESOURCE)
    assert gpushare_amounts((by_claims,), "GiB") == {}


def test_it_is_written_once_and_again_after_a_restart_of_the_machine_and_a_failure_waits() -> None:
    clock = FakeClock()
    kube = FakeKube(clock)
    status = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}
    writer = GpushareStatus(kube, lambda: GPUS, "GiB", clock)
    node = kube.put(NODES, {"metadata": {"name": "node-a"}, "status": status})
    kube.fail("PATCH", refused(Request("PATCH", "/nodes/node-a/status"), Refusal(403, "no")))
    assert writer.write(node) is writer.write(node) is node

    clock.advance(RETRY_AFTER)
    node = writer.write(node)
    assert writer.write(node) is node
    wanted = {"cpu": "8", MEMORY: "124", COUNT: "2"}
    assert (node.status.capacity, node.status.allocatable) == (wanted, wanted)

    nobody_shares = GpushareStatus(kube, lambda: GPUS[2:], "GiB", clock)
    bare = kube.put(NODES, {"metadata": {"name": "node-b"}, "status": status})
    assert nobody_shares.write(bare) is bare
    assert (nobody_shares.write(node).status.capacity or {})[COUNT] == "0"

    zero = {**wanted, MEMORY: "0", COUNT: "0"}
    node = kube.put(
        NODES, {"metadata": {"name": "node-a"}, "status": {"capacity": zero, "allocatable": zero}}
    )
    assert writer.write(node).status.capacity == wanted
