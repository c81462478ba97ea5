"""A crash between a pod's disruption condition and its deletion, after which the pod may stay (law L4)."""

import pytest

from booking.controller.reclaimer.evictor import Back
from cluster import event_reasons, names
from cluster.kube.resources import PODS, WHOLE_PODS
from cluster.objects.pods import has_condition
from tests.booking.controller.reclaimer.chain import Chain
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World
from tests.fakes.objects import a_pod

OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


def marked(back: Back = "without-gpu") -> World:
    """A pod whose booking was over, left by a process that died before deleting it; now it may stay."""
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
    """Number of the call that writes the condition."""
    world = World("ended", back=back)
    world.round()
    return next(n for n, call in enumerate(world.calls, start=1) if call.endswith("/status"))


def conditions(world: World) -> list[tuple[str, str]]:
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    return [(one["type"], one["status"]) for one in pod.status["conditions"]]


def test_law_l4_the_disruption_condition_of_a_pod_that_may_stay_is_cleared() -> None:
    world = marked()
    world.play()
    assert conditions(world) == [("Ready", "True"), (names.DISRUPTION_TARGET, "False")]
    pod = world.pod()
    assert pod is not None
    assert not pod.metadata.finalizers
    assert world.templates == 0


def test_law_l4_a_pod_that_its_user_deletes_afterwards_does_not_come_back() -> None:
    world = marked()
    world.sync()
    world.pass_()
    world.user_deletes()
    world.play()
    assert world.pod() is None
    assert world.templates == 0


@pytest.mark.parametrize("call", range(1, 5))
def test_law_l4_everything_is_undone_when_the_process_is_killed_again_while_clearing(call: int) -> None:
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
def test_only_our_own_condition_is_cleared_on_a_pod_without_our_finalizer(*, ours: bool) -> None:
    chain = Chain()
    chain.add_node()
    pod = a_pod("owned").of("bob").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    reason = event_reasons.BOOKING_ENDED if ours else "TerminationByKubelet"
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": reason}
    status = {"phase": "Running", "conditions": [condition]}
    chain.create(pod, {"metadata": {"ownerReferences": [OWNER]}, "status": status})
    chain.reconcile(2)
    assert has_condition(chain.pod("owned"), names.DISRUPTION_TARGET) != ours
    conditions = chain.kube.raw(PODS, "owned", namespace="default")["status"]["conditions"]
    assert [one["reason"] for one in conditions] == [reason]
