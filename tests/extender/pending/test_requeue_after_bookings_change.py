"""Pods that stay indefinitely and were refused booked devices: kube-scheduler watches no bookings."""

from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.predicates import AGENT
from cluster.kube.resources import NAMESPACES
from cluster.objects.bookings import Booking
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod
from extender.pending.requeue import PATIENCE, PLAN_CHECKED_EVERY, Requeue
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_booking, a_pod

NAMESPACE = "gpu-booking"
HOUR = timedelta(hours=1)


class Barred:
    """The only GPU is planned for bob: a pod of a DaemonSet does not get it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0", a100(0, "n0"))
        self.requeue = Requeue(self.cluster.kube, self.cluster.state, self.cluster.clock, namespace=NAMESPACE)
        now = self.cluster.clock.now()
        self.booking: Booking = self.cluster.book(
            a_booking("b-bob", user="bob", start=now + 2 * HOUR, end=now + 9 * HOUR)
        )
        self.pod: Pod = self.cluster.create(a_pod().asks(1).of_a_daemon_set())
        assert not self.cluster.ask(self.pod).node_names
        self.requeue.reconcile()
        self.pass_time(2 * PLAN_CHECKED_EVERY, rounds=8)
        assert self.triggers == 0

    def pass_time(self, seconds: float, *, rounds: int) -> None:
        """Let time go by, in so many rounds; the agents go on."""
        for _ in range(rounds):
            self.cluster.clock.advance(seconds / rounds)
            for node in sorted(self.cluster.state.nodes):
                self.cluster.renew(node)
            self.requeue.reconcile()

    @property
    def triggers(self) -> int:
        """How often requeueing was triggered."""
        verbs = [call.verb for call in self.cluster.kube.calls if "csistoragecapacities" in call.path]
        return len(verbs) - verbs.count("POST")


@pytest.fixture
def barred() -> Barred:
    return Barred()


def test_the_end_of_a_booking_that_blocked_the_pod_triggers_a_requeue(barred: Barred) -> None:
    barred.cluster.bookings.remove(barred.booking)
    barred.pass_time(PLAN_CHECKED_EVERY + 5 * PATIENCE, rounds=25)
    assert barred.triggers


def test_a_gpu_elsewhere_that_the_booking_may_have_instead_triggers_a_requeue(barred: Barred) -> None:
    barred.cluster.add_node("n1", a100(0, "n1"))
    barred.pass_time(PLAN_CHECKED_EVERY + 5 * PATIENCE, rounds=25)
    assert barred.triggers


def test_a_namespace_that_is_no_longer_protected_triggers_a_requeue(barred: Barred) -> None:
    protected = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}
    barred.cluster.state.of(NAMESPACES).replace([msgspec.convert(protected, Namespace)])
    assert not barred.cluster.ask(barred.cluster.create(a_pod("bare").asks(1))).node_names
    barred.pass_time(2 * PLAN_CHECKED_EVERY, rounds=8)
    assert barred.triggers == 0
    barred.cluster.state.of(NAMESPACES).replace([])
    barred.pass_time(PLAN_CHECKED_EVERY + 5 * PATIENCE, rounds=25)
    assert barred.triggers


def test_a_pod_that_was_first_rejected_because_of_the_agent_is_checked_too(barred: Barred) -> None:
    barred.cluster.clock.advance(100)
    assert (
        AGENT["unresponsive"].with_code in barred.cluster.ask(barred.pod).failed_and_unresolvable_nodes["n0"]
    )
    barred.pass_time(2 * PLAN_CHECKED_EVERY, rounds=8)
    assert barred.triggers == 0
    barred.cluster.bookings.remove(barred.booking)
    barred.pass_time(PLAN_CHECKED_EVERY + 5 * PATIENCE, rounds=25)
    assert barred.triggers
