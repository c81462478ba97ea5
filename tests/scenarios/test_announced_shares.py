"""What is said of the instant at which GPUs are taken back is what happens then."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from booking.principals import Principal
from booking.server.cluster_status import ClusterStatus
from cluster import event_reasons
from tests.scenarios.acts import fill, left, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.test_blockers import reported
from tests.scenarios.test_fair_shares import Policy, running
from tests.scenarios.world import World

ALICE = Principal(user="alice", name="alice")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(tmp_path / "policy.yaml")


@pytest.fixture
def world(new_world: Worlds, policy: Policy) -> World:
    """Two nodes with two A100s each."""
    return new_world(policy_file=policy.path)


def status(world: World) -> ClusterStatus:
    return ClusterStatus(
        world.server.cache,
        world.kube,
        world.clock,
        EvictionSettings(),
        visibility=lambda: "names",
        unready_reason=lambda: None,
        fair_shares=lambda: FairShares(mode="reclaim"),
    )


def announced(world: World, name: str) -> datetime | None:
    """When the queue says that GPUs are taken back for a pod."""
    found = status(world).queue(ALICE)
    return next((one.taken_at for model in found.models for one in model.pods if one.name == name), None)


def taken_when_it_was_said(world: World, were: dict[str, str], *, after: timedelta) -> None:
    """Alice wants four of bob's four GPUs, and it is said when the first is hers: so long from now."""
    begin = world.clock.now()
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(150)
    due = announced(world, "alice-0")
    assert due is not None
    assert abs(due - begin - after) < timedelta(minutes=2)
    because = " ".join(status(world).why(ALICE, NAMESPACE, "alice-0").because)
    assert (due + timedelta(minutes=1)).strftime("%H:%M") in because or due.strftime("%H:%M") in because
    assert reported(world, "alice-0").count(event_reasons.SHARE_DUE) == 1
    world.run((due - world.clock.now()).total_seconds() - 20)
    assert announced(world, "alice-0") is not None
    assert left(world, were) == []
    world.until(lambda: running(world, "alice") >= 1, "the first GPU is back", within=120)
    assert left(world, were)


def test_without_checkpoints_as_much_is_withheld_as_is_lost(world: World, policy: Policy) -> None:
    """Two GPUs are withheld: after half an hour that is the hour that one of bob's pods had worked."""
    policy.write(mode="reclaim")
    were = fill(world)
    world.run(3600)
    taken_when_it_was_said(world, were, after=timedelta(minutes=30))
    assert len(left(world, were)) == 1
    settled(world)


def test_behind_young_pods_it_is_when_the_first_is_old_enough(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", worth=0)
    taken_when_it_was_said(world, fill(world), after=timedelta(minutes=9.5))
    settled(world)
