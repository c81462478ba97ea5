"""Pods that use more of a GPU than a claim has of it: alone, or all pods of that claim together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.device_usage import OverUser
from tests.scenarios.acts import came_back, left, settled
from tests.scenarios.claiming import claiming, exactly, template_of, world_of_claims
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import runs, uid_of
from tests.scenarios.test_announced_shares import ALICE
from tests.scenarios.test_announced_shares import status as status_of
from tests.scenarios.test_blockers import budget
from tests.scenarios.test_over_users import NOTICE, OWN, REPORTS, is_notified
from tests.scenarios.world import World

TEN_GIB: Final = 10 * 1024
TOGETHER: Final = ("bob-1", "bob-2")
"""They have one claim."""
ASKS: Final = exactly(capacity={"requests": {"memory": "10Gi"}})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two pods of bob's share 10 GiB of a GPU, and a third one has 10 GiB of it alone."""
    with world_of_claims(tmp_path, gpus=1, shared=True, notice_seconds=NOTICE, **OWN) as world:
        template_of(world, "ten", exactly=ASKS)
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": ASKS}]}}
        world.bob.kube.create(
            RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": spec}, namespace=NAMESPACE
        )
        for name in TOGETHER:
            pod = claiming(name, "shared", named=True)
            pod["metadata"]["labels"] = {"app": "web" if name == "bob-2" else "other"}
            world.bob.create(pod)
        world.bob.create(claiming("bob-3", "ten"))
        world.until(lambda: runs(world, *TOGETHER, "bob-3"), "all three have shares of one GPU")
        yield world


def bobs(world: World) -> dict[str, str]:
    return {name: uid_of(world, name) for name in (*TOGETHER, "bob-3")}


def uses(world: World, *pods: str) -> None:
    """From its next report on, the agent names these pods, which have a share together."""
    world.agents["n0"].over_users = tuple(
        OverUser(device="GPU-n0-0", uid=uid_of(world, name), used=TEN_GIB + 1, limit=TEN_GIB, pods=len(pods))
        for name in pods
    )


def test_all_pods_of_a_claim_leave_together_and_nobody_else(world: World) -> None:
    before = bobs(world)
    uses(world, *TOGETHER)
    world.until(
        lambda: all(is_notified(world, name) for name in TOGETHER), "both are notified", within=REPORTS
    )
    because = " ".join(status_of(world).why(ALICE, NAMESPACE, "bob-1").because)
    assert f"It and 1 more pod of its claim use {TEN_GIB + 1} MiB" in because
    world.run(NOTICE + REPORTS)
    uses(world)
    settled(world)
    assert left(world, before) == came_back(world, before) == list(TOGETHER)


def test_none_of_them_leaves_while_a_budget_keeps_one(world: World) -> None:
    before = bobs(world)
    budget(world)
    uses(world, *TOGETHER)
    world.run(NOTICE + 2 * REPORTS)
    settled(world)
    assert left(world, before) == []
