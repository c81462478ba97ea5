"""Sets of nodes that are kept for waiting pods."""

from extender.node_sets import NodeSets

ALL = frozenset({"n0", "n1", "n2", "n3"})


def a_set(*names: str) -> frozenset[str]:
    """Another object each time."""
    return frozenset(list(names))


def test_equal_sets_are_one_object() -> None:
    sets = NodeSets()
    first = sets.shared(a_set("n0", "n1"), ALL, ())
    assert sets.shared(a_set("n2"), ALL, [first]) == {"n2"}
    assert sets.shared(a_set("n1", "n0"), ALL, [first]) is first


def test_the_set_of_all_nodes_is_the_one_that_is_there_anyway() -> None:
    sets = NodeSets()
    assert sets.shared(a_set(*ALL), ALL, ()) is ALL
    assert len(sets) == 0


def test_one_that_nobody_keeps_any_more_makes_room() -> None:
    sets = NodeSets(most=2)
    gone = sets.shared(a_set("n0"), ALL, ())
    kept = sets.shared(a_set("n1"), ALL, [gone])
    assert sets.shared(a_set("n2"), ALL, [kept]) == {"n2"}
    assert len(sets) == 2


def test_one_too_many_becomes_that_of_all_nodes() -> None:
    sets = NodeSets(most=2)
    kept = [sets.shared(a_set(name), ALL, ()) for name in ("n0", "n1")]
    assert sets.shared(a_set("n2"), ALL, kept) is ALL
    assert sets.shared(a_set("n1"), ALL, kept) is kept[1]
