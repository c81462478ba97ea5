"""Worlds for scenarios: no fault of ours may be in any log."""

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog

from booking.policy.fair_shares import FairShares
from booking.policy.reading import read_policy
from tests.scenarios.claiming import Claims, world_of_claims
from tests.scenarios.world import World

Worlds = Callable[..., World]


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[Claims]:
    """Makes worlds whose GPUs are given by claims; the laws are judged at the end of each."""
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(world_of_claims(tmp_path, **more))


class Policy:
    """The policy file of a world."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers: list[Callable[[FairShares], None]] = []
        self.write(mode="order")

    def write(self, **shares: Any) -> None:
        """Fair shares as they are from now on; the controller reads them within seconds."""
        lines = "".join(f"  {key}: {value}\n" for key, value in shares.items())
        self.path.write_text(f"fair_shares:\n{lines}")
        self._show()

    def show(self, reader: Callable[[FairShares], None]) -> None:
        """Show somebody what is written, now and whenever it changes."""
        self._readers.append(reader)
        self._show()

    def _show(self) -> None:
        for reader in self._readers:
            reader(read_policy(self.path.read_text()).fair_shares)


@pytest.fixture(autouse=True)
def faults() -> Iterator[list[str]]:
    """Faults of ours that were logged; empty at the end, unless the test has emptied it."""
    found: list[str] = []

    def keep(_logger: object, _name: str, event: dict[str, Any]) -> dict[str, Any]:
        found.append(str(event))
        raise structlog.DropEvent

    before = structlog.get_config()
    wrapper = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(processors=[keep], wrapper_class=wrapper, cache_logger_on_first_use=False)
    yield found
    structlog.configure(**before)
    assert found == []


@pytest.fixture
def new_world(tmp_path: Path) -> Iterator[Worlds]:
    """Makes worlds; the laws are judged at the end of each."""
    with ExitStack() as stack:
        numbers = itertools.count()

        def make(*arguments: Any, kind: Callable[..., World] = World, **more: Any) -> World:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            return stack.enter_context(kind(folder, *arguments, **more))

        yield make


@pytest.fixture
def world(new_world: Worlds) -> World:
    """Two nodes with two A100s each."""
    return new_world()


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """The policy file of ``fair_world``."""
    return Policy(tmp_path / "policy.yaml")


@pytest.fixture
def fair_world(new_world: Worlds, policy: Policy) -> World:
    """Two nodes with two A100s each, two controllers."""
    world = new_world(policy_file=policy.path, replicas=2)
    policy.show(world.laws.divide_by)
    return world
