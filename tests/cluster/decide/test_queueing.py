"""Which pods behind our scheduling gate are ungated: one by one, and what is true of every line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import Ledger
from cluster.decide.placement import choose
from cluster.decide.predicates import rejection
from cluster.decide.queueing import AHEAD, MOST, GateQueue, by_priority_and_age, step, ungate_all
from cluster.decide.request import gpu_request_of
from cluster.objects.claims import PodClaims
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, first_created
from cluster.objects.scheduling_gates import is_queued, other_gates
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_node, a_pod

OTHERS = "kueue.x-k8s.io/admission"


def waiting(name: str, *, age: int = 0, gpus: int = 1, wants: str | None = None) -> PodBuilder:
    """A pod of bob's that was created so many minutes ago."""
    pod = a_pod(name).of("bob").of_priority(0).asks(gpus).created(EPOCH - timedelta(minutes=age))
    return pod.wants(wants) if wants else pod


def line(*pods: PodBuilder, free: int = 0, booked: Sequence[str] = ()) -> GateQueue:
    """One node with so many free GPUs, and all waiting pods; alice's booking covers some."""
    ledger = Ledger()
    node = a_node("n0", *(a100(index) for index in range(free)))
    ledger.apply_node(node)
    return GateQueue(
        pods=[pod.obj for pod in pods],
        node_snapshots={"n0": (ledger.view("n0"), "alive")},
        nodes={"n0": node},
        cover={f"uid-{name}": a_booking() for name in booked},
    )


def ungated(found: GateQueue) -> list[str]:
    return [pod.metadata.name for pod in step(found).ungated]


class TestInTheirTurn:
    def test_as_many_pods_are_ungated_as_find_a_gpu_and_a_few_ahead(self) -> None:
        pods = [waiting(f"p{age}", age=age).behind() for age in range(9)]
        assert ungated(line(*pods, free=3)) == ["p8", "p7", "p6", "p5"]

    def test_pods_are_ungated_of_which_kube_scheduler_alone_knows_what_would_do(self) -> None:
        unclear = PodClaims(count=1, problem="it has alternatives", accepted=frozenset())
        in_vain = msgspec.structs.replace(unclear, refusal=unclear.problem)
        pods = [waiting(f"p{number}").behind().obj for number in range(2 * AHEAD)]
        for claims, number in ((unclear, 2 * AHEAD), (in_vain, 1)):
            found = [msgspec.structs.replace(pod, claims=claims) for pod in pods]
            assert len(ungated(replace(line(free=1), pods=found))) == number

    def test_another_order_decides_who_is_first_but_covered_pods_stay_ahead(self) -> None:
        pods = [waiting(f"p{age}", age=age).behind() for age in range(6)]
        waits = line(*pods, free=2, booked=["p3"])
        youngest_first = replace(waits, order=lambda some: by_priority_and_age(some)[::-1])
        assert ungated(youngest_first)[:2] == ["p3", "p0"]

    def test_pods_that_are_already_ungated_count_against_the_free_gpus(self) -> None:
        pods = [waiting("old", age=9).behind(), waiting("new", age=1)]
        assert ungated(line(*pods, free=1)) == ["old"]
        assert ungated(line(pods[0], waiting("older", age=10), waiting("ahead", age=8), free=1)) == []

    def test_a_pod_that_is_too_large_for_the_free_gpus_blocks_no_other(self) -> None:
        pods = [waiting("large", age=9, gpus=4).behind(), waiting("small").behind(), waiting("l2", gpus=4)]
        assert ungated(line(*pods, free=1)) == ["small"]

    def test_the_first_pod_of_each_request_is_ungated_though_nothing_is_free(self) -> None:
        kinds = [A100, A100, A6000, "NVIDIA-H100"]
        pods = [
            waiting(f"p{9 - age}", age=age, wants=kind).behind()
            for age, kind in zip((9, 8, 7, 6), kinds, strict=True)
        ]
        assert ungated(line(*pods)) == ["p0", "p2"]

    def test_priority_comes_before_age(self) -> None:
        pods = [
            waiting("old", age=9).behind(),
            waiting("urgent").of_priority(5).behind(),
            waiting("x", age=1),
        ]
        assert ungated(line(*pods, free=1)) == ["urgent"]

    def test_a_comeback_keeps_its_place(self) -> None:
        long_ago = (EPOCH - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        back = waiting("back").with_annotation(names.FIRST_CREATED, long_ago).behind()
        assert ungated(line(waiting("old", age=9).behind(), back, free=1))[0] == "back"

    def test_a_pod_that_was_not_bound_there_in_time_is_not_waited_for(self) -> None:
        found = line(waiting("stuck", age=9), waiting("ahead", age=8), waiting("next").behind(), free=1)
        assert ungated(found) == []
        assert ungated(replace(found, unbound=frozenset({("uid-stuck", "n0"), ("uid-ahead", "n0")}))) == [
            "next"
        ]

    def test_a_node_whose_agent_is_unresponsive_has_no_gpus_to_give(self) -> None:
        found = line(waiting("p").behind(), waiting("x"), waiting("y"), free=1)
        view, _ = found.node_snapshots["n0"]
        assert ungated(replace(found, node_snapshots={"n0": (view, "unresponsive")})) == []


class TestOthers:
    def test_a_covered_pod_is_ungated_at_once(self) -> None:
        pods = [waiting("a").behind(), waiting("x"), waiting("y"), waiting("b").behind()]
        assert ungated(line(*pods, booked=["b"])) == ["b"]

    def test_our_gate_stays_as_long_as_a_foreign_one(self) -> None:
        held = waiting("held").behind(names.QUEUE, OTHERS)
        assert ungated(line(held, free=1)) == []
        assert ungated(line(held, booked=["held"])) == ["held"]

    def test_a_pod_with_an_unreadable_request_is_ungated(self) -> None:
        assert ungated(line(waiting("odd").asks(1, resource="nvidia.com/mig-1g.10gb").behind())) == ["odd"]
        unreadable = a_pod("odd").needing(cpu="1").behind().raw
        limits = {"limits": {names.GPU_RESOURCE: "half"}}
        unreadable["spec"] = {
            "schedulingGates": [{"name": names.QUEUE}],
            "containers": [{"resources": limits}],
        }
        found = replace(line(waiting("x"), waiting("y")), pods=[msgspec.convert(unreadable, Pod)])
        assert ungated(found) == ["odd"]

    def test_all_are_ungated_a_few_at_a_time(self) -> None:
        pods = [waiting(f"p{age:03}", age=age).behind() for age in range(MOST + 5)]
        found = ungate_all([*(pod.obj for pod in pods), waiting("loose", age=99).obj])
        assert [pod.metadata.name for pod in found.ungated] == [f"p{a:03}" for a in range(MOST + 4, 4, -1)]


# --- every line --------------------------------------------------------------------------------------------
KINDS = st.sampled_from([None, A100, A6000])


@dataclass
class World:
    """Nodes, pods that wait, and a scheduler that refuses some nodes for reasons of its own."""

    nodes: Mapping[str, Node]
    pods: dict[str, Pod]
    booked: frozenset[str]
    refused: frozenset[str]
    unbound: set[tuple[str, str]] = field(default_factory=set)
    bound: dict[str, Pod] = field(default_factory=dict)

    def line(self) -> GateQueue:
        ledger = Ledger()
        for node in self.nodes.values():
            ledger.apply_node(node)
        for pod in self.bound.values():
            ledger.apply_pod(pod)
        return GateQueue(
            pods=self.pods.values(),
            node_snapshots={view.name: (view, "alive") for view in ledger.views(ledger.nodes())},
            nodes=self.nodes,
            cover={uid: a_booking() for uid in self.booked & self.pods.keys()},
            unbound=frozenset(self.unbound),
        )

    def lift(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            gates = tuple(g for g in pod.spec.scheduling_gates or () if g.name != names.QUEUE)
            spec = msgspec.structs.replace(pod.spec, scheduling_gates=gates or None)
            self.pods[pod.metadata.uid] = msgspec.structs.replace(pod, spec=spec)

    def schedule(self) -> bool:
        """Bind one pod that has been ungated, the last that fits and not the first; whether one did."""
        found = self.line()
        for uid, pod in sorted(self.pods.items(), reverse=True):
            request = gpu_request_of(pod, found.cover.get(uid))
            for name, (view, _) in found.node_snapshots.items():
                if pod.spec.scheduling_gates or name in self.refused or rejection(request, view, "alive"):
                    continue
                taken = {"main": tuple(d for one in choose(request, view).values() for d in one)}
                self.bound[uid] = PodBuilder(pod.metadata.name).asks(len(taken["main"])).on(name, taken).obj
                del self.pods[uid]
                return True
        return False


@st.composite
def worlds(draw: st.DrawFn, most: int = 25) -> World:
    nodes = {}
    for name in ("n0", "n1", "n2")[: draw(st.integers(1, 3))]:
        models = draw(st.lists(st.sampled_from([a100, a6000]), max_size=3))
        nodes[name] = a_node(name, *(make(index, name) for index, make in enumerate(models)))
    pods = {}
    for number in range(draw(st.integers(0, most))):
        pod = waiting(
            f"p{number:02}", age=draw(st.integers(0, 3)), gpus=draw(st.integers(1, 2)), wants=draw(KINDS)
        )
        gates = draw(st.sampled_from([(), (names.QUEUE,), (names.QUEUE,), (names.QUEUE, OTHERS), (OTHERS,)]))
        made = replace(pod.of_priority(draw(st.sampled_from([0, 0, 5]))), gates=gates).obj
        pods[made.metadata.uid] = made
    booked = draw(st.frozensets(st.sampled_from(sorted(pods)), max_size=3)) if pods else frozenset[str]()
    return World(nodes, pods, booked, draw(st.frozensets(st.sampled_from(sorted(nodes)))))


@given(world=worlds())
def test_a_step_is_bounded_and_leaves_nothing_to_do_unless_it_reached_its_bound(world: World) -> None:
    found = step(world.line())
    assert len(found.ungated) <= MOST
    assert all(map(is_queued, found.ungated))
    world.lift(found.ungated)
    again = step(world.line())
    assert not again.ungated or len(found.ungated) == MOST


@given(world=worlds())
def test_only_a_few_more_pods_are_ungated_than_find_room(world: World) -> None:
    free = sum(len(view.devices) for view, _ in world.line().node_snapshots.values())
    opportunists = [pod for pod in step(world.line()).ungated if pod.metadata.uid not in world.booked]
    assert len(opportunists) <= free + AHEAD


@given(world=worlds())
def test_no_pod_is_ungated_before_an_older_one_with_the_same_request(world: World) -> None:
    gone = step(world.line()).ungated
    left = [
        pod for uid, pod in world.pods.items() if is_queued(pod) and pod not in gone and not other_gates(pod)
    ]
    for pod in gone:
        for other in left:
            is_like = (
                gpu_request_of(pod).key == gpu_request_of(other).key
                and not {
                    pod.metadata.uid,
                    other.metadata.uid,
                }
                & world.booked
            )
            assert not is_like or (first_created(pod), pod.metadata.uid) < (
                first_created(other),
                other.metadata.uid,
            )


@given(world=worlds())
def test_covered_pods_are_ungated_in_the_first_step(world: World) -> None:
    gone = {pod.metadata.uid for pod in step(world.line()).ungated}
    assert {uid for uid in world.booked if is_queued(world.pods[uid])} <= gone


@settings(max_examples=40)
@given(world=worlds(most=8))
def test_no_pod_stays_gated_while_a_gpu_is_free_that_the_scheduler_would_give_it(
    world: World,
) -> None:
    for _ in range(200):
        found = step(world.line())
        world.lift(found.ungated)
        if world.schedule() or found.ungated:
            continue
        late = set(found.expected.items()) - world.unbound
        if not late:
            break
        world.unbound |= late
    last = world.line()
    for uid, pod in world.pods.items():
        if is_queued(pod) and not other_gates(pod):
            request = gpu_request_of(pod, last.cover.get(uid))
            open_to_it = [
                view for name, (view, _) in last.node_snapshots.items() if name not in world.refused
            ]
            assert all(rejection(request, view, "alive") for view in open_to_it), pod.key
