"""L6: when state is unknown nothing is evicted, ended or bound."""

from collections.abc import Callable

import pytest

from cluster import names
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.hold import Hold
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH
from tests.laws.breaking import breaks
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]


@pytest.fixture
def crowded(scene: Scene, laws: LawWatcher) -> Scene:
    """Bob's pods have all devices, and ``b3`` must go for alice's."""
    assert laws
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.hold("a", Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=EPOCH))
    return scene


def silence(scene: Scene, seconds: float) -> None:
    """The agent of the node says nothing any more; the mirror does."""
    scene.silence("n0")
    scene.clock.advance(seconds)
    scene.renew()


def test_a_bind_on_a_node_whose_agent_is_silent_breaks_it(scene: Scene, laws: LawWatcher) -> None:
    scene.waiting("a")
    silence(scene, 75)
    with breaks(laws, "L6", "default/a is bound to n0, whose agent has been silent for 75.0 s"):
        scene.bind("a", 0)


def test_a_bind_a_moment_earlier_is_right(scene: Scene, laws: LawWatcher) -> None:
    scene.waiting("a")
    silence(scene, 74.9)
    scene.bind("a", 0)
    laws.check()


def test_a_pod_without_gpus_may_be_bound_anywhere(scene: Scene, laws: LawWatcher) -> None:
    scene.waiting("a", 0)
    silence(scene, 100)
    scene.bind("a")
    laws.check()


def test_a_bind_on_a_node_without_an_agent_breaks_it(scene: Scene, laws: LawWatcher) -> None:
    scene.waiting("a")
    with breaks(laws, "L6", "default/a is bound to n9, whose agent has never been heard"):
        scene.bind("a", 0, node="n9")


def test_an_eviction_on_a_node_whose_agent_is_silent_breaks_it(
    crowded: Scene, laws: LawWatcher, evict: Evict
) -> None:
    silence(crowded, 80)
    with breaks(laws, "L6", "default/b3 is evicted on n0, whose agent has been silent for 80.0 s"):
        evict("b3")


def test_the_leeway_is_what_a_write_may_take_after_its_decision(scene: Scene) -> None:
    laws = watch_memory(scene.kube, scene.clock, leeway=5.0)
    scene.waiting("a")
    scene.waiting("c")
    silence(scene, 79)
    scene.bind("a", 0)
    laws.check()
    scene.clock.advance(1)
    with breaks(laws, "L6", "default/c is bound to n0"):
        scene.bind("c", 1)


@pytest.fixture
def over(scene: Scene, laws: LawWatcher) -> Scene:
    """Alice's pod ``a`` runs, and its booking has just ended."""
    assert laws
    scene.book()
    scene.waiting("a")
    scene.bind("a", 0)
    scene.clock.advance(10)
    scene.renew()
    scene.end_booking()
    return scene


def decide(scene: Scene) -> None:
    scene.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["uid-a"]}}, subresource="status")


def condemn(scene: Scene) -> None:
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": names.BOOKING_ENDED}
    body = {"status": {"conditions": [condition]}}
    scene.kube.patch(PODS, "a", body, namespace="default", subresource="status")
    scene.kube.delete(PODS, "a", namespace="default")


def test_pods_end_while_the_mirror_is_heard(over: Scene, laws: LawWatcher) -> None:
    over.clock.advance(59)
    decide(over)
    condemn(over)
    laws.check()


def test_deciding_who_ends_while_the_mirror_is_silent_breaks_it(over: Scene, laws: LawWatcher) -> None:
    over.clock.advance(60)
    with breaks(laws, "L6", "b-1's pods are to end, and the mirror has been silent for 60.0 s"):
        decide(over)


def test_a_pod_that_is_ended_while_the_mirror_is_silent_breaks_it(over: Scene, laws: LawWatcher) -> None:
    decide(over)
    over.clock.advance(61)
    with breaks(laws, "L6", "default/a are to end, and the mirror has been silent for 61.0 s"):
        condemn(over)


def test_an_eviction_for_a_mirrored_booking_goes_on_without_the_mirror(
    crowded: Scene, laws: LawWatcher, evict: Evict
) -> None:
    crowded.silence_mirror()
    crowded.clock.advance(70)
    crowded.renew()
    evict("b3")
    laws.check()


def test_a_pod_loses_its_stamp_when_it_is_decided_who_ends(over: Scene, laws: LawWatcher) -> None:
    over.annotate("a", names.BOOKING, "b-1")
    over.kube.patch(BOOKINGS, "b-1", {"status": {"ending": []}}, subresource="status")
    over.annotate("a", names.BOOKING, None)
    laws.check()


def test_a_pod_that_loses_its_stamp_before_that_is_decided_breaks_it(over: Scene, laws: LawWatcher) -> None:
    over.annotate("a", names.BOOKING, "b-1")
    with breaks(laws, "L6", "default/a is not booked any more, and it is not decided who ends with b-1"):
        over.annotate("a", names.BOOKING, None)


def test_a_stamp_of_a_booking_that_still_runs_may_go(scene: Scene, laws: LawWatcher) -> None:
    scene.book()
    scene.waiting("a")
    scene.annotate("a", names.BOOKING, "b-1")
    scene.annotate("a", names.BOOKING, None)
    laws.check()
