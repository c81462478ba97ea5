"""Shares that bookings cover: as many as fit on whole devices, and those that are no larger than booked."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.booking_use import example_of
from cluster.decide.entitlement import candidate_on, entitlement
from cluster.decide.ledger import Ledger
from cluster.objects.bookings import Booking
from tests.fakes.objects import EPOCH, PodBuilder, a_booking, a_node, a_pod, shared_gpu

GPUS = 3


def of_alice(name: str, **amounts: int) -> PodBuilder:
    return a_pod(name).of("alice").shares(**amounts)


def on(builder: PodBuilder, *indices: int) -> PodBuilder:
    return builder.on("n0", {"main": tuple(f"GPU-n0-{index}" for index in indices)})


def covered(*pods: PodBuilder, booking: Booking | None = None) -> list[str]:
    """Those of alice's pods that are covered, on a node with GPUs of 80,000 MiB."""
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *(shared_gpu(index) for index in range(GPUS))))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    view = ledger.view("n0")
    found = [candidate_on(pod.obj, view if pod.node else None) for pod in pods]
    result = entitlement(
        [booking or a_booking()], [one for one in found if one], EPOCH, example=example_of([view])
    )
    return sorted(uid.removeprefix("uid-") for uid in result)


def test_a_whole_booking_covers_as_many_shares_as_fit_on_its_gpu_together() -> None:
    pods = [of_alice(name, memory=30_000) for name in "abc"]
    assert covered(*pods) == ["a", "b"]
    assert covered(*pods, booking=a_booking(count=2)) == ["a", "b", "c"]


def test_shares_on_two_gpus_use_two_of_a_booking_however_small_they_are() -> None:
    pods = [on(of_alice("a", memory=100), 0), on(of_alice("b", memory=100), 1), of_alice("c", memory=100)]
    assert covered(*pods) == ["a", "c"]


def test_a_gpu_of_which_a_share_is_covered_is_no_whole_gpu_any_more() -> None:
    pods = [of_alice("a", memory=100), a_pod("b").of("alice").asks(1)]
    assert covered(*pods) == ["a"]
    assert covered(*pods, booking=a_booking(count=2)) == ["a", "b"]


def test_a_booking_of_shares_covers_so_many_that_are_no_larger_and_never_a_whole_gpu() -> None:
    booking = a_booking(memory=20_000, count=2)
    pods = [of_alice("a", memory=20_000), of_alice("b", memory=20_001), of_alice("c", percentage=25)]
    assert covered(*pods, of_alice("d", memory=1), booking=booking) == ["a", "c"]
    assert covered(a_pod("whole").of("alice").asks(1), booking=booking) == []


def test_a_booked_share_has_no_more_of_the_compute_than_of_the_memory() -> None:
    booking = a_booking(memory=20_000)
    for builder in (of_alice("a", memory=1000, cores=25), on(of_alice("a", memory=1000, cores=25), 0)):
        assert covered(builder, booking=booking) == ["a"]
    for builder in (of_alice("a", memory=1000, cores=26), on(of_alice("a", memory=1000, cores=26), 0)):
        assert covered(builder, booking=booking) == []


sizes = st.sampled_from((10_000, 20_000, 40_000, 50_000, 80_000))


@given(
    pods=st.lists(st.tuples(sizes, st.one_of(st.none(), st.integers(0, GPUS - 1))), max_size=6),
    count=st.integers(0, 3),
)
def test_all_covered_shares_fit_at_one_time_on_as_many_gpus_as_were_booked(
    pods: list[tuple[int, int | None]], count: int
) -> None:
    made = []
    for number, (memory, index) in enumerate(pods):
        pod = of_alice(str(number), memory=memory)
        made.append(pod if index is None else on(pod, index))
    theirs = [pods[int(name)] for name in covered(*made, booking=a_booking(count=count))]
    fixed = {index for _, index in theirs if index is not None}
    waiting = [memory for memory, index in theirs if index is None]
    assert len(fixed) <= count
    used = {index: sum(memory for memory, at in theirs if at == index) for index in fixed}
    bins = [max(0, 80_000 - used[index]) for index in sorted(fixed)] + [80_000] * (count - len(fixed))
    assert not waiting or any(
        all(
            sum(memory for memory, at in zip(waiting, places, strict=True) if at == number) <= size
            for number, size in enumerate(bins)
        )
        for places in product(range(len(bins)), repeat=len(waiting))
    )
