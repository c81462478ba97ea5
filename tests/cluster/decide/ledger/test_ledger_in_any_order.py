"""The ledger is a function of the newest objects, not of the order in which they came (laws L1, L9)."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.ledger import Ledger, NodeView
from cluster.objects.assignment import encode_drift
from tests.fakes.objects import PodBuilder, a100, a_node, a_pod

NODES = ("n0", "n1")
Event = Callable[[Ledger], None]


def uuids(node: str) -> list[str]:
    return [f"GPU-{node}-{index}" for index in range(3)]


def the_views(ledger: Ledger) -> list[NodeView]:
    return [ledger.view(node) for node in NODES]


def applied(pod: PodBuilder) -> Event:
    return lambda ledger: ledger.apply_pod(pod.obj)


def deleted(uid: str, version: int) -> Event:
    return lambda ledger: ledger.forget_pod(uid, str(version))


def noded(node: str, version: int, drift: dict[str, str]) -> Event:
    text = encode_drift({uid: {"main": (uuid,)} for uid, uuid in drift.items()})
    devices = [a100(index, node) for index in range(3)]
    return lambda ledger: ledger.apply_node(a_node(node, *devices, version=version, drift=text))


@st.composite
def life_of_a_pod(draw: st.DrawFn, name: str) -> list[Event]:
    """A pod waits, is bound (by us or by a stranger), and maybe ends and is deleted."""
    waiting = a_pod(name).asks(1)
    node = draw(st.sampled_from(NODES))
    ours = draw(st.booleans())
    bound = waiting.on(node, {"main": (draw(st.sampled_from(uuids(node))),)} if ours else None)
    events = [applied(waiting.at(1)), applied(bound.at(2)), applied(bound.terminating().at(3))]
    events.append(applied(bound.ended().at(4)))
    events.append(deleted(f"uid-{name}", 5))
    return events[: draw(st.integers(1, len(events)))]


@st.composite
def life_of_a_node(draw: st.DrawFn, node: str) -> list[Event]:
    """A node's inventory, with drift that comes and goes."""
    drifts = st.dictionaries(st.sampled_from(("uid-a", "uid-b", "uid-c")), st.sampled_from(uuids(node)))
    return [noded(node, version, draw(drifts)) for version in range(1, draw(st.integers(1, 3)) + 1)]


lives = st.tuples(
    life_of_a_pod("a"), life_of_a_pod("b"), life_of_a_pod("c"), life_of_a_node("n0"), life_of_a_node("n1")
).map(lambda found: [event for life in found for event in life])


@given(lives, st.data())
def test_l9_any_order_and_repetition_of_events_ends_in_the_same_ledger(
    events: list[Event], data: st.DataObject
) -> None:
    straight, shuffled = Ledger(), Ledger()
    for event in events:
        event(straight)
    for event in data.draw(st.permutations(events)):
        event(shuffled)
    for event in data.draw(st.lists(st.sampled_from(events))):
        event(shuffled)

    assert the_views(shuffled) == the_views(straight)


@given(lives, st.data())
def test_what_was_assumed_and_taken_back_leaves_no_trace(events: list[Event], data: st.DataObject) -> None:
    straight, assuming = Ledger(), Ledger()
    for event in events:
        event(straight)
    for event in data.draw(st.permutations(events)):
        name = data.draw(st.sampled_from("abc"))
        node = data.draw(st.sampled_from(NODES))
        assuming.assume(a_pod(name).asks(1).obj, node, {"main": (data.draw(st.sampled_from(uuids(node))),)})
        event(assuming)
    for uid in assuming.assumed:
        assuming.forget_assumed(uid)

    assert the_views(assuming) == the_views(straight)
