"""Pods that wait for their turn: nobody overtakes, and the scheduler is not woken for them."""

from datetime import datetime

import pytest

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.nodes import Lease, LeaseSpec
from cluster.objects.pods import Pod
from extender.pending.requeue import PLAN_CHECKED_EVERY, Requeue
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a_pod

WAITS = "[waits-its-turn]"


class Line:
    """Two free A100s, and a pod behind the gate; ``p`` has slipped through."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.requeue = Requeue(
            self.cluster.kube, self.cluster.state, self.cluster.clock, namespace=names.NAMESPACE
        )
        self._renewals = 0
        self.decides()
        self.gated = self.cluster.create(a_pod("gated").of("alice").asks(1).wants(A100).behind())
        self.pod: Pod = self.cluster.create(a_pod().of("bob").asks(1).wants(A100))

    def decides(self, mode: str | None = "order", holder: str = "c") -> None:
        """The controller renews its Lease."""
        self._renewals += 1
        now: datetime = self.cluster.clock.now()
        annotations = {names.FAIR_SHARES: mode} if mode else {}
        meta = Meta(
            name=names.CONTROLLER_LEASE,
            namespace=names.NAMESPACE,
            uid="c",
            resource_version=f"{900 + self._renewals}",
            annotations=annotations,
        )
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=now)
        self.cluster.leases.upsert(Lease(metadata=meta, spec=spec))

    def is_kept_waiting(self, pod: Pod | None = None) -> bool:
        """Whether filter says that it is not the pod's turn."""
        answer = self.cluster.ask(pod or self.pod)
        return WAITS in str(answer.failed_and_unresolvable_nodes)

    def pass_time(self, seconds: float) -> None:
        """The controller goes on deciding meanwhile."""
        for _ in range(round(seconds)):
            self.cluster.clock.advance(1)
            self.decides()
            self.cluster.renew()
            self.requeue.reconcile()

    @property
    def triggers(self) -> int:
        return sum("csistoragecapacities" in call.path for call in self.cluster.kube.calls)


@pytest.fixture
def line() -> Line:
    return Line()


def test_nobody_overtakes_the_line_and_the_scheduler_is_not_woken_for_it(line: Line) -> None:
    assert line.is_kept_waiting()
    line.pass_time(600)
    assert line.triggers == 0


def test_the_pod_is_tried_again_once_nobody_is_in_line(line: Line) -> None:
    assert line.is_kept_waiting()
    line.pass_time(60)
    line.cluster.pods.remove(line.gated)
    line.pass_time(2 * PLAN_CHECKED_EVERY)
    assert line.triggers > 0
    assert not line.is_kept_waiting()


def test_the_pod_is_tried_again_when_no_controller_decides_any_more(line: Line) -> None:
    assert line.is_kept_waiting()
    for _ in range(20):
        line.cluster.clock.advance(1)
        line.cluster.renew()
        line.requeue.reconcile()
    assert line.triggers > 0
    assert not line.is_kept_waiting()


@pytest.mark.parametrize(("mode", "holder"), [(None, "c"), ("order", "")])
def test_turns_are_a_controllers_that_says_so(line: Line, mode: str | None, holder: str) -> None:
    line.decides(mode, holder)
    assert not line.is_kept_waiting()


def test_others_go_on(line: Line) -> None:
    """Those with a booking, with a hold, or with a request that takes nothing from the line."""
    line.cluster.book()
    assert not line.is_kept_waiting(line.cluster.create(a_pod("booked").of("alice").asks(1)))
    assert not line.is_kept_waiting(line.cluster.create(a_pod("else").of("bob").asks(1).wants(A6000)))
    held = a_pod("held").of("bob").asks(1).wants(A100).kept("n0", "GPU-n0-0")
    assert not line.is_kept_waiting(line.cluster.create(held))
    assert line.is_kept_waiting(line.cluster.create(a_pod("any").of("bob").asks(1)))
