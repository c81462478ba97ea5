"""Many booked pods at once, on a slow API server: no pod waits for all the others."""

from typing import Final

import pytest

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import is_terminal, is_terminating
from tests.booking.controller.reclaimer.chain import Chain
from tests.booking.controller.reclaimer.failing_calls import FaultyKube

TAKES: Final = 0.1
"""Seconds for each answer."""
NODES: Final = ("n0", "n1", "n2", "n3")
MANY: Final = 4 * len(NODES)
HIS: Final = tuple(f"b{number}" for number in range(MANY))


class Slow(Chain):
    """A chain whose controller waits for each answer."""

    def api(self) -> Kube:
        """The process under test has a slow API server."""
        slow = FaultyKube(self.kube)
        slow.ours, slow.takes = True, self._wait
        return slow

    def _wait(self) -> None:
        """Meanwhile the watches deliver what has been written."""
        self.clock.advance(TAKES)
        self.renew()
        self.sync()

    def kubelets(self) -> None:
        """The pods that were evicted have ended."""
        for pod in self.kube.list(PODS).items:
            if is_terminating(pod) and not is_terminal(pod):
                self.kube.finish(PODS, pod.metadata.name, namespace="default")

    def has_returned(self, name: str) -> bool:
        """Whether it has come back."""
        return self.exists(name) and self.annotation(name, names.RECREATED_FROM) is not None


@pytest.fixture
def cluster() -> Slow:
    """Sixteen pods of bob's have all GPUs of four nodes; alice has booked as many, and her pods wait."""
    slow = Slow()
    for number, node in enumerate(NODES):
        slow.add_node(node)
        for index in range(4):
            slow.opportunist(HIS[4 * number + index], index, node=node)
    slow.book(count=MANY)
    for number in range(MANY):
        slow.waiting(f"a{number}")
    return slow


@pytest.fixture
def over() -> Slow:
    """Sixteen pods of alice's whose bookings, half of them for one pod each, end at the same moment."""
    slow = Slow()
    for node in NODES:
        slow.add_node(node)
    slow.book("b-all", count=MANY // 2)
    for number in range(MANY // 2):
        slow.book(f"b-{number}", count=1)
    for number, name in enumerate(HIS):
        slow.waiting(name)
        slow.bind(name, number % 4, node=NODES[number // 4])
    slow.sync()
    slow.reclaimer.reconcile()
    for name in ("b-all", *(f"b-{number}" for number in range(MANY // 2))):
        slow.end_booking(name)
    return slow


def test_pods_that_end_together_come_back_in_turn_and_none_is_forgotten(
    over: Slow,
) -> None:
    longest, passes = 0.0, 0
    while not all(map(over.has_returned, HIS)):
        over.kubelets()
        over.sync()
        begun = over.clock.monotonic()
        over.reclaimer.reconcile()
        longest, passes = max(longest, over.clock.monotonic() - begun), passes + 1
        over.clock.advance(1)
        over.renew()
        assert passes < 20 * MANY
    # Sixteen pods with some ten calls each take as many seconds: no pass handled all of them.
    assert longest < MANY / 2
