"""An unhealthy GPU is taken out of use, the others of its node are not, and it comes back."""

from collections.abc import Iterator

import pytest

from booking.server.service.device_orders import NodeGpus
from cluster import names
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import person
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-b"
GPUS = 4
NOTHING, RESET = 0, 1
"""Recovery actions: what the driver asks for."""


def become_unhealthy(parts: Parts, playground: Playground, gpu: str) -> None:
    """An XID, after which the driver asks for a reset: the GPU stays out of use until it asks no longer."""
    fake = parts.fake_nvml(NODE)
    fake.recovery_action(gpu, RESET)
    fake.xid(gpu, 48)
    playground.await_that(
        "the inventory says why", lambda: "48" in str(playground.inventory()[gpu][1].reason) or None
    )
    playground.await_gpus(NODE, GPUS - 1)


@pytest.mark.usefixtures("well")
def test_a_gpu_with_a_critical_xid_gets_no_pod_until_it_is_healthy(
    parts: Parts, playground: Playground
) -> None:
    fake = parts.fake_nvml(NODE)
    unhealthy = fake.uuids()[0]
    become_unhealthy(parts, playground, unhealthy)
    assert playground.inventory().keys() >= set(fake.uuids())

    pods = [playground.simple(f"pod-{n}", node=NODE) for n in range(GPUS)]
    served = playground.await_that(
        "three pods run",
        lambda: (
            found
            if len(found := [p.metadata.name for p in playground.pods() if p.status.phase == "Running"]) == 3
            else None
        ),
    )
    assert unhealthy not in {u for n in served for u in playground.assignment(n)["main"]}

    fake.recovery_action(unhealthy, NOTHING)
    playground.await_gpus(NODE, GPUS)
    playground.await_phase(pods)
    playground.check_law_1()


@pytest.mark.usefixtures("well")
def test_an_application_error_leaves_the_gpu_in_use(parts: Parts, playground: Playground) -> None:
    fake = parts.fake_nvml(NODE)
    failed, unhealthy, *_ = fake.uuids()
    fake.xid(failed, 31)
    become_unhealthy(parts, playground, unhealthy)  # its XID came later: what the other meant is known
    assert playground.inventory()[failed][1].is_healthy
    fake.recovery_action(unhealthy, NOTHING)
    playground.await_gpus(NODE, GPUS)


@pytest.mark.usefixtures("well")
def test_a_lost_gpu_does_not_affect_its_neighbours(parts: Parts, playground: Playground) -> None:
    fake = parts.fake_nvml(NODE)
    lost = fake.uuids()[1]
    fake.lose(1)
    playground.await_gpus(NODE, GPUS - 1)
    fill(playground, without=lost)
    fake.recover(1)
    playground.await_gpus(NODE, GPUS)


def fill(playground: Playground, *, without: str, count: int = GPUS - 1) -> None:
    """Pods on so many GPUs of the node; those run, and another one waits."""
    pods = [playground.simple(f"pod-{n}", node=NODE) for n in range(count)]
    playground.await_phase(pods)
    assert without not in {u for pod in pods for u in playground.assignment(pod)["main"]}
    playground.await_waiting(playground.simple("one-too-many", node=NODE))


def restart(parts: Parts, playground: Playground) -> None:
    """A new agent, which the kubelet knows when this returns: one of its GPUs is out of use."""
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.agent(NODE).restart()
    playground.await_gpus(NODE, GPUS - 1)


@pytest.fixture
def well(parts: Parts, orders: NodeGpus) -> Iterator[None]:
    """All GPUs of the node are well again at the end."""
    yield
    fake = parts.fake_nvml(NODE)
    fake.clear()
    for gpu in fake.uuids():
        for order in ("uncordon", "clear"):
            orders.order(NODE, gpu, order, message="the test: is over", at=SystemClock().now())


@pytest.fixture
def orders(cluster: Cluster) -> NodeGpus:
    """With the booking server's token: policies and RBAC are those of the chart."""
    return NodeGpus(person(cluster, cluster.service_account_token(names.NAMESPACE, names.BOOKING_SERVER)))


@pytest.mark.usefixtures("well")
def test_a_gpu_that_hangs_the_driver_leaves_the_others_in_use(
    parts: Parts, playground: Playground, orders: NodeGpus
) -> None:
    fake = parts.fake_nvml(NODE)
    hung, broken, _, free = fake.uuids()
    fake.hang("nvmlDeviceGetMemoryInfo", hung)
    playground.await_gpus(NODE, GPUS - 1)
    assert "The driver hangs" in str(playground.inventory()[hung][1].reason)
    fill(playground, without=hung)
    # What happens to the others meanwhile is known, too.
    fake.xid(broken, 79)
    playground.await_gpus(NODE, GPUS - 2)
    fake.error("nvmlDeviceGetFieldValues", free, 999)
    playground.await_gpus(NODE, GPUS - 3)
    fake.clear()
    orders.order(NODE, broken, "clear", message="alice: a new card", at=SystemClock().now())
    playground.await_gpus(NODE, GPUS)
    playground.await_phase(["one-too-many"])
    playground.check_law_1()


@pytest.mark.usefixtures("well")
def test_a_cordoned_gpu_gets_no_pod_and_its_own_pod_goes_on(
    parts: Parts, playground: Playground, orders: NodeGpus
) -> None:
    mine = playground.simple("mine", node=NODE)
    playground.await_phase([mine])
    (gpu,) = playground.assignment(mine)["main"]
    assert orders.order(NODE, gpu, "cordon", message="alice: the fan is loud", at=SystemClock().now()) == gpu
    playground.await_gpus(NODE, GPUS - 1)
    assert playground.inventory()[gpu][1].reason == "Cordoned by alice: the fan is loud"
    playground.await_node_event(NODE, f"{gpu}) gets no new pods. Cordoned by alice: the fan is loud.")
    # An agent that starts again never publishes it as healthy.
    restart(parts, playground)
    # For kube-scheduler a GPU that is held and not healthy counts twice: as used, and as not there.
    fill(playground, without=gpu, count=GPUS - 2)
    playground.await_phase([mine])
    orders.order(NODE, gpu, "uncordon", message="alice: x", at=SystemClock().now())
    playground.await_gpus(NODE, GPUS)
    playground.await_node_event(NODE, f"{gpu}) is healthy again")


@pytest.mark.usefixtures("well")
def test_a_fault_that_needs_a_reset_outlives_the_agent_until_it_is_cleared(
    parts: Parts, playground: Playground, orders: NodeGpus
) -> None:
    fake = parts.fake_nvml(NODE)
    unhealthy = fake.uuids()[0]
    fake.xid(0, 79)
    playground.await_gpus(NODE, GPUS - 1)
    restart(parts, playground)
    fill(playground, without=unhealthy)
    assert str(playground.inventory()[unhealthy][1].reason).endswith("it needs a reset")
    orders.order(NODE, "0", "clear", message="alice: a new card", at=SystemClock().now())
    playground.await_gpus(NODE, GPUS)
    playground.await_phase(["one-too-many"])


@pytest.mark.usefixtures("well")
def test_reloading_the_driver_ends_a_fault_that_needs_a_reset(parts: Parts, playground: Playground) -> None:
    fake = parts.fake_nvml(NODE)
    fake.xid(0, 79)
    playground.await_gpus(NODE, GPUS - 1)
    parts.agent(NODE).kill()
    fake.reload()
    parts.agent(NODE).restart()
    playground.await_gpus(NODE, GPUS)
