"""Which pods are evicted on one node, by examples: the order of the rules, and the devices taken."""

import pytest

from cluster.decide.eviction.victim_selection import (
    NO_VICTIMS,
    NodeCandidate,
    Victim,
    cheapest,
    price,
    select_victims,
    sets,
    taking,
)


def victim(uid: str, devices: int = 1, *, cost: int = 0, since: int = 0, evictions: int = 0) -> Victim:
    held = tuple(f"{uid}{number}" for number in range(devices))
    return Victim(uid=uid, devices=held, cost=cost, since=since, evictions=evictions)


def uids(victims: tuple[Victim, ...] | None) -> str | None:
    return None if victims is None else "".join(sorted(one.uid for one in victims))


@pytest.mark.parametrize(
    ("a", "b", "chosen"),
    [
        (victim("a", cost=1), victim("b", cost=2), "a"),
        (victim("a", cost=1, evictions=9), victim("b", cost=2), "a"),
        (victim("a", evictions=1), victim("b"), "b"),
        (victim("a", evictions=1, since=9), victim("b", since=1), "b"),
        (victim("a", since=1), victim("b", since=2), "b"),
        (victim("b", since=1), victim("a", since=1), "a"),
        (victim("a", 0), victim("b", cost=9), "b"),
        (victim("a", 3), victim("b", 1), "a"),
    ],
    ids=[
        "least lost work",
        "lost work before earlier evictions",
        "fewest earlier evictions",
        "earlier evictions before age",
        "the newest pod",
        "the smallest uid",
        "never one without a device",
        "devices to spare cost nothing",
    ],
)
def test_one_of_two_sufficient_pods_is_evicted(a: Victim, b: Victim, chosen: str) -> None:
    assert uids(cheapest((a, b), 1)) == uids(cheapest((b, a), 1)) == chosen


@pytest.mark.parametrize(
    ("missing", "chosen"), [(0, ""), (1, "a"), (2, "ab"), (3, "ac"), (4, "abc"), (5, None)]
)
def test_the_cheapest_sufficient_set_is_evicted(missing: int, chosen: str | None) -> None:
    crowd = (victim("c", 2, cost=31), victim("b", cost=20), victim("a", cost=10))

    assert uids(cheapest(crowd, missing)) == chosen


def test_the_set_with_fewer_victims_is_evicted_at_equal_cost() -> None:
    crowd = (victim("a", cost=1), victim("b", cost=1), victim("c", 2, cost=2))

    assert uids(cheapest(crowd, 2)) == "c"


def test_a_gang_loses_the_same_whether_one_or_more_of_its_pods_leave() -> None:
    a, b = (Victim(uid=uid, devices=(uid,), cost=0, since=0, gang="g", gang_cost=30) for uid in "ab")
    others = (victim("c", cost=20), victim("d", cost=21))
    assert [uids(cheapest((a, b, *others), missing)) for missing in (1, 2, 3)] == ["c", "ab", "abc"]
    assert next(sets((a, b, *others), 2)) == (a, b)


def test_without_possible_victims_no_device_can_be_freed() -> None:
    assert cheapest((), 0) == ()
    assert cheapest((), 1) is None
    assert cheapest((), 2) is None


@pytest.mark.parametrize("size", [0, 1, 2])
def test_costs_of_a_set_add_up_and_the_newest_victims_come_first(size: int) -> None:
    crowd = (victim("b", cost=3, since=5, evictions=1), victim("a", cost=4, since=7))[:size]

    assert (
        price(crowd)
        == (
            NO_VICTIMS,
            (3, 1, 1, (-5,), ("b",)),
            (7, 1, 2, (-7, -5), ("a", "b")),
        )[size]
    )


SITE = NodeCandidate(
    node="n0",
    free=("f0", "f1"),
    leaving=("l0",),
    outgoing_devices=("c0",),
    victims=(victim("v", cost=5), victim("w")),
)


@pytest.mark.parametrize(
    ("need", "devices", "victims", "waits", "busy"),
    [
        (1, ("f0",), "", False, 0),
        (2, ("f0", "f1"), "", False, 0),
        (3, ("f0", "f1", "l0"), "", False, 1),
        (4, ("f0", "f1", "l0", "c0"), "", True, 2),
        (5, ("f0", "f1", "l0", "c0", "w0"), "w", True, 3),
        (6, ("f0", "f1", "l0", "c0", "v0", "w0"), "vw", True, 4),
    ],
)
def test_free_devices_are_taken_first_and_those_of_victims_last(
    *, need: int, devices: tuple[str, ...], victims: str, waits: bool, busy: int
) -> None:
    found = select_victims(SITE, need)

    assert found is not None
    assert (found.devices, uids(found.victims), found.waits, found.busy) == (devices, victims, waits, busy)
    assert found.rank == (price(found.victims), waits, busy, "n0")
    assert found.node == "n0"


def test_a_node_that_has_too_few_is_not_chosen() -> None:
    assert select_victims(SITE, 7) is None


def test_victims_are_named_in_the_order_of_their_uids() -> None:
    found = taking(NodeCandidate(node="n0"), 2, (victim("w"), victim("v")))

    assert [one.uid for one in found.victims] == ["v", "w"]
    assert found.devices == ("v0", "w0")
    assert not found.waits


def test_a_pod_can_wait_for_room_that_is_no_device() -> None:
    found = taking(SITE, 1, (), waits=True)

    assert found.waits
    assert found.rank == (NO_VICTIMS, True, 0, "n0")


@pytest.mark.parametrize(
    ("missing", "found"), [(0, ["", "a", "b", "ab"]), (1, ["a", "b", "ab"]), (2, ["ab"])]
)
def test_sufficient_sets_come_in_order_of_cost(missing: int, found: list[str]) -> None:
    crowd = (victim("b", cost=2), victim("a", cost=1))

    assert [uids(one) for one in sets(crowd, missing)] == found


def test_without_victims_the_only_set_is_the_empty_one() -> None:
    assert list(sets((), 0)) == [()]
    assert list(sets((), 1)) == []
