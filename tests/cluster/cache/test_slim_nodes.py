"""What the cache keeps of nodes and pods is what is read of them."""

from dataclasses import replace

import msgspec

from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.slim_nodes import slim
from cluster.fake.clock import FakeClock
from cluster.kube.resources import NODES, PODS
from tests.fakes.objects import a100, a_node, a_pod


def test_the_text_of_an_inventory_is_not_kept_and_the_ledger_has_it() -> None:
    cache = ClusterCache(FakeClock())
    cache.of(NODES).upsert(a_node("n0", a100(0), blocks="[]"))
    assert cache.nodes["n0"].metadata.annotations == {names.BLOCKS: "[]"}
    with cache.locked() as ledger:
        assert [device.uuid for device in ledger.view("n0").devices] == ["GPU-n0-0"]


def test_a_node_is_whole_where_its_gpus_are_counted() -> None:
    numbered = a_node("n0", a100(0, numbered=True))
    left = a_node("n0", a100(0))
    marked = {**(left.metadata.annotations or {}), names.COUNTED: "true"}
    counted = msgspec.structs.replace(
        left, metadata=msgspec.structs.replace(left.metadata, annotations=marked)
    )
    assert slim(numbered) is numbered
    assert slim(counted) is counted


def test_pods_of_a_node_that_ask_for_the_same_have_one_spec() -> None:
    cache = ClusterCache(FakeClock())
    pod = a_pod("one").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    for one in (pod, a_pod("two").asks(1).on("n0"), a_pod("three").asks(2).on("n0")):
        cache.of(PODS).upsert(one.obj)
    cache.of(PODS).upsert(replace(pod, version=2, phase="Running").obj)
    one, two, three = (cache.pods[f"uid-{name}"].spec for name in ("one", "two", "three"))
    assert one is two
    assert three == a_pod("three").asks(2).on("n0").obj.spec


def test_a_pod_whose_spec_changes_has_the_new_one() -> None:
    cache = ClusterCache(FakeClock())
    pod = a_pod("one").asks(1).on("n0")
    cache.of(PODS).upsert(pod.obj)
    changed = replace(pod, version=2, priority=7).obj
    cache.of(PODS).upsert(changed)
    assert cache.pods["uid-one"].spec.priority == 7
