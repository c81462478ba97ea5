"""L3: no needless victim."""

from collections.abc import Callable

import pytest

from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import NODES, PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a100, a6000, a_pod
from tests.laws.breaking import breaks
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]


def hold(*indices: int, victims: tuple[str, ...] = (), node: str = "n0") -> Hold:
    devices = tuple(f"GPU-{node}-{index}" for index in indices)
    return Hold(node=node, devices=devices, victims=tuple(f"uid-{v}" for v in victims), at=EPOCH)


@pytest.fixture
def full(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob's four pods have all devices, and alice's booked one waits."""
    assert laws
    cluster.fill()
    cluster.book(count=2)
    cluster.waiting("a")
    return cluster


def test_a_hold_with_the_one_victim_that_it_needs_is_just(
    full: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    full.hold("a", hold(3, victims=("b3",)))
    evict("b3")
    laws.check()


def test_devices_of_a_pod_that_leaves_anyway_need_no_victim(full: FakeCluster, laws: LawWatcher) -> None:
    full.kube.delete(PODS, "b3", namespace="default")
    full.hold("a", hold(3))
    laws.check()


def test_a_victim_while_a_device_is_free_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.gone("b0")
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("a", hold(3, victims=("b3",)))


def test_a_victim_while_another_node_has_a_free_device_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.add_node("n1")
    with breaks(laws, "L3", "n1 has 4 devices for which nobody has to go"):
        full.hold("a", hold(3, victims=("b3",)))


@pytest.mark.parametrize("why", ["cordoned", "unresponsive", "unhealthy", "another model", "kept", "barred"])
def test_a_node_that_does_not_suit_the_pod_excuses_a_victim(
    full: FakeCluster, laws: LawWatcher, why: str
) -> None:
    devices = {
        "unhealthy": [a100(0, "n1", health="unhealthy")],
        "another model": [a6000(0, "n1")],
    }.get(why, [a100(0, "n1")])
    full.add_node("n1", *devices, **({"unschedulable": True} if why == "cordoned" else {}))
    if why == "unresponsive":
        full.lose_agent("n1")
        full.clock.advance(80)
        full.renew()
    if why == "kept":
        full.waiting("first")
        with laws.expecting("L3"):  # a hold that nobody needs, as the pod would fit
            full.waiting("unbooked", user="bob")
            full.hold("unbooked", hold(0, node="n1"))
    if why == "barred":
        full.annotate("a", names.BARRED, "n1")
    full.hold("a", hold(3, victims=("b3",)))
    laws.check()


def test_a_victim_that_could_be_spared_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.opportunist("b0", 0)
    cluster.opportunist("b12", 1, 2)
    cluster.opportunist("b3", 3)
    cluster.book(count=2)
    cluster.waiting("a", 2)
    with breaks(laws, "L3", "its victim default/b0 could be spared"):
        cluster.hold("a", hold(0, 1, victims=("b0", "b12")))


def cpu(cluster: FakeCluster, pod: str, much: str) -> None:
    containers = cluster.kube.raw(PODS, pod, namespace="default")["spec"]["containers"]
    resized = [merged(one, {"resources": {"requests": {"cpu": much}}}) for one in containers]
    raw = cluster.kube.raw(PODS, pod, namespace="default")
    cluster.kube.put(PODS, merged(raw, {"spec": {"containers": resized}}))


@pytest.fixture
def tight(full: FakeCluster) -> FakeCluster:
    """The node has 8 CPUs, of which one of bob's pods has 6; a GPU is free."""
    full.gone("b0")
    size = {"status": {"allocatable": {"cpu": "8", "pods": "9"}}}
    full.kube.put(NODES, merged(full.kube.raw(NODES, "n0"), size))
    cpu(full, "b3", "6")
    return full


def test_a_victim_without_which_there_is_no_room_is_just(
    tight: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    cpu(tight, "a", "4")
    tight.hold("a", hold(0, victims=("b3",)))
    evict("b3")
    laws.check()


def test_a_victim_that_occupies_nothing_that_is_needed_breaks_it(
    tight: FakeCluster, laws: LawWatcher
) -> None:
    cpu(tight, "a", "4")
    with breaks(laws, "L3", "its victim default/b2 has no device of it, and nothing else that is needed"):
        tight.hold("a", hold(0, victims=("b2", "b3")))


def test_a_victim_on_a_node_with_a_free_device_and_room_breaks_it(
    tight: FakeCluster, laws: LawWatcher
) -> None:
    cpu(tight, "a", "2")
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        tight.hold("a", hold(3, victims=("b3",)))


def test_a_victim_is_just_where_those_served_before_need_what_is_free(
    full: FakeCluster, laws: LawWatcher
) -> None:
    full.gone("b0")
    full.waiting("b")
    full.hold("b", hold(3, victims=("b3",)))
    laws.check()


def test_a_victim_is_not_just_where_those_served_before_can_be_served_elsewhere(
    full: FakeCluster, laws: LawWatcher
) -> None:
    full.gone("b0")
    full.add_node("n1", a100(0, "n1"))
    full.waiting("b")
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("b", hold(3, victims=("b3",)))


def test_a_booked_victim_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.book("b-2", user="bob", count=1)
    with breaks(laws, "L3", "its victim default/b0 is booked by b-2"):
        full.hold("a", hold(0, victims=("b0",)))


def test_a_holder_that_is_not_among_the_victims_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "default/b3 has a device of it and is not among its victims"):
        full.hold("a", hold(3))


def test_a_victim_without_any_of_the_devices_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "its victim default/b2 has no device of it"):
        full.hold("a", hold(3, victims=("b2", "b3")))


def test_more_devices_than_the_pod_needs_break_it(full: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "it keeps 2 devices, and the pod needs 1"):
        full.hold("a", hold(2, 3, victims=("b2", "b3")))


def test_a_device_of_another_model_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.add_node("n1", a6000(0, "n1"))
    cluster.book()
    cluster.waiting("a")
    with breaks(laws, "L3", "GPU-n1-0 is no healthy NVIDIA-A100-SXM4-80GB of the node"):
        cluster.hold("a", hold(0, node="n1"))


def test_a_device_that_is_kept_for_another_breaks_it(full: FakeCluster, laws: LawWatcher) -> None:
    full.waiting("a2")
    full.hold("a", hold(3, victims=("b3",)))
    with breaks(laws, "L3", "GPU-n0-3 is kept for another pod"):
        full.hold("a2", hold(3, victims=("b3",)))


def test_a_hold_for_a_pod_that_is_not_booked_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.fill()
    cluster.waiting("a")
    with breaks(laws, "L3", "Devices are kept for default/a, which no booking covers"):
        cluster.hold("a", hold(3, victims=("b3",)))


@pytest.mark.usefixtures("full")
def test_an_eviction_without_a_hold_breaks_it(laws: LawWatcher, evict: Evict) -> None:
    with breaks(laws, "L3", "default/b3 is evicted, though no hold names it"):
        evict("b3")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (names.NOT_UUID, "GPU-n0-3"),
        (names.UUID, "GPU-n0-2"),
        (names.MIN_MEMORY, "90000"),
    ],
)
def test_a_device_that_the_pod_does_not_request_breaks_it(
    full: FakeCluster, laws: LawWatcher, annotation: str, value: str
) -> None:
    full.gone("a")
    full.waiting("w", annotations={annotation: value})
    with breaks(laws, "L3", "GPU-n0-3 is not what the pod requests"):
        full.hold("w", hold(3, victims=("b3",)))


@pytest.mark.parametrize(
    "constraints",
    [{names.NOT_UUID: "GPU-n0-0,GPU-n0-1"}, {names.UUID: "GPU-n0-3"}, {names.UUID: "GPU-n0-2,GPU-n0-3"}],
)
def test_free_devices_that_will_not_do_excuse_a_victim(
    full: FakeCluster, laws: LawWatcher, evict: Evict, constraints: dict[str, str]
) -> None:
    full.gone("a")
    full.gone("b0")
    full.waiting("w", annotations=constraints)
    full.hold("w", hold(3, victims=("b3",)))
    evict("b3")
    laws.check()


def test_a_victim_while_a_free_device_would_do_breaks_it_whatever_else_is_requested(
    full: FakeCluster, laws: LawWatcher
) -> None:
    full.gone("a")
    full.gone("b0")
    full.waiting("w", annotations={names.NOT_UUID: "GPU-n0-1", names.MIN_MEMORY: "40Gi"})
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("w", hold(3, victims=("b3",)))


def test_a_victim_is_just_where_a_pod_served_before_requests_just_what_is_free(
    full: FakeCluster, laws: LawWatcher
) -> None:
    full.gone("a")
    full.gone("b0")
    full.add_node("n1", a100(0, "n1"))
    full.waiting("first", annotations={names.UUID: "GPU-n0-0"})
    full.waiting("w", annotations={names.NOT_UUID: "GPU-n1-0"})
    full.hold("w", hold(3, victims=("b3",)))
    laws.check()


def test_a_victim_is_not_just_where_a_pod_served_before_requests_something_else(
    full: FakeCluster, laws: LawWatcher
) -> None:
    full.gone("a")
    full.gone("b0")
    full.add_node("n1", a100(0, "n1"))
    full.waiting("first", annotations={names.UUID: "GPU-n1-0"})
    full.waiting("w", annotations={names.NOT_UUID: "GPU-n1-0"})
    with breaks(laws, "L3", "n0 has 1 devices for which nobody has to go"):
        full.hold("w", hold(3, victims=("b3",)))


def test_an_eviction_for_a_hold_that_names_another_breaks_it(
    full: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    full.hold("a", hold(3, victims=("b3",)))
    with breaks(laws, "L3", "default/b2 is evicted, though no hold names it"):
        evict("b2")


def test_an_existing_hold_is_not_judged_again(full: FakeCluster, laws: LawWatcher) -> None:
    full.hold("a", hold(3, victims=("b3",)))
    full.gone("b0")
    full.annotate("a", names.CHECKPOINT_AT, "2026-11-23T09:00:00Z")
    laws.check()


def test_a_pod_that_accepts_several_models_is_served_with_the_booked_one(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.add_node("n1", a6000(0, "n1"))
    cluster.fill()
    cluster.book()
    cluster.create(a_pod("a").of("alice").asks(1))
    cluster.hold("a", hold(3, victims=("b3",)))
    laws.check()
