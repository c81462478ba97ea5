"""Sets of nodes that are kept for waiting pods."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from extender.state.node_sets import NodeSets

ALL = frozenset({"n0", "n1", "n2", "n3"})


def a_set(*names: str) -> frozenset[str]:
    """Another object each time."""
    return frozenset(list(names))


def test_unused_sets_make_room_for_new_ones() -> None:
    sets = NodeSets(most=2)
    sets.shared(a_set("n0"), ALL, ())
    kept = sets.shared(a_set("n1"), ALL, ())
    assert sets.shared(a_set("n2"), ALL, [kept]) == {"n2"}
    assert len(sets) == 2


def test_a_set_beyond_the_limit_becomes_the_set_of_all_nodes() -> None:
    sets = NodeSets(most=2)
    kept = [sets.shared(a_set(name), ALL, ()) for name in ("n0", "n1")]
    many = [sets.shared(a_set("n2", name), ALL, kept) for name in ("n0", "n1", "n3")]
    assert all(one is many[0] for one in many)
    assert many[0] == ALL
    assert sets.shared(a_set("n1"), ALL, kept) is kept[1]


def test_a_node_that_was_not_reported_yet_is_not_lost() -> None:
    sets = NodeSets(most=1)
    kept = [sets.shared(a_set("n0"), ALL, ())]
    assert sets.shared(a_set("new"), a_set(), kept) == {"new"}
    assert sets.shared(a_set("n2", "newer"), ALL, kept) == ALL | {"newer"}


def test_only_a_few_sets_are_kept_however_often_nodes_change() -> None:
    sets, kept = NodeSets(most=4), list[frozenset[str]]()
    for number in range(40):
        everything = ALL | {f"more{one}" for one in range(number + 1)}
        kept.append(sets.shared(a_set(*everything), everything, kept))
        kept.append(sets.shared(a_set("n0", f"more{number}"), everything, kept))
    assert len(sets) == 4
    assert len(set(map(id, kept))) <= 4 + 40


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.frozensets(st.sampled_from(sorted(ALL)), max_size=3), st.booleans()), max_size=25),
)
def test_a_pod_keeps_at_least_the_nodes_that_rejected_it_and_never_others_than_there_are(
    most: int, rejections: list[tuple[frozenset[str], bool]]
) -> None:
    """One node too many is a requeue in vain, one too few is a pod that waits indefinitely."""
    sets, kept = NodeSets(most=most), list[frozenset[str]]()
    for nodes, is_forgotten in rejections:
        if is_forgotten and kept:
            kept.pop(0)
        found = sets.shared(nodes, ALL, kept)
        assert nodes <= found <= ALL
        assert found in (nodes, ALL)
        assert len(sets) <= most
        kept.append(found)


def test_a_dropped_set_is_kept_again_when_it_is_needed_again() -> None:
    sets = NodeSets(most=1)
    sets.shared(a_set("n0"), ALL, ())
    assert sets.shared(a_set("n1"), ALL, ()) == {"n1"}
    assert sets.shared(a_set("n0"), ALL, ()) == {"n0"}


def test_sets_that_are_all_in_use_are_scanned_only_now_and_then() -> None:
    sets, visits = NodeSets(most=4), 0
    kept = [sets.shared(a_set(name), ALL, ()) for name in sorted(ALL)]

    def used() -> Iterator[frozenset[str]]:
        nonlocal visits
        visits += 1
        yield from kept

    for number in range(40):
        sets.shared(a_set("n0", f"more{number}"), ALL, used())
    assert 0 < visits <= 40 // 4
