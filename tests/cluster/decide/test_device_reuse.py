import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.placement import device_reuse
from cluster.objects.demand import demand
from cluster.objects.pods import ContainerNeed, container_needs
from tests.fakes.objects import PodBuilder, a_pod

MIG = "nvidia.com/mig-1g.5gb"


def allocated(pod: PodBuilder) -> dict[str, tuple[str, ...]]:
    names = iter("ABCDEFGH")
    return device_reuse(container_needs(pod.obj), lambda _, amount: [next(names) for _ in range(amount)])


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod().asks(2), {"main": ("A", "B")}),
        (a_pod().init("setup", 1).asks(1), {"setup": ("A",), "main": ("A",)}),
        (a_pod().init("setup", 2).asks(1), {"setup": ("A", "B"), "main": ("A",)}),
        (a_pod().init("setup", 1).asks(2), {"setup": ("A",), "main": ("A", "B")}),
        (a_pod().init("one", 1).init("two", 2), {"one": ("A",), "two": ("A", "B")}),
        (a_pod().sidecar("proxy", 1).asks(1), {"proxy": ("A",), "main": ("B",)}),
        (
            a_pod().init("setup", 1).sidecar("proxy", 1).asks(1),
            {"setup": ("A",), "proxy": ("A",), "main": ("B",)},
        ),
        (
            a_pod().init("setup", 2).asks(1, container="a").asks(2, container="b"),
            {"setup": ("A", "B"), "a": ("A",), "b": ("B", "C")},
        ),
    ],
)
def test_containers_share_devices_as_the_kubelet_lets_them(
    pod: PodBuilder, expected: dict[str, tuple[str, ...]]
) -> None:
    assert allocated(pod) == expected


def test_devices_of_one_resource_are_not_used_again_for_another() -> None:
    pod = a_pod().init("setup", 2).asks(1, resource=MIG)

    assert demand(container_needs(pod.obj)) == {names.GPU_RESOURCE: 2, MIG: 1}
    assert allocated(pod) == {"setup": ("A", "B"), "main": ("C",)}


def test_a_pod_without_gpus_demands_nothing() -> None:
    assert demand(container_needs(a_pod().obj)) == {}


def test_a_pod_that_asks_for_an_impossible_number_is_still_counted() -> None:
    pod = a_pod().init("setup", 2).asks(10**18)

    assert demand(container_needs(pod.obj)) == {names.GPU_RESOURCE: 10**18}


containers = st.builds(
    ContainerNeed,
    name=st.uuids().map(str),
    kind=st.sampled_from(("init", "sidecar", "app")),
    resource=st.sampled_from((names.GPU_RESOURCE, MIG)),
    count=st.integers(1, 4),
)


@given(st.lists(containers, max_size=6).map(tuple))
def test_as_much_is_counted_as_the_kubelet_allocates(needs: tuple[ContainerNeed, ...]) -> None:
    taken: dict[str, int] = {}

    def source(resource: str, amount: int) -> list[str]:
        before = taken.get(resource, 0)
        taken[resource] = before + amount
        return [f"{resource}-{before + number}" for number in range(amount)]

    device_reuse(needs, source)

    assert {resource: amount for resource, amount in demand(needs).items() if amount} == taken


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        (a_pod(), 0),
        (a_pod().asks(2), 2),
        (a_pod().asks(1, container="a").asks(2, container="b"), 3),
        (a_pod().init("setup", 1).asks(1), 1),
        (a_pod().init("setup", 2).asks(1), 2),
        (a_pod().init("one", 1).init("two", 2), 2),
        (a_pod().sidecar("proxy", 1).asks(1), 2),
        (a_pod().init("setup", 1).sidecar("proxy", 1).asks(1), 2),
        (a_pod().sidecar("proxy", 1).init("setup", 3).asks(1), 4),
    ],
)
def test_a_pod_holds_the_most_that_runs_at_one_time(pod: PodBuilder, count: int) -> None:
    assert sum(demand(container_needs(pod.obj)).values()) == count
