"""An administrator evicts a pod by name and reason: as the booking server does it, with its own rights."""

import pytest

from booking.server.errors import RefusedError
from booking.server.service.evict_orders import PodOrders
from cluster import names
from cluster.objects.pods import asks_for_gpus
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import person
from tests.e2e.persons import Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

WHY = "the rack is on fire"


@pytest.fixture
def orders(cluster: Cluster) -> PodOrders:
    """With the booking server's token: policies and RBAC are those of the chart."""
    token = cluster.service_account_token(names.NAMESPACE, names.BOOKING_SERVER)
    return PodOrders(person(cluster, token), home=names.NAMESPACE)


def test_l2_a_booked_pod_that_is_ordered_to_leave_leaves_and_comes_back_by_its_policy(
    alice: Person, playground: Playground, orders: PodOrders
) -> None:
    booking = alice.book(1)
    name = alice.create(probe.pod("train", [probe.container("main", gpus=1)]))
    playground.await_phase([name])
    before = playground.pod(name)
    assert before.metadata.annotation(names.BOOKING) == booking
    orders.order(playground.namespace, name, by="root", reason=WHY, at=SystemClock().now())
    playground.await_that(
        "another pod of the name has come back without a GPU",
        lambda: any(
            pod.metadata.uid != before.metadata.uid and pod.metadata.name == name and not asks_for_gpus(pod)
            for pod in playground.pods()
        ),
    )
    playground.await_event(name, f"The administrator root has ordered that this pod must go: {WHY}")
    assert playground.pod(name).metadata.annotation(names.EVICT) is None
    assert alice.rest.show(booking).body["state"] == "active"


def test_an_order_for_a_pod_without_gpus_is_refused(
    alice: Person, playground: Playground, orders: PodOrders
) -> None:
    name = alice.create(probe.pod("plain", [probe.container("main", gpus=0)]))
    with pytest.raises(RefusedError, match="asks for no GPU"):
        orders.order(playground.namespace, name, by="root", reason=WHY, at=SystemClock().now())
    assert playground.pod(name).metadata.annotation(names.EVICT) is None
