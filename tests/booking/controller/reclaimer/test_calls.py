"""The calls to the API server that one eviction causes: from the hold to the comeback that is released.

Counted are all calls of the controller, reads as well, except Events, which are written in a thread of their
own, and counted separately here. The booked pod's: its hold, and the read of all Bookings before a pod loses
work. Its cover annotations would be written without any eviction, and are not there in these stories; its
hold is removed by its Binding, which is posted in any case. The victim's: all that names it or its template.
"""

from dataclasses import dataclass
from typing import Final

import pytest

from cluster import names
from cluster.fake.core import Call
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import is_live
from tests.booking.controller.reclaimer.chain import Chain

OURS: Final = "the controller"
OWNER: Final = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "set",
    "uid": "uid-set",
    "controller": True,
}
ANNOTATED: Final = {names.BOOKING: "b-1", names.TERMINATE_AT: "2026-11-25T09:00:00Z"}


class Counted(Chain):
    """A chain that distinguishes the controller's calls from all others."""

    def api(self) -> Kube:
        """The API server as the controller's own client."""
        return self.kube.as_user(OURS)


@dataclass(frozen=True)
class EvictionCalls:
    """The controller's calls, each as its verb and path."""

    booked: list[str]
    victim: list[str]
    others: list[str]
    events: int
    """Messages that were reported: at most one Event each."""


def eviction_calls(cluster: Chain, victim: str) -> EvictionCalls:
    """The calls because of the eviction of ``victim`` for the pod ``a``."""
    calls = [call for call in cluster.kube.calls if call.user == OURS]
    of_booked = [call for call in calls if _names(call, "a") or call.path.endswith("/bookings")]
    rest = [call for call in calls if call not in of_booked]
    of_victim = [call for call in rest if victim in call.path or victim in str(call.body)]
    others = [summary(call) for call in rest if call not in of_victim]
    events = len(cluster.events) + len(cluster.recorded)
    return EvictionCalls([*map(summary, of_booked)], [*map(summary, of_victim)], others, events)


def _names(call: Call, pod: str) -> bool:
    return f"/pods/{pod}" in f"{call.path}/".replace("?", "/")


def summary(call: Call) -> str:
    return f"{call.verb} {call.path}"


@pytest.fixture
def cluster() -> Chain:
    """Alice's booked pod, annotated at its creation, waits; bob's four have all A100s."""
    chain = Counted().contended()
    for key, value in ANNOTATED.items():
        chain.annotate("a", key, value)
    return chain


def served(cluster: Chain, victim: str) -> None:
    """The victim leaves and ends, and the booked pod is bound as the extender does it: with an empty hold."""
    cluster.reconcile(2)
    assert not is_live(cluster.pod(victim))
    cluster.end(victim)
    cluster.reconcile(3)
    cluster.annotate("a", names.HOLD, "")
    cluster.bind("a", 3)
    cluster.reconcile(5)


def with_a_quick_watch(cluster: Chain) -> None:
    """The hold is there in the controller's cache when it asks for the next write but one."""
    cluster.kube.before("PATCH", lambda: cluster.kube.before("PATCH", cluster.sync))


def test_evicting_a_bare_pod_costs_at_most_eleven_calls_and_its_booked_pod_two(cluster: Chain) -> None:
    with_a_quick_watch(cluster)
    served(cluster, "b3")
    assert cluster.annotation("b3", names.RECREATED_FROM) == "uid-b3"
    assert not cluster.pod("b3").metadata.finalizers
    counted = eviction_calls(cluster, "b3")
    assert counted.others == []
    assert len(counted.victim) <= 11, counted.victim
    assert len(counted.booked) <= 2, counted.booked
    assert counted.events <= 4


def test_evicting_a_controllers_pod_costs_at_most_four_calls_with_those_of_the_booked_pod(
    cluster: Chain,
) -> None:
    raw = cluster.kube.raw(PODS, "b3", namespace="default")
    raw["metadata"]["ownerReferences"] = [OWNER]
    cluster.kube.put(PODS, raw)
    with_a_quick_watch(cluster)
    served(cluster, "b3")
    counted = eviction_calls(cluster, "b3")
    assert counted.others == []
    assert len(counted.victim + counted.booked) <= 4, (counted.victim, counted.booked)
    assert counted.events <= 3


def test_a_late_watch_costs_one_more_read_of_the_victim_and_two_for_the_booked_pod(
    cluster: Chain,
) -> None:
    served(cluster, "b3")
    counted = eviction_calls(cluster, "b3")
    assert counted.others == []
    assert len(counted.victim) <= 12, counted.victim
    assert len(counted.booked) <= 4, counted.booked
