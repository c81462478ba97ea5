"""Why a hold is kept or dropped at one instant: each problem with its message, and which usually pass."""

from collections.abc import Callable

import msgspec
import pytest

from booking.controller.reclaimer.holds.hold_status import HAS_OTHERS, HoldStatus, hold_status
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import NODES, PODS
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A6000, EPOCH, a100

HOLD = Hold(node="n0", devices=("GPU-n0-0", "GPU-n0-1"), victims=("uid-b0", "uid-b1"), at=EPOCH)
Act = Callable[[FakeCluster], object]


@pytest.fixture
def cluster() -> FakeCluster:
    """Two devices of a node are kept for alice's pod; bob's two must leave."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.fill()
    cluster.book(count=2)
    cluster.waiting("a", 2)
    cluster.hold("a", HOLD)
    return cluster


def status_of(cluster: FakeCluster, hold: Hold = HOLD) -> HoldStatus:
    return hold_status(cluster.pod("a"), hold, cluster.snapshot())


def leaves(cluster: FakeCluster, name: str, *, since: float = 0) -> None:
    """The pod is terminating, and has been for so many seconds after its grace."""
    cluster.kube.delete(PODS, name, namespace="default", grace_seconds=30)
    cluster.clock.advance(since)
    cluster.renew()


def rival(cluster: FakeCluster) -> None:
    """An older hold keeps one of the devices for another pod."""
    cluster.book(count=4)
    cluster.waiting("rival", 2)
    older = Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-b1",), at=EPOCH.replace(hour=8))
    cluster.hold("rival", older)


def given_to_another(cluster: FakeCluster) -> None:
    cluster.gone("b1")
    cluster.opportunist("late", 1)


TROUBLE: dict[str, tuple[Act, str]] = {
    "the booking is over": (
        lambda cluster: cluster.end_booking(),
        "the pod is not covered by a running booking any more",
    ),
    "the node is gone": (lambda cluster: cluster.kube.delete(NODES, "n0"), "the node is gone"),
    "another model is booked": (
        lambda cluster: cluster.book(count=2, model=A6000),
        "a device of it is not healthy any more, or not one that the pod is to have",
    ),
    "a device is not healthy": (
        lambda cluster: cluster.add_node(
            "n0", a100(0), a100(1, health="unhealthy", reason="XID 79"), a100(2), a100(3)
        ),
        "a device of it is not healthy any more, or not one that the pod is to have",
    ),
    "a device is not there": (
        lambda cluster: cluster.add_node("n0", a100(0)),
        "a device of it is not healthy any more, or not one that the pod is to have",
    ),
    "an older hold has a device": (rival, "a device of it is kept for another pod"),
    "another pod has a device": (given_to_another, "a device of it was given to another pod meanwhile"),
    "a victim hangs": (
        lambda cluster: leaves(cluster, "b0", since=3600),
        "the pod default/b0 should have gone long ago, and has not",
    ),
}


@pytest.mark.parametrize(("act", "problem"), TROUBLE.values(), ids=TROUBLE)
def test_a_problem_that_ends_a_hold_is_reported_and_is_not_passing(
    cluster: FakeCluster, act: Act, problem: str
) -> None:
    act(cluster)
    assert status_of(cluster) == HoldStatus(problem=problem)


@pytest.mark.parametrize(
    ("agent", "passing"), [("stops", True), ("is lost", False)], ids=["it stops", "it does not respond"]
)
def test_a_stopped_agent_is_a_passing_problem_and_an_unresponsive_one_is_not(
    cluster: FakeCluster, agent: str, *, passing: bool
) -> None:
    cluster.stop_agent("n0") if agent == "stops" else cluster.lose_agent("n0")
    if agent == "is lost":
        cluster.clock.advance(3600)
        cluster.renew()
    found = status_of(cluster)
    assert found.problem
    assert (found.passing, found.crowded) == (passing, False)


def test_a_victim_that_is_booked_by_now_is_named_with_the_reason(cluster: FakeCluster) -> None:
    cluster.book("b-2", user="bob")
    problem = status_of(cluster).problem or ""
    assert problem.startswith("the pod default/b0 may not be evicted any more: ")
    assert not problem.endswith(": ")


def test_the_first_of_several_problems_is_reported(cluster: FakeCluster) -> None:
    given_to_another(cluster)
    cluster.kube.delete(NODES, "n0")
    assert status_of(cluster).problem == "the node is gone"
    cluster.end_booking()
    assert status_of(cluster).problem == "the pod is not covered by a running booking any more"


@pytest.mark.parametrize(
    ("gone", "leaving", "victims", "free", "complete"),
    [
        ((), (), ["b0", "b1"], (), False),
        ((), ("b0",), ["b1"], (), False),
        ((), ("b0", "b1"), [], (), False),
        (("b0",), (), ["b1"], (0,), False),
        (("b0",), ("b1",), [], (0,), False),
        (("b0", "b1"), (), [], (0, 1), True),
    ],
    ids=["both there", "one leaves", "both leave", "one gone", "one gone, one leaves", "both gone"],
)
def test_a_hold_is_complete_only_when_all_victims_are_gone(
    cluster: FakeCluster,
    gone: tuple[str, ...],
    leaving: tuple[str, ...],
    victims: list[str],
    free: tuple[int, ...],
    *,
    complete: bool,
) -> None:
    for name in gone:
        cluster.gone(name)
    for name in leaving:
        leaves(cluster, name)
    found = status_of(cluster)
    assert found.problem is None
    assert [pod.metadata.name for pod in found.victims] == victims
    assert found.free == {f"GPU-n0-{index}" for index in free}
    assert found.complete is complete


def test_a_hold_is_complete_while_a_victim_that_is_not_in_the_way_remains(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    cluster.gone("b1")
    more = Hold(node="n0", devices=HOLD.devices, victims=("uid-b0", "uid-b1", "uid-b2"), at=EPOCH)
    cluster.hold("a", more)
    assert status_of(cluster, more) == HoldStatus(free=frozenset(HOLD.devices), complete=True)


def test_a_cordoned_node_ends_the_hold_without_counting_as_crowded(cluster: FakeCluster) -> None:
    cordoned = merged(cluster.kube.raw(NODES, "n0"), {"spec": {"unschedulable": True}})
    cluster.kube.put(NODES, cordoned)
    found = status_of(cluster)
    assert "cordoned" in (found.problem or "")
    assert (found.passing, found.crowded) == (False, False)


def test_a_held_device_that_the_pods_request_excludes_is_a_problem(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.MIN_MEMORY, "1")
    assert status_of(cluster).problem is None
    cluster.annotate("a", names.MIN_MEMORY, "10000000")
    assert status_of(cluster).problem == (
        "a device of it is not healthy any more, or not one that the pod is to have"
    )


@pytest.mark.parametrize(
    ("got", "gone", "problem"),
    [((0, 1), (), None), ((2, 3), (), HAS_OTHERS), ((2, 3), ("b0", "b1"), None)],
    ids=["what is kept", "others", "others, and nobody would leave any more"],
)
def test_nobody_leaves_any_more_for_a_pod_whose_claims_have_got_other_devices(
    cluster: FakeCluster, got: tuple[int, ...], gone: tuple[str, ...], problem: str | None
) -> None:
    cluster.add_node("n0", *(msgspec.structs.replace(a100(n), claimed_as=f"gpu-{n}") for n in range(4)))
    for name in gone:
        cluster.gone(name)
    held = tuple(ClaimedDevice(claim="c", node="n0", device=f"gpu-{n}") for n in got)
    pod = msgspec.structs.replace(cluster.pod("a"), claims=PodClaims(count=2, held=held))
    assert hold_status(pod, HOLD, cluster.snapshot()).problem == problem
