"""Law L5 for shares: bookings have no more GPUs than were planned for them, and each its own."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import Ledger
from cluster.decide.request import gpu_request_of
from cluster.decide.share_places import SharePlaces, misplaced_shares
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device, Sharing
from tests.fakes.objects import PodBuilder, a_booking, a_node, a_pod, shared_gpu

G0, G1, G2 = (f"GPU-n0-{index}" for index in range(3))


def share(name: str, index: int | None = None, *, memory: int = 10_000) -> PodBuilder:
    builder = a_pod(name).of("alice").shares(memory=memory)
    return builder if index is None else builder.on("n0", {"main": (f"GPU-n0-{index}",)})


def in_lane(name: str, *lanes: int) -> Booking:
    """A booking of so many shares of 10,000 MiB, in these lanes."""
    places = [{"node": "n0", "count": len(lanes), "lanes": lanes}]
    return a_booking(name, memory=10_000, count=len(lanes), places=places)


def gpu(index: int) -> Device:
    """In either mode."""
    offer = Sharing(slots=16, memory=80_000, modes=("time-slice", "mps"))
    return msgspec.structs.replace(shared_gpu(index), share=offer)


class Cluster:
    """A node with three GPUs of 80,000 MiB, and pods with shares."""

    def __init__(self, *pods: PodBuilder) -> None:
        ledger = Ledger()
        ledger.apply_node(a_node("n0", *map(gpu, range(3))))
        for pod in pods:
            ledger.apply_pod(pod.obj)
        self.view = ledger.view("n0")
        self.pods = {pod.obj.metadata.uid: pod.obj for pod in pods}

    def places(self, **cover: Booking) -> SharePlaces:
        """With these pods covered."""
        covered = {f"uid-{name}": booking for name, booking in cover.items()}
        return SharePlaces(views={"n0": self.view}, cover=covered, pods=self.pods)

    def where(self, builder: PodBuilder, booking: Booking, **cover: Booking) -> tuple[list[str], list[str]]:
        """The only GPUs of which the pod may have a share, and those of which it may not have any."""
        pod = builder.obj
        found = self.places(**cover, **{builder.name: booking}).confined(gpu_request_of(pod), booking)
        return sorted(found.only or ()), sorted(found.never)


def test_shares_of_a_booking_of_whole_gpus_stay_on_those_on_which_it_has_some() -> None:
    cluster, mine = Cluster(share("a", 0), share("other", 1)), a_booking("b-1", count=2)
    others = a_booking("b-2")
    assert cluster.where(share("new"), mine, a=mine, other=others) == ([G0], [])
    assert cluster.where(share("new", memory=75_000), mine, a=mine, other=others) == ([], [G1])
    assert cluster.where(share("new"), a_booking("b-3"), a=mine, other=others) == ([], [G0, G1])


def test_shares_of_one_lane_are_on_one_gpu_whichever_bookings_they_are_of() -> None:
    cluster, first, second = Cluster(share("a", 0), share("b", 1)), in_lane("b-1", 1), in_lane("b-2", 2)
    assert cluster.where(share("new"), in_lane("b-3", 1), a=first, b=second) == ([G0], [])
    assert cluster.where(share("new"), in_lane("b-3", 2), a=first, b=second) == ([G1], [])
    assert cluster.where(share("new"), in_lane("b-3", 3), a=first, b=second) == ([], [G0, G1])
    assert cluster.where(share("new"), in_lane("b-3", 1, 3), a=first, b=second) == ([G0], [])


def test_a_booking_with_shares_in_two_lanes_puts_no_more_in_one_of_them_than_it_has_there() -> None:
    cluster, mine, carols = Cluster(share("a", 0), share("c", 1)), in_lane("b-1", 1, 2), in_lane("b-2", 2)
    assert cluster.where(share("new"), mine, a=mine, c=carols) == ([G1], [])


def test_a_pod_with_two_shares_of_one_gpu_uses_two_of_its_lane() -> None:
    pair = a_pod("a").of("alice").shares(container="x", memory=5_000).shares(container="y", memory=5_000)
    cluster = Cluster(pair.on("n0", {"x": (G0,), "y": (G0,)}), share("c", 1))
    for mine in (in_lane("b-1", 1, 1, 2), in_lane("b-1", 2, 1, 1)):
        assert cluster.where(share("new"), mine, a=mine, c=in_lane("b-2", 2)) == ([G1], [])


def test_two_bookings_do_not_come_to_cover_running_shares_of_one_gpu() -> None:
    cluster = Cluster(share("a", 0), share("b", 0), share("c", 1))
    first, second = a_booking("b-1"), a_booking("b-2")
    held = {holding.uid: holding for holding in cluster.view.holdings}
    new = [(held["uid-a"], first), (held["uid-b"], second), (held["uid-c"], second)]
    assert misplaced_shares(cluster.places(), new) == {("uid-b", "b-2")}
    shared = [(held["uid-a"], in_lane("b-1", 1)), (held["uid-b"], in_lane("b-2", 1))]
    assert misplaced_shares(cluster.places(), shared) == frozenset()
    apart = [(held["uid-a"], in_lane("b-1", 1)), (held["uid-c"], in_lane("b-2", 1))]
    assert misplaced_shares(cluster.places(), apart) == {("uid-c", "b-2")}


@pytest.mark.parametrize("mode", ["mps", "any", "time-slice"])
def test_a_gpu_that_is_kept_for_a_share_under_mps_has_room_for_another_one(mode: str) -> None:
    def under(name: str) -> PodBuilder:
        return share(name).with_annotation(names.SHARING_MODE, mode)

    first, mine = under("a"), a_booking("b-1", count=2)
    cluster = Cluster(first)
    hold = Hold(node="n0", devices=(G0,), memory=10_000)
    places = replace(cluster.places(a=mine, new=mine), holds={first.obj.metadata.uid: hold})
    found = places.confined(gpu_request_of(under("new").obj), mine)
    assert found.only == {G0}


def test_a_gpu_whose_room_a_pod_that_is_never_evicted_has_is_no_place_for_more() -> None:
    daemon = a_pod("daemon").of("bob").shares(memory=65_000).on("n0", {"main": (G0,)}).of_a_daemon_set()
    cluster, mine = Cluster(share("a", 0), daemon), a_booking("b-1", count=2)
    assert cluster.where(share("new"), mine, a=mine) == ([], [])


BOOKINGS = st.one_of(
    st.builds(a_booking, st.just("whole"), count=st.just(2)),
    st.builds(
        in_lane, st.sampled_from(["b-1", "b-2"]), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)
    ),
)


@given(
    bookings=st.lists(BOOKINGS, min_size=1, max_size=3, unique_by=lambda one: one.metadata.name),
    pods=st.lists(
        st.tuples(st.integers(0, 2), st.sets(st.integers(0, 2), min_size=1), st.booleans()), max_size=6
    ),
)
def test_a_pod_that_has_a_hold_is_confined_as_if_it_had_none(
    bookings: list[Booking], pods: list[tuple[int, set[int], bool]]
) -> None:
    """Which lanes change without it is found out for these alone, and is the same as for all anew."""
    running: list[PodBuilder] = []
    cover, holds = dict[str, Booking](), dict[str, Hold]()
    for number, (whose, gpus, waits) in enumerate(pods):
        name, booking = f"p{number}", bookings[whose % len(bookings)]
        cover[f"uid-{name}"] = booking
        if waits:
            devices = tuple(f"GPU-n0-{index}" for index in sorted(gpus))
            holds[f"uid-{name}"] = Hold(node="n0", devices=devices, memory=10_000)
        else:
            running.append(share(name, min(gpus)))
    places = replace(Cluster(*running).places(), cover=cover, holds=holds)

    for uid in holds:
        request = gpu_request_of(share(uid.removeprefix("uid-")).obj)
        rest = replace(places, holds={other: hold for other, hold in holds.items() if other != uid})
        assert places.confined(request, cover[uid]) == rest.confined(request, cover[uid])
