"""A pod that does not come back, the process killed between any two calls: nothing of it is left."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cluster.objects.pods import is_terminating
from tests.booking.controller.reclaimer.evictions.comebacks import World

Make = Callable[[], World]


def prepared_otherwise() -> World:
    """It was prepared to come back, and a budget kept it; meanwhile it must not come back any more."""
    world = World("evicted")
    uid = world.victim.metadata.uid
    world.kube.protect(uid)
    world.round()
    world.kube.protect(uid, protected=False)
    world.why = replace(world.why, back="never")
    return world


WITHOUT_COMEBACK: dict[str, Make] = {
    "evicted": lambda: World("evicted", back="never", notice="For alice's, at 09:00."),
    "ended": lambda: World("ended", back="never"),
    "budget overridden": lambda: World("evicted", back="never", overrides_budget=True),
    "prepared otherwise": prepared_otherwise,
}
"""Evictions after which the pod does not come back."""


def calls_of(make: Make) -> range:
    world = make()
    before = world.kube.ours
    world.play()
    return range(before + 1, world.kube.ours + 1)


POINTS = [(variant, call) for variant, make in WITHOUT_COMEBACK.items() for call in calls_of(make)]


@pytest.mark.parametrize(("variant", "call"), POINTS)
@pytest.mark.parametrize("again", [None, 1, 2])
def test_a_pod_that_must_not_come_back_never_does_when_the_process_is_killed_after_any_call(
    variant: str, call: int, again: int | None
) -> None:
    world = WITHOUT_COMEBACK[variant]()
    world.kube.dies_after = call
    while world.kube.dies_after is not None:
        world.round()
    world.kube.dies_after = None if again is None else world.kube.ours + again
    world.play()
    assert world.pod() is None
    assert world.templates == 0


@pytest.mark.parametrize(("variant", "call"), POINTS)
def test_a_pod_that_may_stay_after_all_is_restored_when_the_process_is_killed_after_any_call(
    variant: str, call: int
) -> None:
    world = WITHOUT_COMEBACK[variant]()
    world.kube.dies_after = call
    while world.kube.dies_after is not None:
        world.round()
    left = world.pod()
    world.wanted = False
    world.play()
    now = world.pod()
    if left is None or is_terminating(left):
        assert now is None
    else:
        assert now is not None
        assert now.metadata.uid == world.victim.metadata.uid
        assert now.metadata.finalizers is None
        assert (now.metadata.labels, world.templates) == (world.victim.metadata.labels, 0)
