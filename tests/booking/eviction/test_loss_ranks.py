"""The order in which plans look at nodes, after any changes."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from booking.eviction.loss_ranks import LossRanks
from booking.eviction.share_floors import NEVER_LATER
from booking.eviction.victims import LostWork
from tests.fakes.objects import A100

NOW, RESTART = 1_000, 7
COSTS = LostWork(now=NOW, restart=RESTART)


@dataclass(frozen=True)
class Holders:
    """What there is of one model on a node."""

    idle: int
    latest: tuple[int, ...]
    is_shared: bool


@dataclass(frozen=True)
class Node:
    """A node, with A100s or without."""

    by_model: dict[str, Holders]


SAVED = st.one_of(st.integers(0, NOW), st.just(NEVER_LATER))
HOLDERS = st.builds(
    Holders,
    idle=st.integers(0, 2),
    latest=st.lists(SAVED, max_size=3).map(lambda found: tuple(sorted(found, reverse=True))),
    is_shared=st.booleans(),
)
NODE = st.one_of(st.just(Node({})), HOLDERS.map(lambda found: Node({A100: found})))
CHANGES = st.dictionaries(st.sampled_from("abcdefghijklmnopqrst"), st.one_of(st.none(), NODE), max_size=20)


def least(found: Holders, need: int) -> int | None:
    missing = need - found.idle
    if missing <= 0 or found.is_shared:
        return 0
    return COSTS.at_least(found.latest[:missing]) if missing <= len(found.latest) else None


@given(st.lists(st.tuples(CHANGES, st.integers(1, 3), st.booleans()), max_size=5))
def test_every_node_with_enough_comes_in_the_order_of_what_is_lost_there_at_least(
    steps: list[tuple[dict[str, Node | None], int, bool]],
) -> None:
    ranks, nodes = LossRanks(), dict[str, Node]()
    for changes, need, all_may in steps:
        nodes = {name: node for name, node in {**nodes, **changes}.items() if node}
        ranks.changed(None if all_may else changes)
        found = list(ranks.ascending(nodes, A100, need, COSTS.at_least_together))
        known = {name: least(node.by_model[A100], need) for name, node in nodes.items() if node.by_model}
        assert sorted(found) == sorted((lost, name) for name, lost in known.items() if lost is not None)
        assert [lost for lost, _ in found] == sorted(lost for lost, _ in found)
