"""GPUs without a booking go to whoever holds least: the pictures of the article that the order follows."""

from typing import Any

import pytest

from booking.controller.reclaimer.reclaimer import EVERY
from cluster import names
from cluster.kube.resources import CONFIG_MAPS, PODS
from cluster.objects.pods import is_live
from cluster.objects.scheduling_gates import is_queued
from tests.fakes.objects import a100
from tests.scenarios.acts import BOBS, fill, left, served, settled
from tests.scenarios.conftest import Policy, Worlds
from tests.scenarios.person import NAMESPACE, Person, a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.world import World


@pytest.fixture
def world(fair_world: World) -> World:
    return fair_world


def queued(world: World) -> set[str]:
    return {pod.metadata.name for pod in world.pods() if is_queued(pod)}


def running(world: World, user: str) -> int:
    mine = (pod for pod in world.pods() if is_live(pod) and pod.metadata.annotation(names.USER) == user)
    return sum(pod.status.phase == "Running" for pod in mine)


def twenty(world: World) -> list[str]:
    """Bob's pods have all GPUs, and twenty others of his wait."""
    fill(world)
    waiting = [f"b{number:02}" for number in range(20)]
    for name in waiting:
        world.bob.create(a_pod(name))
    world.run(2)
    return waiting


def test_nobody_waits_in_a_cluster_with_room(world: World) -> None:
    fill(world)
    writes = [call for call in world.kube.calls if call.verb == "PATCH" and "/pods/bob" in call.path]
    assert not any("schedulingGates" in str(call.body) for call in writes)
    assert not any(names.HOLD in str((call.body or {}).get("metadata")) for call in writes)
    settled(world)


@pytest.mark.parametrize("mode", ["order", "reclaim"])
def test_nothing_is_recorded_of_pods_that_find_a_free_gpu(world: World, policy: Policy, mode: str) -> None:
    policy.write(mode=mode)
    for number in range(6):
        world.alice.create(a_pod(f"a-{number}"))
        served(world, f"a-{number}")
        world.run(20)
        world.alice.delete(f"a-{number}")
    assert {call.verb for call in world.kube.calls if "/configmaps" in call.path} <= {"GET"}
    settled(world)


def test_the_next_turn_is_alices_though_twenty_pods_of_bob_are_older(world: World) -> None:
    waiting = twenty(world)
    world.alice.create(a_pod("alice"))
    world.run(2)
    assert queued(world) == {*waiting, "alice"}
    world.bob.delete(BOBS[0])
    served(world, "alice")
    assert queued(world) == set(waiting)
    world.bob.delete(BOBS[1])
    served(world, waiting[0])
    assert queued(world) == set(waiting[1:])
    settled(world)


def test_what_becomes_free_goes_to_each_in_turn_until_both_have_the_same(world: World) -> None:
    waiting = twenty(world)
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(2)
    for name in BOBS:
        world.bob.delete(name)
    world.until(lambda: running(world, "alice") + running(world, "bob") == 4, "all GPUs are in use again")
    assert running(world, "alice") == running(world, "bob") == 2
    assert runs(world, "alice-0", "alice-1", *waiting[:2])
    settled(world)


def test_a_users_own_pods_are_served_by_their_priority(world: World) -> None:
    fill(world)
    for name, priority in {"low": "-5", "plain": None, "high": "7"}.items():
        pod = a_pod(name)
        if priority:
            pod["metadata"]["annotations"][names.PRIORITY] = priority
        world.alice.create(pod)
        world.run(1)
    for freed, name in zip(BOBS, ("high", "plain", "low"), strict=False):
        world.bob.delete(freed)
        served(world, name)
    settled(world)


def test_a_big_pod_that_does_not_fit_keeps_no_free_gpu_from_others(world: World) -> None:
    fill(world)
    world.alice.create(a_pod("big", 2))
    world.bob.create(a_pod("small"))
    world.run(2)
    on_first = [pod.metadata.name for pod in world.pods() if pod.spec.node_name == "n0"]
    world.bob.delete(on_first[0])
    served(world, "small")
    assert queued(world) == {"big"}
    settled(world)


def test_a_booked_pod_takes_what_is_kept_for_a_turn(world: World) -> None:
    waiting = twenty(world)
    world.kill("scheduler", back_after=None)
    world.bob.delete(BOBS[0])
    world.until(lambda: world.pod(waiting[0]).metadata.annotation(names.HOLD) is not None, "its turn")
    world.alice.book()
    world.alice.create(a_pod("alice"))
    world.until(lambda: bool(world.pod("alice").metadata.annotation(names.HOLD)), "bookings come first")
    world.start("scheduler")
    served(world, "alice")
    assert running(world, "bob") == 3
    settled(world)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_turns_go_on_under_another_leader(world: World, seconds: float) -> None:
    waiting = twenty(world)
    world.alice.create(a_pod("alice"))
    world.run(2)
    world.bob.delete(BOBS[0])
    world.run(seconds)
    world.kill("controller-0", back_after=300)
    world.bob.delete(BOBS[1])
    served(world, "alice", waiting[0])
    settled(world)
    assert queued(world) == set(waiting[1:])


def test_off_lifts_everything(world: World, policy: Policy) -> None:
    waiting = twenty(world)
    world.kill("scheduler", back_after=None)
    world.bob.delete(BOBS[0])
    world.until(lambda: bool(world.pod(waiting[0]).metadata.annotation(names.HOLD)), "its turn")
    policy.write(mode="off")
    world.until(lambda: not queued(world), "no pod waits behind a gate")
    world.until(lambda: not world.pod(waiting[0]).metadata.annotation(names.HOLD), "no turn is left")
    world.start("scheduler")
    world.until(lambda: running(world, "bob") == 4, "the scheduler places whom it likes")
    settled(world)


def test_no_pod_of_a_running_one_is_taken_in_order(world: World) -> None:
    were = fill(world)
    for number in range(8):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(600)
    assert left(world, were) == []
    settled(world)


# --- whoever holds too much gives back ----------------------------------------------------------------------


def reclaiming(world: World, policy: Policy, **more: Any) -> dict[str, str]:
    """Bob's pods have all GPUs, and alice wants as many; he deserves two."""
    policy.write(mode="reclaim", **more)
    were = fill(world)
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    return were


def test_bob_gives_back_what_he_holds_above_his_share_and_waits_for_it(world: World, policy: Policy) -> None:
    """The article's last picture, by its own rule: what is lost does not count."""
    were = reclaiming(world, policy, worth=0, min_runtime="PT0S", reclaim_after="PT1M")
    world.run(50)
    assert left(world, were) == []
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=120)
    taken = left(world, were)
    assert len(taken) == running(world, "bob") == 2
    assert runs(world, "alice-0", "alice-1")
    world.until(lambda: set(taken) <= queued(world), "they wait for their GPUs")
    stored = [world.pod(name) for name in taken]
    assert all(
        pod and pod.metadata.annotation(names.RECREATED_FROM) == were[pod.metadata.name] for pod in stored
    )
    settled(world)
    world.run(3600)
    assert running(world, "alice") == running(world, "bob") == 2
    assert left(world, were) == taken
    settled(world)


def test_the_victim_leaves_with_the_pass_after_the_minute(world: World, policy: Policy) -> None:
    """Nothing happens at the end of that minute that would start a pass: they are half a second apart."""
    were = reclaiming(world, policy, worth=0, min_runtime="PT0S", reclaim_after="PT1M")
    world.run(59)
    assert left(world, were) == []
    world.run(1 + 2 * EVERY)
    assert len(left(world, were)) == 2
    settled(world)


def test_nothing_is_destroyed_that_is_worth_more_than_what_was_withheld(world: World, policy: Policy) -> None:
    """Two GPUs are withheld from alice: after so long that is as much as one of bob's pods has worked."""
    were = reclaiming(world, policy, min_runtime="PT0S")
    world.run(80)
    assert left(world, were) == []
    world.until(lambda: len(left(world, were)) == 1, "the cheapest is worth it", within=120)
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=7200)
    assert len(left(world, were)) == 2
    settled(world)


def test_a_fresh_checkpoint_makes_room_at_once(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", min_runtime="PT0S")
    were = fill(world)
    world.run(3600)
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(120)
    assert left(world, were) == []
    world.bob.checkpoint(BOBS[2])
    world.until(lambda: running(world, "alice") == 1, "one pod has saved its work")
    assert left(world, were) == [BOBS[2]]
    settled(world)


def test_a_young_pod_is_not_taken(world: World, policy: Policy) -> None:
    were = reclaiming(world, policy, worth=0, min_runtime="PT10M")
    world.run(500)
    assert left(world, were) == []
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=300)
    settled(world)


@pytest.mark.parametrize("mode", ["off", "order"])
def test_nothing_more_is_taken_once_the_policy_says_so(world: World, policy: Policy, mode: str) -> None:
    for name in BOBS:
        world.bob.create(a_pod(name))
    world.until(lambda: runs(world, *BOBS), "bob has all GPUs")
    were = {name: world.pod(name).metadata.uid for name in BOBS}
    policy.write(mode="reclaim", worth=0, min_runtime="PT0S", reclaim_after="PT0S")
    for name in BOBS:
        world.bob.annotate(name, notice="PT2M")
    world.run(10)
    world.alice.create(a_pod("alice"))
    world.until(lambda: bool(world.pod("alice").metadata.annotation(names.HOLD)), "devices are kept")
    world.run(30)
    policy.write(mode=mode)
    world.until(lambda: not world.pod("alice").metadata.annotation(names.HOLD), "they are kept no more")
    world.run(300)
    assert left(world, were) == []
    settled(world)


def test_the_leader_dies_between_hold_and_eviction(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", worth=0, min_runtime="PT0S", reclaim_after="PT0S")
    were = fill(world)
    for name in BOBS:
        world.bob.annotate(name, notice="PT1M")
    world.alice.create(a_pod("alice"))
    world.until(lambda: bool(world.pod("alice").metadata.annotation(names.HOLD)), "devices are kept")
    world.kill("controller-0", back_after=300)
    served_within(world, "alice", 180)
    assert len(left(world, were)) == 1
    settled(world)


def test_another_leader_goes_on_with_what_is_being_taken(new_world: Worlds, policy: Policy) -> None:
    """Bob and carol have four each, and alice wants as many: one is old enough to leave. It stays fair."""
    nodes = {name: tuple(a100(n, name) for n in range(4)) for name in ("n0", "n1")}
    world = new_world(nodes, policy_file=policy.path, replicas=2)
    policy.write(mode="reclaim", worth=0, min_runtime="PT10M", reclaim_after="PT0S")
    carol = Person(world, "carol")
    world.bob.create(a_pod("bob-0"))
    world.run(300)
    for number in range(4):
        carol.create(a_pod(f"carol-{number}"))
    for number in range(1, 4):
        world.bob.create(a_pod(f"bob-{number}"))
    world.until(lambda: running(world, "bob") + running(world, "carol") == 8, "all GPUs are in use")
    world.bob.annotate("bob-0", notice="PT2M")
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))

    def kept() -> str | None:
        return world.pod("alice-0").metadata.annotation(names.HOLD)

    world.until(lambda: bool(kept()), "devices are kept", within=400)
    before = kept()
    world.kill("controller-0", back_after=300)
    world.run(60)
    assert kept() == before
    served_within(world, "alice-0", 120)
    settled(world)


def test_turns_are_given_though_what_was_owed_cannot_be_read(new_world: Worlds, policy: Policy) -> None:
    """A controller without the right to its record."""
    world = new_world(policy_file=policy.path)
    world.kube.forbid("GET", CONFIG_MAPS)
    waiting = twenty(world)
    world.alice.create(a_pod("alice"))
    world.run(2)
    world.bob.delete(BOBS[0])
    served(world, "alice")
    assert queued(world) == set(waiting)
    settled(world)


def served_within(world: World, name: str, seconds: float) -> None:
    world.until(lambda: runs(world, name), f"{name} runs", within=seconds)


def test_no_pod_is_taken_for_a_share_that_its_owner_has_too(world: World, policy: Policy) -> None:
    """Four users hold one each, and a fifth waits: nobody has more than a share, so nothing moves."""
    policy.write(mode="reclaim", worth=0, min_runtime="PT0S", reclaim_after="PT0S")
    people = {name: world.kube.as_user(name) for name in ("alice", "bob", "carol", "u4", "u5")}
    for name, kube in people.items():
        kube.create(PODS, a_pod(name), namespace=NAMESPACE)
        world.run(1)
    world.run(3600)
    assert runs(world, "alice", "bob", "carol", "u4")
    assert queued(world) == {"u5"}
    settled(world)
