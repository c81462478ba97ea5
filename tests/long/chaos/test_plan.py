"""What befalls the product is drawn so that every target is struck in every way, at most two at a time."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.long.chaos.plan import (
    EXTENDER,
    LONGEST_PAUSE,
    OURS,
    ROUND,
    SCHEDULER,
    group_of,
    is_ours,
    part_of,
    planned,
    targets_of,
)

NODES = ("node-a", "node-b")
SEEDS = st.text("0123456789abcdef", min_size=8, max_size=8)
ROUNDS = st.integers(1, 15)


@given(SEEDS)
def test_a_seed_means_the_same_each_time(seed: str) -> None:
    assert planned(seed, ROUND, NODES) == planned(seed, ROUND, NODES)


@given(SEEDS, ROUNDS)
def test_every_target_is_struck_once_in_every_round(seed: str, rounds: int) -> None:
    struck = Counter(harm.target for harm in planned(seed, rounds * ROUND, NODES))
    assert struck == dict.fromkeys(targets_of(NODES), rounds)


@given(SEEDS, st.integers(len(OURS), 6))
def test_a_part_of_ours_is_struck_in_every_way_and_never_twice_in_the_same(seed: str, rounds: int) -> None:
    plan = planned(seed, rounds * ROUND, NODES)
    for target in filter(is_ours, targets_of(NODES)):
        kinds = [harm.kind for harm in plan if harm.target == target]
        assert set(kinds) == set(OURS)
        assert all(before != after for before, after in pairwise(kinds))


@given(SEEDS, ROUNDS)
def test_at_most_two_targets_are_struck_at_a_time_and_two_are_in_every_round(seed: str, rounds: int) -> None:
    waves = Counter(harm.at for harm in planned(seed, rounds * ROUND, NODES))
    assert set(waves.values()) <= {1, 2}
    assert all(
        any(size == 2 and number * ROUND <= at < (number + 1) * ROUND for at, size in waves.items())
        for number in range(rounds)
    )


@given(SEEDS, ROUNDS)
def test_targets_of_one_pod_are_not_struck_together(seed: str, rounds: int) -> None:
    struck = Counter((harm.at, group_of(harm.target)) for harm in planned(seed, rounds * ROUND, NODES))
    assert set(struck.values()) == {1}
    assert group_of(EXTENDER) == group_of(SCHEDULER)


@given(SEEDS, ROUNDS)
def test_faults_come_in_order_and_end(seed: str, rounds: int) -> None:
    plan = planned(seed, rounds * ROUND, NODES)
    assert plan == sorted(plan, key=lambda harm: harm.at)
    assert all(0 <= harm.at < rounds * ROUND and harm.seconds <= LONGEST_PAUSE for harm in plan)
    assert all(harm.seconds > 0 or (is_ours(harm.target) and harm.kind != "paused") for harm in plan)


def test_the_same_daemon_of_every_node_is_counted_as_one_part() -> None:
    assert {part_of(target) for target in targets_of(NODES)} == {
        "node-agent",
        "booking server",
        "leading controller",
        "extender of the leading scheduler",
        "leading scheduler",
        "kubelet",
        "containerd",
        "etcd",
        "kube-apiserver",
    }
