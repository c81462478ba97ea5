"""Law L4 at every point between two calls to the API server: killed there, overruled by the user there."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.evictions.comeback import how
from cluster import names
from cluster.kube.errors import Conflict
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_terminating
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World, gpu_pod

Make = Callable[[], World]

VARIANTS: dict[str, Make] = {
    "evicted": lambda: World("evicted"),
    "ended": lambda: World("ended"),
    "requeued": lambda: World("evicted", back="as-it-was", notice="For alice's, at 09:00."),
    "budget overridden": lambda: World("evicted", overrides_budget=True),
    "refused": lambda: World("refused"),
}
TAKEN = [variant for variant in VARIANTS if variant != "refused"]
"""Variants in which the pod is evicted for a reason that may no longer hold."""


def calls_of(variant: str) -> int:
    world = VARIANTS[variant]()
    world.play()
    return world.kube.ours


POINTS = [(variant, call) for variant in VARIANTS for call in range(1, calls_of(variant) + 1)]


def one_came_back(world: World) -> bool:
    pod = world.pod()
    return (
        pod is not None
        and pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
        and asks_for_gpus(pod) == (world.why.back == "as-it-was" or world.why.reason == "refused")
        and not is_terminating(pod)
    )


def nothing_is_left(world: World) -> bool:
    """Whether neither template, finalizer nor label remains."""
    pod = world.pod()
    labels = (pod.metadata.labels or {}) if pod else {}
    has_finalizer = bool(pod and pod.metadata.finalizers)
    marked = pod is not None and how(pod.metadata) != "without-gpu"
    return world.templates == 0 and not has_finalizer and not marked and names.COMEBACK not in labels


def test_each_variant_makes_the_expected_number_of_calls() -> None:
    calls = {variant: calls_of(variant) for variant in VARIANTS}
    expected = {"evicted": 10, "ended": 11, "requeued": 10, "budget overridden": 11, "refused": 11}
    assert calls == expected


@pytest.mark.parametrize(("variant", "call"), POINTS)
def test_law_l4_a_pod_comes_back_once_when_the_process_is_killed_after_any_call(
    variant: str, call: int
) -> None:
    world = VARIANTS[variant]()
    world.kube.dies_after = call
    world.play()
    assert one_came_back(world)
    assert nothing_is_left(world)
    assert world.kube.dies_after is None


@pytest.mark.parametrize(("variant", "call"), POINTS)
@pytest.mark.parametrize("again", range(1, 6))
def test_law_l4_a_pod_comes_back_once_when_the_process_is_killed_twice(
    variant: str, call: int, again: int
) -> None:
    world = VARIANTS[variant]()
    world.kube.dies_after = call
    while world.kube.dies_after is not None:
        world.round()
    world.kube.dies_after = world.kube.ours + again
    world.play()
    assert one_came_back(world)
    assert nothing_is_left(world)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("variant", "call"), POINTS)
def test_law_l4_a_user_who_deletes_the_pod_wins(variant: str, call: int, *, killed: bool) -> None:
    world = VARIANTS[variant]()
    counted: list[bool] = []
    marked: list[bool] = []

    def delete() -> None:
        now = world.pod()
        marked.append(now is not None and has_condition(now, names.DISRUPTION_TARGET))
        counted.append(world.user_deletes())

    world.kube.then[call] = delete
    world.kube.dies_after = call if killed else None
    world.play()
    assert nothing_is_left(world)
    if counted == [True] and marked == [True] and killed:
        # Between our condition and our delete, and we die at the same moment: the user's delete cannot be
        # told from ours any more. Rather a pod without a GPU too many than one too few.
        assert one_came_back(world)
    elif counted == [True]:
        assert world.pod() is None
    else:
        # The pod was leaving by our hand already, or was not there: a delete says nothing then.
        assert one_came_back(world)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("variant", "call"), [point for point in POINTS if point[0] in TAKEN])
def test_law_l4_an_eviction_withdrawn_after_any_call_leaves_the_pod_or_its_comeback(
    variant: str, call: int, *, killed: bool
) -> None:
    world = VARIANTS[variant]()
    leaving: list[bool] = []

    def change_of_mind() -> None:
        now = world.pod()
        gone = now is None or now.metadata.uid != world.victim.metadata.uid
        leaving.append(gone or (now is not None and is_terminating(now)))
        world.wanted = False

    world.kube.then[call] = change_of_mind
    world.kube.dies_after = call if killed else None
    world.play()
    assert nothing_is_left(world)
    if leaving == [True] or not killed:
        assert one_came_back(world)
    else:
        now = world.pod()
        assert now is not None
        assert now.metadata.uid == world.victim.metadata.uid


@pytest.mark.parametrize(("variant", "call"), POINTS)
@pytest.mark.parametrize("killed", [False, True])
def test_law_l4_another_pod_that_the_user_creates_under_the_name_stays(
    variant: str, call: int, *, killed: bool
) -> None:
    world = VARIANTS[variant]()
    theirs: list[Pod] = []

    def make_another() -> None:
        if theirs:
            return
        if call == world.kube.ours:
            world.user_deletes()
        with suppress(Conflict):
            theirs.append(world.kube.create(PODS, gpu_pod(node=None), namespace=NAMESPACE))

    world.kube.then.update(dict.fromkeys(range(call, 40), make_another))
    world.kube.dies_after = call if killed else None
    world.play()
    world.kube.as_somebody_else(make_another)
    assert nothing_is_left(world)
    now = world.pod()
    assert now is not None
    if theirs:
        assert now.metadata.uid == theirs[0].metadata.uid
        assert not is_terminating(now)
    else:
        assert one_came_back(world)


@given(
    variant=st.sampled_from(list(VARIANTS)),
    lags=st.lists(
        st.tuples(
            st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, None, "POST", "PATCH", "GET"])
        ),
        max_size=20,
    ),
    killed_after=st.none() | st.integers(1, 12),
    deleted_after=st.none() | st.integers(1, 12),
)
@settings(max_examples=300)
def test_law_l4_holds_when_watches_lag_behind_and_answers_are_lost(
    variant: str,
    lags: list[tuple[bool, bool, bool, str | None]],
    killed_after: int | None,
    deleted_after: int | None,
) -> None:
    world = VARIANTS[variant]()
    world.kube.dies_after = killed_after
    deleted: list[bool] = []

    def delete() -> None:
        now = world.pod()
        ambiguous = now is not None and has_condition(now, names.DISRUPTION_TARGET)
        deleted.append(world.user_deletes() and not ambiguous)

    if deleted_after is not None:
        world.kube.then[deleted_after] = delete
    for pods, templates, kubelet, lost in lags:
        world.kubelet_works = kubelet
        if lost is not None:
            world.kube.lose(lost)
        world.round(pods=pods, templates=templates)
    world.kubelet_works = True
    world.play()
    assert nothing_is_left(world)
    if deleted == [True]:
        assert world.pod() is None
    elif not deleted:
        assert one_came_back(world)
