"""Fair shares where people submit much, are many, or do what helps them alone; and whoever gives back."""

from typing import Any

import pytest

from cluster import names
from cluster.kube.resources import DISRUPTION_BUDGETS, PODS
from cluster.objects.pods import asks_for_gpus
from demo.simulation.controllers import Workload
from demo.simulation.job_controller import BatchJob
from tests.fakes.objects import a100
from tests.scenarios.acts import BOBS, fill, is_kept, left, served, settled
from tests.scenarios.conftest import Policy, Worlds
from tests.scenarios.person import NAMESPACE, Person, a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.test_fair_shares import queued, reclaiming, running, served_within
from tests.scenarios.world import World

AT_ONCE: dict[str, Any] = {"mode": "reclaim", "worth": 0, "min_runtime": "PT0S", "reclaim_after": "PT0S"}
HUB = "system:serviceaccount:hub:hub"
HOUR = 3600.0


@pytest.fixture
def world(new_world: Worlds, policy: Policy) -> World:
    """Two nodes with two A100s each."""
    world = new_world(policy_file=policy.path, trusted_creators=(HUB,))
    policy.show(world.laws.divide_by)
    return world


# --- the article's pictures ---------------------------------------------------------------------------------
def test_neither_priority_nor_number_nor_age_of_pods_gets_anybody_more(world: World) -> None:
    """The article's first two pictures: bob's pods are older, twenty, and of the highest priority."""
    fill(world)
    for number in range(20):
        pod = a_pod(f"b{number:02}")
        pod["metadata"]["annotations"][names.PRIORITY] = "100"
        pod["spec"] |= {"priorityClassName": "high", "priority": 1_000_000}
        world.bob.create(pod)
    for number in range(2):
        world.alice.create(a_pod(f"alice-{number}"))
    for freed, total in zip(BOBS, (1, 2, 2, 2), strict=True):
        world.bob.delete(freed)
        world.until(lambda: running(world, "alice") + running(world, "bob") == 4, "all GPUs are in use")
        assert running(world, "alice") == total
    settled(world)


def test_with_fresh_checkpoints_alice_has_her_share_within_two_minutes(world: World, policy: Policy) -> None:
    """The article's last picture, by the settings that are in force without any others."""
    policy.write(mode="reclaim")
    were = fill(world)
    world.run(HOUR)
    for name in BOBS:
        world.bob.checkpoint(name)
    for number in range(8):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=120)
    settled(world, 6 * HOUR)
    assert (running(world, "alice"), running(world, "bob"), len(left(world, were))) == (2, 2, 2)


def test_two_pods_that_need_all_gpus_do_not_evict_each_other(new_world: Worlds, policy: Policy) -> None:
    """By the article's letter they would, once a minute."""
    policy.write(**AT_ONCE, turn="none")
    world = new_world({"n0": tuple(a100(n, "n0") for n in range(8))}, policy_file=policy.path)
    world.bob.create(a_pod("bob", 8))
    served(world, "bob")
    world.alice.create(a_pod("alice", 8))
    settled(world, 4 * HOUR)
    assert (runs(world, "bob"), queued(world)) == (True, {"alice"})
    world.bob.delete("bob")
    served(world, "alice")
    settled(world)


# --- who gives back ---------------------------------------------------------------------------------------
def crowd(world: World, kind: str) -> None:
    """Bob has all GPUs by pods of a kind."""
    if kind == "job":
        world.controllers.run_job(BatchJob("train", NAMESPACE, 4, a_pod("template"), backoff_limit=9))
    elif kind == "deployment":
        world.controllers.run(Workload("web", NAMESPACE, 4, a_pod("template")))
    else:
        for number in range(4):
            body = a_pod(f"nb-{number}")
            body["metadata"]["annotations"] |= {names.HUB_USER: "bob"}
            body["metadata"]["labels"] = {names.HUB_USER: "bob"}
            Person(world, HUB).create(body)
    world.until(lambda: sum(p.status.phase == "Running" for p in world.pods()) == 4, "four pods run")
    world.run(30)


@pytest.mark.parametrize("kind", ["job", "deployment"])
def test_a_controllers_pods_are_replaced_by_it_and_wait_in_line(
    kind: str, world: World, policy: Policy
) -> None:
    policy.write(**AT_ONCE)
    crowd(world, kind)
    were = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
    for number in range(2):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=120)
    world.until(lambda: len(queued(world)) == 2, "two others wait in their place")
    assert len(left(world, were)) == 2
    assert not any(pod.metadata.annotation(names.RECREATED_FROM) for pod in world.pods())
    settled(world, HOUR)
    assert running(world, "alice") == 2


def test_a_notebook_comes_back_at_once_without_a_gpu(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE)
    crowd(world, "notebook")
    world.alice.create(a_pod("alice"))
    served_within(world, "alice", 120)
    world.until(lambda: running(world, "bob") == 4, "the notebook is back")
    (back,) = (pod for pod in world.pods() if pod.metadata.annotation(names.RECREATED_FROM))
    assert not asks_for_gpus(back)
    settled(world)


def test_no_budget_is_passed_over_for_a_share(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE)
    template = a_pod("template")
    template["metadata"]["labels"] = {"app": "web"}
    world.controllers.run(Workload("web", NAMESPACE, 4, template))
    world.until(lambda: sum(p.status.phase == "Running" for p in world.pods()) == 4, "four pods run")
    budget = {"metadata": {"name": "keep", "namespace": NAMESPACE}, "status": {"disruptionsAllowed": 0}}
    world.kube.put(
        DISRUPTION_BUDGETS,
        budget | {"spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}},
    )
    were = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
    for pod in world.pods():
        world.kube.protect(pod.metadata.uid)
    world.alice.create(a_pod("alice"))
    world.run(HOUR)
    assert left(world, were) == []
    settled(world)


def test_a_booked_pod_takes_what_is_being_taken_for_a_share(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE)
    were = fill(world)
    for name in BOBS:
        world.bob.annotate(name, notice="PT2M")
    carol = Person(world, "carol")
    carol.create(a_pod("carol"))
    world.until(lambda: is_kept(world, "carol"), "devices are kept for carol")
    world.alice.book(4, topology="any")
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: running(world, "alice") == 4, "bookings stand above shares", within=300)
    assert left(world, were) == sorted(BOBS)
    settled(world)
    assert running(world, "carol") == 0


def test_a_hold_that_other_weights_make_unfair_is_dropped(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE)
    were = fill(world)
    for name in BOBS:
        world.bob.annotate(name, notice="PT2M")
    world.alice.create(a_pod("alice"))
    world.until(lambda: is_kept(world, "alice"), "devices are kept")
    policy.write(**AT_ONCE, users="{bob: {quota: {'*': 4}}}")
    world.until(lambda: not is_kept(world, "alice"), "they are kept no more")
    world.run(300)
    assert left(world, were) == []
    settled(world)


# --- who does what helps them alone ------------------------------------------------------------------------
def test_three_hundred_pods_of_bob_gain_him_nothing(world: World) -> None:
    fill(world)
    for number in range(300):
        world.kube.as_user("bob").create(PODS, a_pod(f"b{number:03}"), namespace=NAMESPACE)
    world.alice.create(a_pod("alice"))
    world.run(2)
    world.bob.delete(BOBS[0])
    served(world, "alice")
    assert len(queued(world)) == 300
    settled(world)


@pytest.mark.parametrize("turn", ["PT4H", "none"])
@pytest.mark.parametrize("accounts", [2, 4])
def test_many_accounts_of_one_group_have_one_share(
    accounts: int, turn: str, world: World, policy: Policy
) -> None:
    """Also where each has one GPU, and deserves half a one."""
    puppets = [f"puppet-{number}" for number in range(accounts)]
    policy.write(**AT_ONCE, turn=turn, groups="{lab: {namespaces: [lab]}, other: {members: [alice]}}")
    for number in range(4):
        Person(world, puppets[number % accounts]).create(a_pod(f"puppet-{number}"), namespace="lab")

    def theirs() -> int:
        return sum(pod.status.phase == "Running" for pod in world.pods(namespace="lab"))

    world.until(lambda: theirs() == 4, "they have all GPUs")
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: running(world, "alice") == 2, "the share of alice is half", within=120)
    settled(world, 2 * HOUR)
    assert (running(world, "alice"), theirs()) == (2, 2)


def test_behind_accounts_with_a_gpu_each_of_no_group_a_turn_is_paid_for(world: World, policy: Policy) -> None:
    """Of five shares of 0.8 GPUs, alice has none: she is due after a few hours. Nobody saves anything."""
    policy.write(**AT_ONCE, turn_loss="none")
    for number in range(4):
        Person(world, f"puppet-{number}").create(a_pod(f"puppet-{number}"))
    world.run(60)
    world.alice.create(a_pod("alice"))
    world.until(lambda: runs(world, "alice"), "alice has a turn", within=4 * HOUR)
    settled(world, HOUR)
    assert runs(world, "alice")


def test_a_request_that_no_node_can_meet_earns_nothing(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE)
    were = fill(world)
    for number in range(3):
        world.alice.create(a_pod(f"huge-{number}", 16))
    settled(world, 3 * HOUR)
    assert left(world, were) == []
    Person(world, "carol").create(a_pod("carol"))
    world.until(lambda: running(world, "carol") == 1, "only carol and bob divide what there is", within=120)
    assert (running(world, "bob"), len(left(world, were))) == (3, 1)
    settled(world)


def test_a_false_checkpoint_makes_its_pod_the_first_to_leave(world: World, policy: Policy) -> None:
    were = reclaiming(world, policy)
    world.bob.annotate(BOBS[1], checkpoint_at="2100-01-01T00:00:00Z")
    world.until(lambda: bool(left(world, were)), "one leaves", within=900)
    assert BOBS[1] in left(world, were)
    settled(world)


def test_quotas_above_what_there_is_are_scaled(world: World, policy: Policy) -> None:
    policy.write(**AT_ONCE, users="{alice: {quota: {'*': 30}}, bob: {quota: {'*': 10}}}")
    fill(world)
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: running(world, "alice") == 3, "three of four are hers", within=120)
    settled(world, 2 * HOUR)
    assert (running(world, "alice"), running(world, "bob")) == (3, 1)


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
def test_a_clock_that_jumps_takes_nothing(skew: float, world: World, policy: Policy) -> None:
    were = reclaiming(world, policy)
    world.controller.skew = skew
    world.run(600)
    assert left(world, were) == []
    world.controller.skew = 0.0
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=2 * HOUR)
    settled(world)


def test_a_controller_that_learns_of_everything_late_gives_the_same(world: World, policy: Policy) -> None:
    world.lag("controller-0", 3.0)
    were = reclaiming(world, policy, worth=0, min_runtime="PT0S")
    world.until(lambda: running(world, "alice") == 2, "alice has her share", within=300)
    settled(world, 600)
    assert (running(world, "bob"), len(left(world, were))) == (2, 2)


def test_an_api_server_that_is_away_while_a_gpu_is_being_taken_costs_nobody_another(
    world: World, policy: Policy
) -> None:
    policy.write(**AT_ONCE)
    were = fill(world)
    for name in BOBS:
        world.bob.annotate(name, notice="PT1M")
    world.alice.create(a_pod("alice"))
    world.until(lambda: is_kept(world, "alice"), "devices are kept")
    world.away(45)
    served_within(world, "alice", 240)
    assert len(left(world, were)) == 1
    settled(world)
