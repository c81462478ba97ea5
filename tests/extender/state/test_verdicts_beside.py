"""Whether a pod fits beside what is reserved is kept, and found out again when anything about it changes."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.ledger.amounts import Holding
from cluster.decide.predicates import rejection
from cluster.objects.pods import Pod
from extender.state.soft_reservations import Holdings
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_lease, a_pod

NODES = ("n0", "n1")
GPUS = 3
STEPS = st.tuples(st.sampled_from(["ask", "bind", "stop", "renew"]), st.sampled_from(NODES))


@given(
    steps=st.lists(STEPS, max_size=8),
    reserved=st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=8, max_size=8),
    asking=st.lists(st.sampled_from([("p1", "q1"), ("q1", "p1"), ("q2", "q1")]), min_size=8, max_size=8),
    is_nominated=st.booleans(),
)
def test_the_answer_is_the_same_as_without_a_memory(
    *,
    steps: list[tuple[str, str]],
    reserved: list[tuple[int, int]],
    asking: list[tuple[str, str]],
    is_nominated: bool,
) -> None:
    cluster = Cluster()
    for node in NODES:
        cluster.add_node(node, *(a100(index, node) for index in range(GPUS)))
    if is_nominated:
        cluster.create(a_pod("p").asks(1).nominated_to("n0"))
    bound = dict.fromkeys(NODES, 0)
    for number, (what, node) in enumerate(steps):
        if what == "bind" and bound[node] < GPUS:
            uuids = (f"GPU-{node}-{bound[node]}",)
            cluster.create(a_pod(f"on-{node}-{bound[node]}").asks(1).on(node, {"main": uuids}))
            bound[node] += 1
        elif what == "stop":
            renewed, version = cluster.clock.now(), 1000 + number
            cluster.leases.upsert(a_lease(node, renewed=renewed, version=version, stopping=True))
        elif what == "renew":
            cluster.renew(node)
        parts = dict(zip(NODES, map(_last, NODES, reserved[number]), strict=True))
        for name, devices in asking[number]:
            pod = a_pod(name).asks(int(devices)).obj
            assert cluster.state.full_beside(cluster.state.request(pod), parts) == _anew(cluster, pod, parts)


def _last(node: str, count: int) -> Holdings:
    return tuple(Holding(f"GPU-{node}-{GPUS - 1 - index}") for index in range(count))


def _anew(cluster: Cluster, pod: Pod, reserved: dict[str, Holdings]) -> set[str]:
    request = cluster.state.request(pod)
    return {
        view.name
        for view, agent in cluster.state.snapshot(reserved)
        if rejection(request, view.holding(reserved[view.name]), agent) is not None
    }
