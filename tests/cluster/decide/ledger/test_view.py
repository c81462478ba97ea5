"""A node as decisions see it: what is there, what works, what is held, what is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster import names
from cluster.decide.ledger import WHOLE, DeviceUse, Holding, NodeView, PodHoldings, Room
from cluster.decide.ledger.amounts import NO_ROOM, NO_USE, SharingMode
from cluster.decide.ledger.view import ByModel, view_of
from cluster.objects.inventory import Device, Sharing
from tests.fakes.objects import A100, A6000, a100, a6000

GPU = names.GPU_RESOURCE
MIG = "nvidia.com/mig-1g.10gb"
G0, G1, G2 = (f"GPU-n0-{index}" for index in range(3))
P = PodHoldings(uid="uid-p", node="n0", devices={G0: Holding(G0)})
Q = PodHoldings(uid="uid-q", node="n0", devices={G1: Holding(G1)}, unknown={GPU: 1, MIG: 2})


OFFER = Sharing(slots=3, memory=80_000, modes=("time-slice", "mps"))
MPS = frozenset({"mps"})


def share(memory: int, *, compute: int = 0, mode: SharingMode = "mps") -> Holding:
    return Holding(G0, memory, compute, mode)


def a_view(
    *devices: Device, holdings: tuple[PodHoldings, ...] = (), on_hold: dict[str, str] | None = None
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
        (a_view(*three()).holding(map(Holding, (G0, G1))), 3, 3, 1, 1),
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
    part = share(8192, compute=30)
    more = PodHoldings(uid="uid-s", node="n0", devices={G2: part, G0: part}, unknown={MIG: 1})

    view = a_view(*three(), holdings=(P, Q, more, replace(more, unknown={})))

    both = {"shares": 2, "memory": 16384, "compute": 60, "modes": MPS, "slots": 2}
    assert view.held == {G0: DeviceUse(whole=1, **both), G1: WHOLE, G2: DeviceUse(**both)}
    assert view.unknown == {GPU: 1, MIG: 3}


@pytest.mark.parametrize(
    ("held", "conflicts"),
    [
        ((Holding(G0),), ()),
        ((Holding(G0), Holding(G0)), (G0,)),
        ((share(40_000, compute=50), share(41_920, compute=50)), ()),
        ((share(40_000), share(41_921)), (G0,)),
        ((share(1, compute=50), share(1, compute=51)), (G0,)),
        ((share(1), share(1, mode="time-slice")), (G0,)),
        ((share(1), Holding(G0)), (G0,)),
    ],
)
def test_l1_a_device_of_which_more_is_held_than_there_is_is_a_conflict(
    held: tuple[Holding, ...], conflicts: tuple[str, ...]
) -> None:
    holdings = (PodHoldings(uid=f"u{n}", node="n0", devices={G0: part}) for n, part in enumerate(held))

    assert a_view(*three(), holdings=tuple(holdings)).conflicts == conflicts


def test_conflicts_are_sorted_and_may_concern_devices_that_the_node_lacks() -> None:
    lost = PodHoldings(uid="uid-x", node="n0", devices={name: Holding(name) for name in ("GPU-z", "GPU-a")})

    assert a_view(*three(), holdings=(lost, lost)).conflicts == ("GPU-a", "GPU-z")


@pytest.mark.parametrize(
    ("held", "room", "fitting", "too_much"),
    [
        ((), Room(True, 80_000, 100, frozenset(OFFER.modes), 3), Holding(G0), share(80_001)),
        ((Holding(G0),), NO_ROOM, None, share(1)),
        ((share(79_000, compute=70),), Room(False, 1_000, 30, MPS, 2), share(1_000, compute=30), Holding(G0)),
        ((share(79_000),), Room(False, 1_000, 100, MPS, 2), share(1), share(1, mode="time-slice")),
        ((share(1, compute=70),), Room(False, 79_999, 30, MPS, 2), share(1), share(1, compute=31)),
        ((share(1),), Room(False, 79_999, 100, MPS, 2), share(79_999), share(0)),
        ((share(1), share(1), share(1)), Room(False, 79_997, 100, MPS, 0), None, share(1)),
        (
            (Holding(G0, 9, 0, "mps", 2),),
            Room(False, 79_991, 100, MPS, 1),
            share(1),
            Holding(G0, 9, 0, "mps", 2),
        ),
    ],
)
def test_the_room_on_a_device_is_what_no_pod_holds(
    held: tuple[Holding, ...], room: Room, fitting: Holding | None, too_much: Holding
) -> None:
    holdings = tuple(PodHoldings(uid=f"u{n}", node="n0", devices={G0: part}) for n, part in enumerate(held))

    found = a_view(*three(), holdings=holdings).room(a100(0, share=OFFER))

    assert found == room
    assert fitting is None or found.fits(fitting)
    assert not found.fits(too_much)


def test_a_gpu_that_is_not_offered_for_shares_has_room_for_a_whole_pod_only() -> None:
    room = a_view(*three()).room(a100(0))

    assert room.fits(Holding(G0))
    assert not room.fits(share(1))


def test_gpus_that_are_shared_are_open_and_not_free_the_one_with_the_least_room_first() -> None:
    devices = tuple(a100(index, share=OFFER) for index in range(4))
    use = {G0: share(1), G1: share(2)}
    holding = PodHoldings(uid="uid-s", node="n0", devices={**use, G2: Holding(G2)})

    view = a_view(*devices, holdings=(holding,))

    assert [device.uuid for device, _ in view.open_by_model[A100]] == [G1, G0]
    assert [room.memory for _, room in view.open_by_model[A100]] == [79_998, 79_999]
    assert uuids(view.free_by_model) == {GPU: {A100: ["GPU-n0-3"]}}


def test_a_slot_of_an_unknown_gpu_may_be_of_any_gpu_that_seems_to_be_free() -> None:
    unsure = PodHoldings(uid="uid-s", node="n0", devices={}, unknown={names.SHARED_RESOURCE: 2, GPU: 1})

    assert a_view(*three(), holdings=(unsure,)).unknown == {names.SHARED_RESOURCE: 2, GPU: 3}


@given(
    st.lists(
        st.builds(
            Holding,
            device=st.just(G0),
            memory=st.integers(0, 60_000),
            compute=st.integers(0, 60),
            mode=st.sampled_from([None, "time-slice", "mps"]),
        ),
        max_size=6,
    )
)
def test_l1_what_there_is_room_for_is_no_conflict_and_more_is_one(parts: list[Holding]) -> None:
    offer = Sharing(slots=9, memory=81_920, modes=("time-slice", "mps"))
    device, use = a100(0, share=offer), NO_USE
    for part in parts:
        fits = use.room_on(device).fits(part)
        if not fits and part.mode is not None and part.memory == 0:
            continue  # a share of nothing is no share
        assert fits == (not use.plus(part).is_conflict(device))
        use = use.plus(part) if fits else use


def test_the_holders_of_a_device_are_the_pods_that_hold_any_share_of_it() -> None:
    again = PodHoldings(uid="uid-r", node="n0", devices={G0: share(1)})
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

    assert view.holding(()) is view


def test_devices_held_in_addition_do_not_end_the_holdings_of_pods() -> None:
    view = a_view(*three(), holdings=(P,)).holding((Holding(G1),))

    assert view.held == {G0: WHOLE, G1: WHOLE}
    assert view.holders(G1) == ()
