"""When a view is rebuilt, and who is notified that it has changed."""

from collections.abc import Callable

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger
from cluster.decide.ledger.changes import SPARE
from cluster.objects.assignment import encode_drift
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.cluster.decide.ledger.test_ledger import G0, G1, free, unreadable
from tests.fakes.objects import PodBuilder, a100, a_node, a_pod

BOUND = a_pod().asks(1).on("n0", {"main": (G0,)})


def two_nodes() -> Ledger:
    ledger = Ledger()
    ledger.apply_node(a_node("n1", a100(0, "n1")))
    ledger.apply_node(a_node("n0", a100(0), a100(1)))
    return ledger


def cordoned() -> Node:
    node = a_node("n0", a100(0), a100(1), version=2)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))


@pytest.mark.parametrize(
    "node",
    [
        a_node("n0", a100(0), a100(1), a100(2), version=2),
        a_node("n0", version=2),
        a_node("n0", a100(0), a100(1), version=2, drift=encode_drift({"uid-p": {"main": (G1,)}})),
        a_node("n0", a100(0), a100(1), version=2, drift="?"),
        unreadable(names.INVENTORY),
        cordoned(),
    ],
    ids=["a device more", "no inventory", "drift", "unreadable drift", "unreadable inventory", "cordoned"],
)
def test_a_view_is_rebuilt_when_its_node_changes_in_a_relevant_way(node: Node) -> None:
    ledger = two_nodes()
    ledger.apply_pod(BOUND.obj)
    before, other, generation = ledger.view("n0"), ledger.view("n1"), ledger.generation
    ledger.changed_nodes()

    ledger.apply_node(node)

    assert ledger.view("n0") != before
    assert ledger.view("n1") is other
    assert ledger.changed_since(generation) == ["n0"]
    assert ledger.changed_nodes() == {"n0"}


def test_a_view_knows_whether_its_node_is_cordoned() -> None:
    ledger = two_nodes()
    assert not ledger.view("n0").is_cordoned

    ledger.apply_node(cordoned())

    assert ledger.view("n0").is_cordoned
    assert not ledger.view("unknown").is_cordoned


def _bind(ledger: Ledger) -> None:
    ledger.apply_pod(BOUND.obj)


def _assume(ledger: Ledger) -> None:
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})


def _keep(ledger: Ledger) -> None:
    ledger.apply_pod(a_pod().asks(1).kept("n0", G0).obj)


@pytest.mark.parametrize("take", [_bind, _assume, _keep])
def test_a_view_follows_pods_that_come_and_go(take: Callable[[Ledger], None]) -> None:
    ledger = two_nodes()
    assert free(ledger.view("n0")) == [G0, G1]

    take(ledger)
    assert free(ledger.view("n0")) == [G1]
    ledger.forget_pod("uid-p")

    assert free(ledger.view("n0")) == [G0, G1]


@pytest.mark.parametrize(
    "pod", [BOUND.at(2).obj, a_pod("idle").on("n0").obj, a_pod("waits").asks(1).obj], ids=lambda pod: pod.key
)
def test_a_pod_that_changes_nothing_here_leaves_the_view_as_it_is(pod: Pod) -> None:
    ledger = two_nodes()
    ledger.apply_pod(BOUND.obj)
    before, generation = ledger.view("n0"), ledger.generation

    ledger.apply_pod(pod)

    assert ledger.view("n0") is before
    assert ledger.generation == generation


def test_a_hold_that_is_seen_again_leaves_the_view_as_it_is() -> None:
    ledger = two_nodes()
    _keep(ledger)
    before = ledger.view("n0")

    ledger.apply_pod(a_pod().asks(1).kept("n0", G0).at(2).obj)

    assert ledger.view("n0") is before


def test_a_bind_that_is_seen_elsewhere_than_assumed_changes_both_views() -> None:
    ledger = two_nodes()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})
    generation = ledger.generation
    assert free(ledger.view("n0")) == [G1]

    ledger.apply_pod(a_pod().asks(1).on("n1", {"main": ("GPU-n1-0",)}).at(2).obj)

    assert ledger.view("n0").held == {}
    assert ledger.view("n1").held == {"GPU-n1-0": WHOLE}
    assert set(ledger.changed_since(generation) or ()) == {"n0", "n1"}


@pytest.mark.parametrize("first", ["p", "q"])
def test_the_second_of_two_pods_on_a_node_still_holds_when_the_first_has_left(first: str) -> None:
    ledger = two_nodes()
    ledger.apply_pod(a_pod("p").asks(1).on("n0", {"main": (G0,)}).obj)
    ledger.apply_pod(a_pod("q").asks(1).on("n0", {"main": (G1,)}).obj)

    ledger.forget_pod(f"uid-{first}")

    assert free(ledger.view("n0")) == [{"p": G0, "q": G1}[first]]
    assert [each.uid for each in ledger.view("n0").holdings] == [{"p": "uid-q", "q": "uid-p"}[first]]


@pytest.mark.parametrize("first", ["p", "q"])
def test_the_second_of_two_holds_on_a_node_still_counts_when_the_first_has_ended(first: str) -> None:
    ledger = two_nodes()
    ledger.apply_pod(a_pod("p").asks(1).kept("n0", G0).obj)
    ledger.apply_pod(a_pod("q").asks(1).kept("n0", G1).obj)

    ledger.forget_pod(f"uid-{first}")

    assert ledger.view("n0").on_hold == {"p": {G1: "uid-q"}, "q": {G0: "uid-p"}}[first]
    assert set(ledger.holds) == {"p": {"uid-q"}, "q": {"uid-p"}}[first]


def test_a_node_that_disappears_is_reported_once() -> None:
    ledger = two_nodes()
    ledger.view("n0")
    ledger.changed_nodes()

    ledger.forget_node("n0")
    ledger.forget_node("n0")
    ledger.forget_node("unknown")

    assert not ledger.view("n0").published
    assert ledger.changed_nodes() == {"n0"}
    assert ledger.changed_nodes() == set()


def test_an_older_state_of_a_node_that_has_disappeared_counts_again() -> None:
    """A node leaves no tombstone: lists and watch report nodes in their order."""
    ledger = two_nodes()
    ledger.forget_node("n0")

    assert ledger.apply_node(a_node("n0", a100(0), version=0))

    assert free(ledger.view("n0")) == [G0]


def test_changes_since_a_generation_come_newest_first_and_can_be_read_again() -> None:
    ledger = two_nodes()
    generation = ledger.generation

    ledger.apply_node(a_node("n1", version=2))
    ledger.apply_pod(BOUND.obj)

    assert ledger.changed_since(generation) == ["n0", "n1"]
    assert ledger.changed_since(generation) == ["n0", "n1"]
    assert ledger.changed_since(ledger.generation) == []


def test_after_too_many_changes_every_node_must_be_read() -> None:
    ledger = Ledger()

    for number in range(SPARE + 1):
        ledger.apply_node(a_node(f"n{number}", a100(0, f"n{number}")))
        ledger.forget_node(f"n{number}")

    assert ledger.changed_since(0) is None


def test_views_come_in_the_order_of_the_names_asked_for_known_or_not() -> None:
    ledger = two_nodes()

    views = ledger.views(["n1", "unknown", "n0"])

    assert [(view.name, view.published) for view in views] == [
        ("n1", True),
        ("unknown", False),
        ("n0", True),
    ]


def test_all_views_are_those_of_the_nodes_that_exist() -> None:
    ledger = two_nodes()
    ledger.apply_pod(a_pod().asks(1).on("gone").obj)
    ledger.view("gone")
    seen = ledger.view("n0")

    found = ledger.all_views()

    assert sorted(found) == ["n0", "n1"]
    assert found["n0"] is seen
    assert found["n1"] is ledger.view("n1")
    found.clear()
    assert sorted(ledger.all_views()) == ["n0", "n1"]


def test_nodes_are_named_in_order_and_only_those_exist() -> None:
    ledger = two_nodes()

    assert ledger.nodes() == ("n0", "n1")
    assert ledger.exists("n0")
    assert not ledger.exists("unknown")


@pytest.mark.parametrize(
    "pod", [a_pod().asks(1).on("n9"), a_pod().asks(1).kept("n9", "GPU-x")], ids=["bound", "kept"]
)
def test_the_view_of_an_unknown_node_is_cached_while_its_name_is_in_use(pod: PodBuilder) -> None:
    ledger = Ledger()
    assert ledger.view("n9") is not ledger.view("n9")

    ledger.apply_pod(pod.obj)
    assert ledger.view("n9") is ledger.view("n9")
    ledger.forget_pod("uid-p")

    assert ledger.view("n9") is not ledger.view("n9")
