"""Devices written on a pod count for what it asks for, by whomever they were written."""

from cluster import names
from cluster.objects.assignment import assignment_of, devices_of
from tests.fakes.objects import PodBuilder, a_pod

FOUR = tuple(f"GPU-{index}" for index in range(4))


def named(builder: PodBuilder, **containers: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return assignment_of(builder.on("n0", containers).obj) or {}


def test_a_container_has_no_more_than_it_asks_for() -> None:
    assert named(a_pod().asks(2), main=FOUR) == {"main": FOUR[:2]}


def test_a_container_that_asks_for_none_has_none() -> None:
    assert named(a_pod().asks(1), main=FOUR[:1], sidecar=FOUR[1:]) == {"main": FOUR[:1]}
    assert named(a_pod(), main=FOUR) == {}


def test_init_containers_hand_their_devices_on_so_that_the_pod_has_no_more_than_it_can_hold() -> None:
    builder = a_pod().asks(1).init("init-0", 1).init("init-1", 1).init("init-2", 1)
    everything = {"init-0": FOUR[:1], "init-1": FOUR[1:2], "init-2": FOUR[2:3], "main": FOUR[3:]}
    assert len(devices_of(named(builder, **everything))) == 1
    same = dict.fromkeys(everything, FOUR[:1])
    assert named(builder, **same) == same


def test_a_pod_on_which_nothing_is_written_has_none() -> None:
    assert a_pod().asks(1).obj.metadata.annotation(names.ASSIGNED) is None
    assert assignment_of(a_pod().asks(1).obj) is None
