"""A node as decisions see it: what is there, what works, what is held, what is kept."""

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, NodeView
from cluster.decide.ledger.holdings import Holding
from cluster.decide.ledger.view import ByModel, view_of
from cluster.objects.inventory import Device
from tests.fakes.objects import A100, A6000, a100, a6000

GPU = names.GPU_RESOURCE
MIG = "nvidia.com/mig-1g.10gb"
G0, G1, G2 = (f"GPU-n0-{index}" for index in range(3))
P = Holding(uid="uid-p", node="n0", devices={G0: WHOLE})
Q = Holding(uid="uid-q", node="n0", devices={G1: WHOLE}, unknown={GPU: 1, MIG: 2})


def a_view(
    *devices: Device, holdings: tuple[Holding, ...] = (), on_hold: dict[str, str] | None = None
) -> NodeView:
    return view_of("n0", devices=devices or None, fault=None, holdings=holdings, on_hold=on_hold or {})


def uuids(groups: dict[str, ByModel]) -> dict[str, dict[str, list[str]]]:
    return {
        resource: {model: [device.uuid for device in found] for model, found in models.items()}
        for resource, models in groups.items()
    }


def three(health: str = "healthy") -> tuple[Device, ...]:
    return a100(0), a100(1, health=health), a100(2)


@pytest.mark.parametrize(("devices", "published"), [((a100(0),), True), ((), False)])
def test_a_node_is_published_once_it_has_an_inventory(
    *, devices: tuple[Device, ...], published: bool
) -> None:
    view = a_view(*devices)

    assert view.published is published
    assert view.devices == devices


def test_a_node_without_devices_has_no_device_in_any_group() -> None:
    view = a_view()

    assert view.all_by_model == view.free_by_model == {}
    assert view.ordinals == {}
    assert view.models == {}
    assert view.conflicts == ()
    assert view.shape.devices == ()


def test_devices_are_grouped_by_resource_and_model_in_the_order_of_index_and_then_uuid() -> None:
    view = a_view(
        a100(3, uuid="GPU-d"),
        a6000(2, uuid="GPU-c"),
        a100(1, uuid="GPU-b"),
        a100(1, uuid="GPU-a"),
        a100(0, uuid="MIG-a", model="1g.10gb", profile="1g.10gb", parent="GPU-d"),
    )

    assert uuids(view.all_by_model) == {
        GPU: {A100: ["GPU-a", "GPU-b"], A6000: ["GPU-c"]},
        MIG: {"1g.10gb": ["MIG-a"]},
    }
    assert view.ordinals == {"MIG-a": 0, "GPU-a": 1, "GPU-b": 2, "GPU-c": 3, "GPU-d": 4}
    assert view.models["GPU-c"] == A6000


@pytest.mark.parametrize(
    ("view", "there", "healthy", "unheld", "free"),
    [
        (a_view(*three()), 3, 3, 3, 3),
        (a_view(*three(health="unhealthy")), 3, 2, 2, 2),
        (a_view(*three(), holdings=(P,)), 3, 3, 2, 2),
        (a_view(*three(), on_hold={G1: "uid-w"}), 3, 3, 3, 2),
        (a_view(*three(), on_hold={G0: "uid-w"}, holdings=(P,)), 3, 3, 2, 2),
        (a_view(*three(health="unhealthy"), on_hold={G2: "uid-w"}, holdings=(P,)), 3, 2, 1, 0),
        (a_view(*three()).holding(frozenset({G0, G1})), 3, 3, 1, 1),
    ],
    ids=["all free", "unhealthy", "held", "kept", "held and kept", "one of each", "taken by a plan"],
)
def test_every_group_is_a_subset_of_the_one_before(
    view: NodeView, there: int, healthy: int, unheld: int, free: int
) -> None:
    groups = (view.all_by_model, view.healthy_by_model, view.unheld_by_model, view.free_by_model)

    assert [len(group[GPU][A100]) for group in groups] == [there, healthy, unheld, free]


def test_a_model_of_which_nothing_is_free_is_still_a_model_of_the_node() -> None:
    assert uuids(a_view(a100(0), holdings=(P,)).free_by_model) == {GPU: {A100: []}}


def test_holdings_of_pods_are_added_up_by_device_and_by_resource() -> None:
    share = Holding(uid="uid-s", node="n0", devices={G0: 300}, unknown={MIG: 1})

    view = a_view(*three(), holdings=(P, Q, share))

    assert view.held == {G0: WHOLE + 300, G1: WHOLE}
    assert view.unknown == {GPU: 1, MIG: 3}


@pytest.mark.parametrize(
    ("amounts", "conflicts"),
    [((WHOLE,), ()), ((500, 500), ()), ((500, 501), (G0,)), ((WHOLE, WHOLE), (G0,))],
)
def test_l1_a_device_of_which_more_than_the_whole_is_held_is_a_conflict(
    amounts: tuple[int, ...], conflicts: tuple[str, ...]
) -> None:
    holdings = (Holding(uid=f"u{n}", node="n0", devices={G0: held}) for n, held in enumerate(amounts))

    assert a_view(*three(), holdings=tuple(holdings)).conflicts == conflicts


def test_conflicts_are_sorted_and_may_concern_devices_that_the_node_lacks() -> None:
    lost = Holding(uid="uid-x", node="n0", devices={"GPU-z": 2 * WHOLE, "GPU-a": 2 * WHOLE})

    assert a_view(*three(), holdings=(lost,)).conflicts == ("GPU-a", "GPU-z")


def test_the_holders_of_a_device_are_the_pods_that_hold_any_share_of_it() -> None:
    again = Holding(uid="uid-r", node="n0", devices={G0: WHOLE})
    view = a_view(*three(), holdings=(P, Q, again))

    assert view.holders(G0) == ("uid-p", "uid-r")
    assert view.holders(G2) == ()


def test_known_and_unknown_devices_of_a_removed_pod_are_free_again() -> None:
    view = a_view(*three(), holdings=(P, Q), on_hold={G2: "uid-w"})

    left = view.without("uid-q")

    assert left == a_view(*three(), holdings=(P,), on_hold={G2: "uid-w"})
    assert view.held == {G0: WHOLE, G1: WHOLE}


def test_removing_a_pod_that_is_not_there_returns_the_same_view() -> None:
    view = a_view(*three(), holdings=(P,))

    assert view.without("uid-x") is view


def test_holding_no_further_devices_returns_the_same_view() -> None:
    view = a_view(*three())

    assert view.holding(frozenset()) is view


def test_devices_held_in_addition_do_not_end_the_holdings_of_pods() -> None:
    view = a_view(*three(), holdings=(P,)).holding(frozenset({G1}))

    assert view.held == {G0: WHOLE, G1: WHOLE}
    assert view.holders(G1) == ()
