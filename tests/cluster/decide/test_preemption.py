"""Which pods kube-scheduler may evict for a pod with GPUs: examples, and properties of any node."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import Ledger
from cluster.decide.predicates import rejection
from cluster.decide.preemption import PreemptionNode, victims_of
from cluster.decide.request import gpu_request_of
from cluster.objects.inventory import Device
from cluster.objects.pods import PodStatus
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_node, a_pod

HIGH = 1000
NOW = EPOCH + timedelta(hours=1)


def holder(name: str, *devices: Device, cpu: str | None = None, priority: int = 0) -> PodBuilder:
    pod = a_pod(name).asks(len(devices)).of_priority(priority)
    if cpu:
        pod = pod.needing(cpu=cpu)
    return pod.on("n0", {"main": tuple(device.uuid for device in devices)})


def part_holder(name: str, part: Device) -> PodBuilder:
    """A pod that holds a MIG device."""
    asks = a_pod(name).asks(1, resource=f"nvidia.com/mig-{part.profile}").of_priority(0)
    return asks.on("n0", {"main": (part.uuid,)})


def ground(
    devices: tuple[Device, ...], *pods: PodBuilder, protected: frozenset[str] = frozenset()
) -> PreemptionNode:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))
    objects = {f"uid-{pod.name}": pod.obj for pod in pods}
    for pod in objects.values():
        ledger.apply_pod(pod)
    return PreemptionNode(
        view=ledger.view("n0"), agent="alive", pods=objects, protected=protected, now=NOW, restart_seconds=60
    )


def victims(wanting: PodBuilder, here: PreemptionNode, *proposed: str) -> tuple[str, ...] | None:
    return victims_of(gpu_request_of(wanting.obj), HIGH, here, proposed)


def started(here: PreemptionNode) -> PreemptionNode:
    """The same node, all its pods running for an hour."""
    since = PodStatus(start_time=EPOCH)
    return replace(
        here, pods={uid: msgspec.structs.replace(pod, status=since) for uid, pod in here.pods.items()}
    )


NODE = (a100(0), a100(1), a6000(2), a6000(3))


def test_an_offer_that_frees_what_the_pod_needs_stays_as_it_is() -> None:
    here = ground(NODE, holder("a", a100(0)), holder("b", a100(1)), holder("c", a6000(2), a6000(3)))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-b") == ("uid-b",)


def test_victims_of_another_model_are_replaced_by_the_cheapest_of_the_right_one() -> None:
    saved = holder("saved", a100(1)).with_annotation(names.CHECKPOINT_DONE, "2026-11-23T09:59:00Z")
    here = started(ground(NODE, holder("old", a100(0)), saved, holder("wrong", a6000(2), a6000(3))))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-wrong") == ("uid-saved",)


def test_a_protected_victim_is_replaced() -> None:
    here = ground(
        NODE, holder("booked", a100(0)), holder("other", a100(1)), protected=frozenset({"uid-booked"})
    )

    assert victims(a_pod().asks(3).wants(A100, A6000), here, "uid-booked") == ("uid-other",)


def test_a_node_on_which_only_protected_pods_could_leave_is_left_out() -> None:
    here = ground(
        NODE, holder("booked", a100(0), a100(1)), holder("c", a6000(2)), protected=frozenset({"uid-booked"})
    )

    assert victims(a_pod().asks(1).wants(A100), here, "uid-booked") is None
    assert victims(a_pod().asks(1).wants(A100), here, "uid-c") is None


def test_a_node_without_matching_devices_is_left_out() -> None:
    here = ground((a6000(0), a6000(1)), holder("a", a6000(0), a6000(1)))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-a") is None


@pytest.mark.parametrize("agent", ["unresponsive", "stopping", "unseen"])
def test_l6_no_pod_is_evicted_on_a_node_whose_agent_is_not_alive(agent: str) -> None:
    here = replace(ground(NODE, holder("a", a100(0))), agent=agent)

    assert victims(a_pod().asks(4), here, "uid-a") is None


def test_devices_that_are_kept_for_a_booked_pod_are_not_made_free_for_another() -> None:
    waits = a_pod("waits").asks(1).kept("n0", "GPU-n0-0")
    here = ground(NODE, holder("a", a100(0)), holder("b", a100(1)), waits)

    assert victims(a_pod().asks(1).wants(A100), here, "uid-a") == ("uid-b",)


def test_whole_gpus_do_not_help_a_pod_that_wants_mig_devices_nor_another_profile() -> None:
    small, large = (
        a100(index, uuid=f"MIG-{index}", model=f"{A100}-MIG-{profile}", parent="GPU-n0-1", profile=profile)
        for index, profile in ((2, "1g.10gb"), (3, "3g.40gb"))
    )
    here = ground(
        (a100(0), a100(1), small, large),
        holder("whole", a100(0)),
        part_holder("small", small),
        part_holder("large", large),
    )
    wanting = a_pod().asks(1, resource="nvidia.com/mig-1g.10gb")

    for offered in ("uid-whole", "uid-large", "uid-small"):
        assert victims(wanting, here, offered) == ("uid-small",)
    assert victims(wanting.wants("3g.40gb"), here, "uid-large") is None


def test_devices_that_containers_reuse_are_freed_only_once() -> None:
    here = ground(NODE[:2], holder("a", a100(0)), holder("b", a100(1)))
    wanting = a_pod().init("first", 1).sidecar("side", 1).asks(1)

    assert victims(a_pod().init("first", 1).asks(1), here, "uid-a") == ("uid-a",)
    assert victims(wanting, here, "uid-a") == ("uid-a", "uid-b")


def test_pods_of_the_same_or_a_higher_priority_do_not_replace_a_victim() -> None:
    here = ground(NODE, holder("peer", a100(0), a100(1), priority=HIGH), holder("wrong", a6000(2), a6000(3)))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-wrong") is None


def test_replacement_victims_free_at_least_as_much_cpu_as_those_they_replace() -> None:
    small = holder("small", a100(0), cpu="1")
    large = holder("large", a100(1), cpu="8")
    here = ground(NODE, small, large, holder("wrong", a6000(2), a6000(3), cpu="4"))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-wrong") == ("uid-large",)


def test_pods_without_gpus_stay_victims_and_the_most_important_come_first() -> None:
    right, wrong = holder("right", a100(0), priority=7), holder("wrong", a6000(2), a6000(3), priority=3)
    here = ground((NODE[0], *NODE[2:]), right, wrong)

    assert victims(a_pod().asks(1).wants(A100), here, "cpu-top", "uid-wrong", "cpu-low") == (
        "cpu-top",
        "uid-right",
        "cpu-low",
    )


def test_a_pod_that_is_already_leaving_counts_and_may_be_named_again() -> None:
    here = ground(NODE, holder("leaves", a100(0)).terminating(), holder("b", a100(1)), holder("c", a6000(2)))
    here = replace(here, now=EPOCH, protected=frozenset({"uid-leaves"}))

    assert victims(a_pod().asks(1).wants(A100), here, "uid-leaves") == ("uid-leaves",)
    assert victims(a_pod().asks(1).wants(A100), here, "uid-leaves", "uid-c") == ("uid-leaves", "uid-c")


def test_no_pod_is_evicted_whose_devices_are_unaccounted() -> None:
    stranger = a_pod("stranger").asks(2).on("n0")
    here = ground(NODE, stranger, holder("a", a100(0)), protected=frozenset({"uid-stranger"}))

    assert victims(a_pod().asks(3), here, "uid-stranger") is None


@st.composite
def grounds(draw: st.DrawFn) -> tuple[PreemptionNode, list[str]]:
    """A node of six devices on which pods sit, and what kube-scheduler may offer there."""
    devices = (a100(0), a100(1), a100(2), a6000(3), a6000(4), a6000(5))
    pods, free = [], list(draw(st.permutations(devices)))
    for number in range(draw(st.integers(1, 5))):
        taken = [free.pop() for _ in range(min(len(free), draw(st.integers(1, 3))))]
        if taken:
            cpu = draw(st.sampled_from([None, "1", "4"]))
            pod = holder(f"h{number}", *taken, cpu=cpu, priority=draw(st.sampled_from([0, 5, HIGH])))
            pods.append(pod.terminating() if draw(st.booleans()) and not number else pod)
    uids = [f"uid-{pod.name}" for pod in pods]
    protected = frozenset(draw(st.lists(st.sampled_from(uids), max_size=2)))
    here = replace(ground(devices, *pods, protected=protected), now=EPOCH)
    lower = [uid for uid in uids if (here.pods[uid].spec.priority or 0) < HIGH]
    offer = draw(st.lists(st.sampled_from(lower), min_size=1, unique=True)) if lower else ["cpu"]
    return here, offer


def leaving(here: PreemptionNode) -> set[str]:
    return {uid for uid, pod in here.pods.items() if pod.metadata.deletion_timestamp}


def fits(wanting: PodBuilder, here: PreemptionNode, gone: Iterable[str]) -> bool:
    """Whether the pod fits, computed from the objects that stay."""
    away = leaving(here).union(gone)
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *here.view.devices))
    for uid, pod in here.pods.items():
        if uid not in away:
            ledger.apply_pod(pod)
    return rejection(gpu_request_of(wanting.obj), ledger.view("n0"), "alive") is None


def cores(here: PreemptionNode, uids: Iterable[str]) -> int:
    return sum(
        int((container.resources.requests or {}).get("cpu", 0))
        for uid in uids
        for container in here.pods[uid].spec.containers or ()
        if container.resources
    )


def subsets(uids: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(uids, size) for size in range(len(uids) + 1))


@given(grounds(), st.integers(1, 4), st.sampled_from([(), (A100,)]))
def test_named_victims_may_be_evicted_suffice_and_could_not_be_spared(
    drawn: tuple[PreemptionNode, list[str]], gpus: int, models: tuple[str, ...]
) -> None:
    here, offer = drawn
    wanting = a_pod("wants").asks(gpus).wants(*models) if models else a_pod("wants").asks(gpus)
    found = victims(wanting, here, *offer)

    gone = leaving(here)
    may_go = [
        uid
        for uid, pod in here.pods.items()
        if uid not in here.protected | gone and (pod.spec.priority or 0) < HIGH
    ]
    offered = [uid for uid in offer if uid in here.pods and uid not in gone]
    enough = [
        some
        for some in subsets(may_go)
        if fits(wanting, here, some) and cores(here, some) >= cores(here, offered)
    ]
    if (here.protected - gone).isdisjoint(offer) and fits(wanting, here, offer):
        assert found == tuple(offer)
        return
    if found is None:
        # Where the pod already fits no victim is named: kube-scheduler has to try again.
        assert not enough or (() in enough and set(offer) == set(offered))
        return
    chosen = set(found) - gone - {"cpu"}
    assert chosen <= set(may_go)
    assert chosen in [set(some) for some in enough]
    assert not any(set(some) < chosen for some in enough)
