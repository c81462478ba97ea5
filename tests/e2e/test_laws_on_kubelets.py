"""What only real kubelets can show of the laws: each on a whole cluster, with the people's own tokens."""

import pytest

from cluster import names
from devcluster import probe
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.takeover import occupy, pod, returned, same, uuids

pytestmark = pytest.mark.e2e

DEVICES = 8
NODE = "node-a"
ON_NODE = {"nodeSelector": {HOSTNAME: NODE}}


@pytest.mark.budget(20)
def test_l1_a_burst_of_sixteen_pods_fills_eight_devices_and_no_pod_fails(playground: Playground) -> None:
    names = playground.create_all(
        probe.pod(f"burst-{n:02}", [probe.container("main", gpus=1)]) for n in range(2 * DEVICES)
    )
    bound = playground.await_that(
        "eight pods run", lambda: running if len(running := _running(playground)) == DEVICES else None
    )
    waiting = sorted(set(names) - set(bound))
    for name in waiting:
        assert "nodes are available" in playground.await_waiting(name)
    for name in bound:
        playground.check_agreement(name)
    playground.check_law_1()
    assert len({u for n in bound for us in playground.assignment(n).values() for u in us}) == DEVICES
    assert not [p.metadata.name for p in playground.pods() if p.status.phase == "Failed"]

    for name in bound:
        playground.delete(name)
    playground.await_phase(waiting)
    for name in waiting:
        playground.check_agreement(name)
    playground.check_law_1()


@pytest.mark.budget(10)
def test_l1_two_pods_share_a_gpu_each_with_its_own_part_and_a_third_waits(playground: Playground) -> None:
    def sharing(name: str, memory: int) -> str:
        limits = {names.GPU_RESOURCE: "1", names.GPU_MEMORY: str(memory)}
        # What a user writes into the environment does not win over what the slot says.
        forged = (names.DEVICES_VARIABLE, names.GPU_MEMORY_VARIABLE)
        env = [{"name": name, "value": "1"} for name in forged]
        container = probe.container("main") | {"resources": {"limits": limits}, "env": env}
        return playground.create(probe.pod(name, [container], model="NVIDIA-RTX-A6000", extra=ON_NODE))

    parts = {"large": 30_000, "small": 10_000}
    for name, memory in parts.items():
        sharing(name, memory)
    playground.await_phase(list(parts))
    (gpu,) = {uuid for name in parts for uuid in playground.assignment(name)["main"]}
    for name, memory in parts.items():
        seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
        assert seen is not None
        assert (seen.uuids, seen.env[names.GPU_MEMORY_VARIABLE]) == ((gpu,), str(memory))
        assert len(seen.gpu_minors) == 1
    rest = [playground.simple(f"whole-{n}", model="NVIDIA-RTX-A6000", node=NODE) for n in range(1)]
    playground.await_phase(rest)
    sharing("late", 20_000)
    assert "MiB" in playground.await_waiting("late")
    playground.check_law_1()
    playground.delete("large")
    playground.await_phase(["late"])
    assert playground.assignment("late")["main"] == (gpu,)
    playground.check_law_1()


@pytest.mark.budget(15)
def test_l3_l4_two_booked_pods_at_once_take_one_victim_each_and_no_more(
    alice: Person, bob: Person, playground: Playground
) -> None:
    cheap = ("bob-a-0", "bob-b-1")
    taken = occupy(bob, playground, cheap=cheap)
    alice.book(2, topology="any")
    hers = [alice.create(pod(f"alice-{n}")) for n in range(2)]
    playground.await_phase(hers)
    assert uuids(map(playground.pod, hers)) == uuids(taken[name] for name in cheap)
    for name in hers:
        playground.check_agreement(name)
    for name in cheap:
        returned(playground, taken[name])
    same(playground, (was for name, was in taken.items() if name not in cheap))


@pytest.mark.budget(15)
def test_l4_a_released_booking_ends_its_pods_and_leaves_later_ones_alone(
    alice: Person, playground: Playground
) -> None:
    booking = alice.book(1)
    covered, more = alice.create(pod("covered")), alice.create(pod("more"))
    playground.await_phase([covered, more])
    was, other = playground.pod(covered), playground.pod(more)
    assert was.metadata.annotation(names.BOOKING) == booking
    assert other.metadata.annotation(names.BOOKING) is None
    alice.release(booking)
    returned(playground, was)
    same(playground, [other])


@pytest.mark.budget(5)
def test_l7_forged_cover_annotations_are_overwritten_at_creation(bob: Person, playground: Playground) -> None:
    body = pod("forger")
    body["metadata"]["annotations"] |= {
        names.USER: "alice",
        names.BOOKING: "b-forged",
        names.ASSIGNED: '{"main": ["GPU-x"]}',
        names.HOLD: '{"node": "node-a", "devices": ["GPU-x"]}',
        names.TERMINATE_AT: "2999-01-01T00:00:00Z",
        names.FIRST_CREATED: "1999-01-01T00:00:00Z",
        names.RECREATED_FROM: "somebody",
    }
    body["metadata"]["labels"] = {names.COMEBACK: "true"}
    body["metadata"]["finalizers"] = [names.COMEBACK]
    body["spec"]["schedulerName"] = "default-scheduler"
    name = bob.create(body)
    stored = playground.pod(name)
    annotations = stored.metadata.annotations or {}
    assert annotations[names.USER] == "bob"
    ours = {key for key in annotations if names.is_ours(key)} - {names.ASSIGNED}
    assert ours <= {names.ADMITTED, names.USER, names.REPLACED}
    assert not stored.metadata.finalizers
    assert names.COMEBACK not in (stored.metadata.labels or {})
    assert stored.spec.scheduler_name == names.SCHEDULER_NAME
    assert stored.spec.priority_class_name == names.OPPORTUNISTIC_CLASS
    playground.await_phase([name])
    playground.check_agreement(name)


def _running(playground: Playground) -> list[str]:
    return sorted(p.metadata.name for p in playground.pods() if p.status.phase == "Running")
