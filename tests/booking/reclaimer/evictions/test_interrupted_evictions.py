"""A crash between a pod's condition that it is taken away and its deletion, and then it may stay (law L4)."""

import pytest

from booking.reclaimer.evictor import Back
from cluster import names
from cluster.kube.resources import PODS, WHOLE_PODS
from cluster.objects.pods import has_condition
from tests.booking.reclaimer.evictions.comebacks import NAMESPACE, World
from tests.booking.reclaimer.test_chain import Chain
from tests.fakes.objects import a_pod

OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


def marked(back: Back = "without-gpu") -> World:
    """A pod whose booking was over, as a process left it that died before it deleted it; then it may stay."""
    world = World("ended", back=back)
    world.kube.dies_after = _after_the_word(back)
    world.round()
    world.wanted = False
    pod = world.pod()
    assert pod is not None
    assert has_condition(pod, names.DISRUPTION_TARGET)
    assert pod.metadata.deletion_timestamp is None
    return world


def _after_the_word(back: Back) -> int:
    """Number of the call by which it is said."""
    world = World("ended", back=back)
    world.round()
    return next(n for n, asked in enumerate(world.asked, start=1) if asked.endswith("/status"))


def conditions(world: World) -> list[tuple[str, str]]:
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    return [(one["type"], one["status"]) for one in pod.status["conditions"]]


def test_law_l4_a_pod_that_may_stay_no_longer_says_that_it_is_taken_away() -> None:
    world = marked()
    world.play()
    assert conditions(world) == [("Ready", "True"), (names.DISRUPTION_TARGET, "False")]
    pod = world.pod()
    assert pod is not None
    assert not pod.metadata.finalizers
    assert world.templates == 0


def test_law_l4_whose_user_deletes_it_then_does_not_come_back() -> None:
    world = marked()
    world.sync()
    world.pass_()
    world.user_deletes()
    world.play()
    assert world.pod() is None
    assert world.templates == 0


@pytest.mark.parametrize("call", range(1, 5))
def test_law_l4_killed_again_while_it_is_cleared_all_is_taken_back(call: int) -> None:
    world = marked()
    world.kube.dies_after = world.kube.ours + call
    world.play()
    assert (names.DISRUPTION_TARGET, "False") in conditions(world)
    assert world.templates == 0


def test_law_l4_a_pod_that_is_evicted_again_before_it_is_cleared_comes_back_once() -> None:
    world = marked()
    world.wanted = True
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid


@pytest.mark.parametrize("ours", [True, False])
def test_a_pod_that_nothing_of_ours_holds_is_cleared_too_and_others_words_stay(*, ours: bool) -> None:
    chain = Chain()
    chain.add_node()
    pod = a_pod("owned").of("bob").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    reason = names.BOOKING_ENDED if ours else "TerminationByKubelet"
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": reason}
    status = {"phase": "Running", "conditions": [condition]}
    chain.create(pod, {"metadata": {"ownerReferences": [OWNER]}, "status": status})
    chain.reconcile(2)
    assert has_condition(chain.pod("owned"), names.DISRUPTION_TARGET) != ours
    conditions = chain.kube.raw(PODS, "owned", namespace="default")["status"]["conditions"]
    assert [one["reason"] for one in conditions] == [reason]
