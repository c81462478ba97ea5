"""Claims can be booked: who leaves, what is kept meanwhile, and that no device is ever given twice."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.claiming import BY_CLAIM, claiming, devices_of_claims, rules, world_of_claims
from tests.scenarios.seeing import is_back, runs
from tests.scenarios.world import World

Claims = Callable[..., World]


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[Claims]:
    """Makes worlds whose GPUs are given by claims; the laws are judged at the end of each."""
    with ExitStack() as stack:

        def make(**more: Any) -> World:
            return stack.enter_context(world_of_claims(tmp_path, **more))

        yield make


def test_a_pod_leaves_for_a_booked_pod_with_a_claim(claims: Claims) -> None:
    world = claims()
    bobs = {name: world.bob.create(claiming(name)) for name in ("bob-1", "bob-2")}
    world.until(lambda: all(runs(world, name) for name in bobs), "bob's pods run")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    rivals = [world.bob.create(claiming(f"rival-{n}")) for n in range(3)]
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: any(is_back(world, name, uid) for name, uid in bobs.items()), "bob's pod is back")
    assert rivals
    assert all(len(held) == 1 for held in devices_of_claims(world).values())
    world.until(lambda: not rules(world), "no rule is left")
