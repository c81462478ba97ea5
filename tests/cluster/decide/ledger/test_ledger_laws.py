"""The ledger is a function of the newest objects: of no order, and of no repetition (laws L1, L9)."""

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.ledger import DeviceUse, Ledger, NodeView
from cluster.objects.assignment import encode_drift
from tests.fakes.objects import a100, a_node, a_pod

NODES = ("n0", "n1")
Event = Callable[[Ledger], object]


def apply(kind: str, body: object) -> Event:
    return lambda ledger: getattr(ledger, kind)(body)


def gone(uid: str, version: int) -> Event:
    return lambda ledger: ledger.forget_pod(uid, str(version))


def cluster(node: str, first: int, second: int) -> list[Event]:
    """Four pods and two nodes, in several versions each; the devices that two of the pods have differ."""
    devices = [f"GPU-{node}-{index}" for index in range(3)]
    p, q, r, s = (a_pod(name).asks(1) for name in "pqrs")
    drift = encode_drift({"uid-r": {"main": (devices[second],)}})
    return [
        apply("apply_node", a_node("n0", a100(0), version=1)),
        apply("apply_node", a_node(node, *(a100(i, node) for i in range(3)), version=2, drift=drift)),
        apply("apply_node", a_node("n1", a100(0, "n1"), version=1)),
        apply("apply_pod", p.at(1).obj),
        apply("apply_pod", p.on(node, {"main": (devices[first],)}).at(2).obj),
        apply("apply_pod", q.kept(node, devices[second]).at(1).obj),
        apply("apply_pod", q.kept(node, devices[first]).nominated_to("n1").at(2).obj),
        apply("apply_pod", r.nominated_to("n0").at(1).obj),
        apply("apply_pod", r.on(node).at(2).obj),
        apply("apply_pod", s.on(node, {"main": (devices[second],)}).at(1).obj),
        gone("uid-s", 2),
    ]


def views(events: Iterable[Event]) -> list[NodeView]:
    """The ledger's views in the end; they are read after every event, too."""
    ledger = Ledger()
    for event in events:
        event(ledger)
        ledger.views(NODES)
    return ledger.views(NODES)


@st.composite
def clusters(draw: st.DrawFn) -> list[Event]:
    return cluster(draw(st.sampled_from(NODES)), draw(st.integers(0, 2)), draw(st.integers(0, 2)))


@given(clusters(), st.data())
def test_l9_events_in_any_order_give_the_same_ledger(events: list[Event], data: st.DataObject) -> None:
    assert views(data.draw(st.permutations(events))) == views(events)


@given(clusters(), st.data())
def test_l9_events_that_are_repeated_late_change_nothing(events: list[Event], data: st.DataObject) -> None:
    late = data.draw(st.lists(st.sampled_from(events), max_size=8))

    assert views([*events, *late]) == views(events)


ASSIGNED = st.lists(st.lists(st.integers(0, 3), max_size=3, unique=True), max_size=5)


@given(ASSIGNED)
def test_l1_a_device_held_twice_is_a_conflict_and_no_held_device_is_free(pods: list[list[int]]) -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *(a100(index) for index in range(4))))
    for number, held in enumerate(pods):
        devices = tuple(f"GPU-n0-{index}" for index in held)
        ledger.apply_pod(a_pod(f"p{number}").asks(len(held)).on("n0", {"main": devices}).obj)

    view = ledger.view("n0")
    counts = {f"GPU-n0-{index}": sum(index in held for held in pods) for index in range(4)}
    assert view.held == {uuid: DeviceUse(whole=count) for uuid, count in counts.items() if count}
    assert view.conflicts == tuple(uuid for uuid, count in counts.items() if count > 1)
    found = [d.uuid for models in view.free_by_model.values() for ds in models.values() for d in ds]
    assert found == [uuid for uuid, count in counts.items() if not count]
    assert view.unknown == {}
